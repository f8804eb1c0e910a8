"""Output, events and changes that a server keeps sending."""

import asyncio
import os
import signal
import unittest

import rex_rpc
from world import PROGRAM, Case, folder_of


class Output(Case):
    async def test_output_comes_whole_and_once_whatever_the_window(self):
        session = await self.session(argv=["sh", "-c", "read go; seq 100000"])
        for window in (4096, None):
            async with session.output(offset=0, window=window) as output:
                if window:
                    await session.write("go", submit=True)
                at, data = 0, b""
                async for chunk in output:
                    self.assertEqual((chunk.offset, chunk.next, chunk.gap), (at, at + len(chunk.data), None))
                    at, data = chunk.next, data + chunk.data
            self.assertEqual(data.split()[-100000:], [b"%d" % number for number in range(1, 100001)])

    async def test_what_the_journal_lost_is_told_as_a_gap(self):
        session = await self.session(argv=["sh", "-c", "seq 100000"], journalBytes=4096)
        await self.soon(session.wait([{"exit": True}]))
        info = await session.info()
        output = session.output(offset=info["oldest"])
        self.assertEqual((await self.soon(output.__anext__())).offset, info["oldest"])
        with self.assertRaises(rex_rpc.OffsetGone):
            await session.output(offset=0).open()

    async def test_a_feed_that_is_left_is_told_no_more_and_the_session_goes_on(self):
        session = await self.session()
        async with session.output() as output:
            await session.run("echo one")
            self.assertEqual((await self.soon(output.__anext__())).text, "one\n")
        self.assertEqual(self.rex.feeds, {})
        self.assertEqual((await session.run("echo two"))["output"], "two\n")
        with self.assertRaises(StopAsyncIteration):
            await output.__anext__()

    async def test_several_follow_one_session_each_at_its_own_pace(self):
        session = await self.session()
        result = await session.run("seq 50000")
        one, other = session.output(offset=result["from"], window=4096), session.output(offset=result["from"])
        first = await self.soon(one.__anext__())
        whole = b""
        while len(whole) < result["totalBytes"]:
            whole += (await self.soon(other.__anext__())).data
        self.assertTrue(whole.startswith(first.data) and len(first.data) <= 4096)

    async def test_output_that_is_not_read_yet_is_kept_whole_however_many_pieces_it_came_in(self):
        output = self.rex.session("main").output(offset=0)
        output.attachment = "of nobody"
        pieces = rex_rpc.feeds.EVENTS_KEPT + 5
        for at in range(pieces):
            at += 100 if at >= pieces // 2 else 0
            gap = {"gap": {"from": at - 100, "to": at}} if at == pieces // 2 + 100 else {}
            news = {"offset": at, "next": at + 1, "data": "x", "encoding": "utf-8", **gap}
            output.arrive("session/output", news)
        output.end(None)
        at, data, chunks = 0, b"", [chunk async for chunk in output]
        for chunk in chunks:
            self.assertEqual(chunk.gap["from"] if chunk.gap else chunk.offset, at)
            at, data = chunk.next, data + chunk.data
        self.assertEqual((at, data, output.lost), (pieces + 100, b"x" * pieces, 0))
        self.assertEqual(sum(chunk.gap is not None for chunk in chunks), 1)
        self.assertLess(len(chunks), pieces // 200)


class Events(Case):
    async def test_events_tell_what_happens_in_one_session_or_all(self):
        session = await self.session("main")
        async with session.events() as here, self.rex.events() as everywhere:
            await session.run("cd /tmp; (exit 5)")
            for events in (here, everywhere):
                ended = None
                while ended is None:
                    event = await self.soon(events.__anext__())
                    ended = event if event["event"] == "jobEnded" else None
                self.assertEqual((ended["session"], ended["exitCode"]), ("main", 5))

    async def test_changes_below_a_path_are_told(self):
        folder = folder_of(self)
        async with self.rex.watch(str(folder), recursive=True) as changes:
            (folder / "new").write_text("x")
            told = await self.soon(changes.__anext__())
        self.assertIn("new", str(told["changes"]))

    async def test_a_feed_that_nobody_reads_keeps_the_newest_and_counts_the_rest(self):
        feed = self.rex.events()
        feed.attachment = "of nobody"
        for number in range(rex_rpc.feeds.EVENTS_KEPT + 5):
            feed.arrive("session/event", {"number": number})
        self.assertEqual((feed.lost, (await feed.__anext__())["number"]), (5, 5))


class Hosts(Case):
    async def test_what_follows_a_host_ends_when_that_is_lost(self):
        told = []
        rex = await self.enterAsync(rex_rpc.AsyncRex(PROGRAM, on_notification=lambda *news: told.append(news)))
        hop = await rex.host_connect("hop", argv=[PROGRAM])
        output = (await rex.host("hop").session().open()).output()
        await output.open()
        here = rex.events()
        await here.open()
        os.kill(int(hop["machine"]["instance"].split("-")[0]), signal.SIGKILL)
        with self.assertRaises(rex_rpc.HostLost) as lost:
            await self.soon(output.__anext__())
        self.assertEqual(lost.exception.host, "hop")
        self.assertIn("host/status", [method for method, _ in told])
        session = await rex.session().open()
        await session.run("true")
        await self.soon(here.__anext__())


if __name__ == "__main__":
    unittest.main()
