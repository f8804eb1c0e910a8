"""The Python client beside the raw protocol, in turns. Part of bench.py.

Raw is the least that Python can do: a line written, a line read, nothing else under way.
"""

import asyncio
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))
import rex_rpc  # noqa: E402  pylint: disable=wrong-import-position

CALLS = 100  # a turn


def python_client(table, server, program, turns):
    """What a call costs: ping, which is all client, and a command in a session."""
    loop = asyncio.new_event_loop()
    sync, core = rex_rpc.Rex(program).open(), rex_rpc.AsyncRex(program)
    loop.run_until_complete(core.open())
    with sync.session() as session:
        server.call("session/create", session="clients")
        its = loop.run_until_complete(core.session().open())

        async def one_by_one(call):
            for _ in range(CALLS):
                await call()

        def blocking(call):
            for _ in range(CALLS):
                call()

        def awaited(call):
            loop.run_until_complete(one_by_one(call))

        async def at_once():
            await asyncio.gather(*(core.ping() for _ in range(CALLS)))

        sides = {
            "ping: raw": lambda: blocking(lambda: server.call("ping")),
            "ping: Rex": lambda: blocking(sync.ping),
            "ping: AsyncRex": lambda: awaited(core.ping),
            f"ping: AsyncRex, {CALLS} at once": lambda: loop.run_until_complete(at_once()),
            "run `true`: raw": lambda: blocking(lambda: server.call("session/run", session="clients", command="true")),
            "run `true`: Rex": lambda: blocking(lambda: session.run("true")),
            "run `true`: AsyncRex": lambda: awaited(lambda: its.run("true")),
        }
        samples = {name: [] for name in sides}
        for _ in range(turns):
            for name, side in sides.items():
                begin = time.perf_counter()
                side()
                samples[name].append((time.perf_counter() - begin) / CALLS * 1e6)
    table.title("The Python client, µs a call")
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, median in medians.items():
        raw = medians[name.split(":")[0] + ": raw"]
        table.row(name, f"{median:.0f}", "" if name.endswith("raw") else f"{1e6 / median:,.0f}/s, {median - raw:+.0f} µs, {median / raw:.1f}×")
    loop.run_until_complete(core.close())
    loop.close()
    sync.close()
