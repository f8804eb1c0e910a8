"""The clients beside the raw protocol, in turns. Part of bench.py.

Raw is the least that Python can do: a line written, a line read, nothing else under way. Node's turns are made by a
process of its own, which is told when: clients/typescript/test/bench.js.
"""

import asyncio
import os
import pathlib
import statistics
import subprocess
import sys
import time

CLIENTS = pathlib.Path(__file__).resolve().parents[2] / "clients"
sys.path.insert(0, str(CLIENTS / "python"))
import rex_rpc  # noqa: E402  pylint: disable=wrong-import-position

CALLS = 100  # a turn


class NodeClient:
    """A Node with a client, which makes CALLS calls when it is asked to."""

    def __init__(self, program):
        argv = ["node", CLIENTS / "typescript/test/bench.js", str(CALLS)]
        environment = {**os.environ, "REX_RPC": program}
        self._process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, name):
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != name + "\n":
            raise RuntimeError("the client for Node has ended; is it built? `npm run build` in clients/typescript does it")

    def close(self):
        self._process.communicate()


def clients(table, server, program, turns):
    """What a call costs: ping, which is all client, and a command in a session."""
    loop = asyncio.new_event_loop()
    sync, core = rex_rpc.Rex(program).open(), rex_rpc.AsyncRex(program)
    loop.run_until_complete(core.open())
    node = NodeClient(program)
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
            "ping: Node": lambda: node.turn("ping"),
            f"ping: Node, {CALLS} at once": lambda: node.turn("at once"),
            "run `true`: raw": lambda: blocking(lambda: server.call("session/run", session="clients", command="true")),
            "run `true`: Rex": lambda: blocking(lambda: session.run("true")),
            "run `true`: AsyncRex": lambda: awaited(lambda: its.run("true")),
            "run `true`: Node": lambda: node.turn("run"),
        }
        samples = {name: [] for name in sides}
        for _ in range(turns):
            for name, side in sides.items():
                begin = time.perf_counter()
                side()
                samples[name].append((time.perf_counter() - begin) / CALLS * 1e6)
    table.title("The clients: µs a call, and its overhead over raw")
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, median in medians.items():
        raw = medians[name.split(":")[0] + ": raw"]
        overhead = "" if name.endswith("raw") else f", {median - raw:+.0f} µs, {median / raw:.1f}×"
        table.row(name, f"{median:.0f}", f"{1e6 / median:,.0f} calls/s{overhead}")
    loop.run_until_complete(core.close())
    loop.close()
    sync.close()
    node.close()
