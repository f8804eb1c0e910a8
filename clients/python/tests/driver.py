"""The driver of tests/conformance/client.py for AsyncRex: makes the calls it is told, prints what became of them."""

import asyncio
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from rex_rpc import AsyncRex, ConnectionLost, RequestCancelled, RexError, data_of  # noqa: E402


def say(**line):
    print(json.dumps(line), flush=True)


def told(error):
    if isinstance(error, ConnectionLost):
        return {"lost": error.executed}
    said = {"code": error.code, "type": error.type, "message": error.message, "executed": error.executed}
    return {"error": {**said, "retryable": error.retryable, "data": error.data}}


def rex_error_of(cancelled):
    """What a cancelled call ended with; None if nothing said so."""
    cause = cancelled
    while cause and not isinstance(cause, RexError):
        cause = cause.__cause__ or cause.__context__
    return cause


async def call(rex, tag, order):
    progress = (lambda value: say(tag=tag, progress=value)) if order.get("progress") else None
    try:
        say(tag=tag, result=await rex.call(order["call"], order["params"], progress))
    except RexError as error:
        say(tag=tag, **told(error))
    except asyncio.CancelledError as cancelled:
        say(tag=tag, **told(rex_error_of(cancelled) or RequestCancelled("given up")))


async def follow(rex, tag, params):
    try:
        async for chunk in rex.use_session(params.pop("session")).output(**params):
            say(tag=tag, offset=chunk.offset, data=chunk.text)
        say(tag=tag, ended=True)
    except RexError as error:
        say(tag=tag, **told(error))


def answer(question):
    say(prompt=question)
    return "open sesame"


async def main():
    rex, orders, tasks = AsyncRex(prompt=answer), asyncio.StreamReader(limit=1 << 24), {}
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    try:
        await rex.open()
    except RexError as error:
        return say(opened=False, **told(error))
    say(opened=True, can=["progress", "cancel", "follow", "prompt"])
    async for line in orders:
        order = json.loads(line)
        if "cancel" in order:
            tasks[order["cancel"]].cancel()
            continue
        tag = order["tag"]
        work = follow(rex, tag, order["follow"]) if "follow" in order else call(rex, tag, order)
        tasks[tag] = asyncio.ensure_future(work)
    await asyncio.gather(*tasks.values())
    await rex.close()


if __name__ == "__main__":
    asyncio.run(main())
