"""Thirty sessions at once through one process, each with a state of its own."""

import asyncio
import time

from rex_rpc import AsyncRex


async def work(rex, number):
    async with rex.session(env={"NUMBER": str(number)}) as session:
        await session.run("total=0")
        for _ in range(20):
            result = await session.run("total=$((total + NUMBER)); echo $total")
        return int(result["output"])


async def main():
    async with AsyncRex() as rex:
        started = time.monotonic()
        totals = await asyncio.gather(*(work(rex, number) for number in range(30)))
        print(f"30 sessions, 630 commands, {time.monotonic() - started:.2f} s; they add up to {sum(totals)}")


if __name__ == "__main__":
    asyncio.run(main())
