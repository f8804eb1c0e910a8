"""`resume=True`: the instance in front is killed, and who asked for what may be asked again does not notice."""

import asyncio
import os
import pathlib
import signal
import threading
import time
import unittest
import unittest.mock

import rex_rpc
from rex_rpc import resuming
from world import DEADLINE, PROGRAM, Case, Listening, folder_of, pid_of


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def until(true):
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


class Alone:
    """A test with a runtime directory of its own, from which all processes are gone in the end."""

    def make(self):
        self.folder = folder_of(self)
        run = self.folder / "run"
        run.mkdir(mode=0o700)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(run), "XDG_STATE_HOME": str(self.folder / "state")}
        self.addCleanup(self.end_all)
        self.keys = rex_rpc.Keys()

    def end_all(self):
        for pid in self.processes():
            try:
                if "rex-session" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGTERM)
            except OSError:
                pass  # gone meanwhile
        until(lambda: not self.processes())

    def processes(self):
        mark = f"XDG_RUNTIME_DIR={self.folder}/run".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0") and state_of(path.name) not in ("Z", ""):
                    found.append(int(path.name))
            except OSError:
                pass
        return found

    def gate(self):
        os.mkfifo(self.folder / "gate")
        return f"echo ran >>{self.folder}/count; read x <{self.folder}/gate; echo done; (exit 4)"

    def count(self):
        path = self.folder / "count"
        return path.read_text().count("ran") if path.exists() else 0

    def pass_gate(self):
        (self.folder / "gate").write_text("go\n")


class Resume(Alone, Case):
    async def asyncSetUp(self):
        self.make()
        self.rex = await self.resuming(PROGRAM)

    async def resuming(self, program=None, **options):
        return await self.enterAsync(rex_rpc.AsyncRex(program, env=self.environment, resume=True, **options))

    async def kept(self, host=None, **params):
        return await (host or self.rex).session("kept", shell="bash", lifetime="daemon", **params).open()

    async def kill(self, rex=None):
        """And waits until that is known."""
        rex = rex or self.rex
        pid = pid_of(rex)
        os.kill(pid, signal.SIGKILL)
        while pid_of(rex) == pid:
            await self.soon(rex.ping())

    async def begun(self):
        await asyncio.get_running_loop().run_in_executor(None, until, lambda: self.count() == 1)

    async def test_what_has_a_key_runs_once_and_is_answered(self):
        session = await self.kept()
        pending = asyncio.ensure_future(session.run(self.gate(), key=self.keys.new()))
        await self.begun()
        for _ in range(3):
            await self.kill()
        self.pass_gate()
        result = await self.soon(pending)
        self.assertEqual((result["output"], result["exitCode"], self.count()), ("done\n", 4, 1))
        await session.close()

    async def test_what_only_reads_is_asked_again_and_all_else_fails_at_once_as_unknown(self):
        session = await self.kept()
        running = asyncio.ensure_future(session.run(self.gate()))
        await self.begun()
        waiting = asyncio.ensure_future(session.wait([{"exit": True}]))
        changed = asyncio.ensure_future(session.wait([{"file": f"{self.folder}/never", "changed": True}]))
        await self.rex.ping()
        await self.kill()
        for failing in (running, changed):
            with self.assertRaises(rex_rpc.ConnectionLost) as lost:
                await self.soon(failing)
            self.assertEqual(lost.exception.executed, "unknown")
        self.assertFalse(waiting.done())
        self.pass_gate()
        self.assertEqual((await self.soon(waiting))["result"]["exitCode"], 4)
        self.assertEqual(self.count(), 1)

    async def test_output_goes_on_byte_by_byte(self):
        session = await self.kept()
        await session.run("true")
        for window in (4096, None):
            output = session.output(window=window)
            await output.open()
            result = asyncio.ensure_future(session.run("seq 200000", key=self.keys.new(), maxOutputBytes=100))
            data, at, killed = b"", None, 0
            while not data.endswith(b"\n200000\n"):
                chunk = await self.soon(output.__anext__())
                self.assertEqual((chunk.offset, chunk.gap), (chunk.offset if at is None else at, None))
                at, data = chunk.next, data + chunk.data
                if len(data) > (killed + 1) * 300_000:
                    killed += 1
                    await self.kill()
            self.assertEqual((data, killed), (b"".join(b"%d\n" % number for number in range(1, 200_001)), 4))
            self.assertEqual((await self.soon(result))["totalBytes"], len(data))
            await output.close()
        self.assertEqual(self.rex.feeds, {})

    async def test_a_reader_who_comes_late_gets_all_and_the_journal_s_loss_as_a_gap(self):
        session = await self.kept(journalBytes=65536)
        output = session.output(offset=0, window=4096)
        await output.open()
        await session.run("seq 100000")
        await self.kill()
        end, at, lost = (await session.info())["next"], 0, 0
        while at < end:
            chunk = await self.soon(output.__anext__())
            self.assertEqual(chunk.gap["from"] if chunk.gap else chunk.offset, at)
            lost += chunk.offset - at
            at = chunk.next
        self.assertGreater(lost, 400_000)

    async def test_what_the_journal_lost_takes_up_no_window_of_a_reader_who_goes_on(self):
        session = await self.kept(journalBytes=65536)
        at = (await session.info())["next"]
        output = session.output(offset=at, window=4096)
        await output.open()

        async def has(count):
            while len(output._kept) < count:  # pylint: disable=protected-access
                await self.soon(self.rex.ping())

        for count in (1, 2):  # half a window each
            await session.run("head -c 2048 /dev/zero | tr '\\0' x")
            await has(count)
        await session.run("seq 100000")
        for _ in range(2):  # that the first is consumed makes room for what is behind the gap
            chunk = await self.soon(output.__anext__())
            self.assertEqual((chunk.offset, chunk.next), (at, at + 2048))
            at = chunk.next
        await has(1)
        await self.kill()
        end = (await session.info())["next"]
        chunk = await self.soon(output.__anext__())
        self.assertEqual(chunk.gap["from"], at)
        while chunk.next < end:
            at, chunk = chunk.next, await self.soon(output.__anext__())
            self.assertEqual((chunk.offset, chunk.gap), (at, None))

    async def test_live_output_of_a_run_comes_once(self):
        session = await self.kept()
        pieces, arrived = [], asyncio.Event()
        progress = lambda value: (pieces.append(rex_rpc.data_of(value)), arrived.set())  # noqa: E731
        command = f"seq 5000; {self.gate()}; seq 5000"
        pending = asyncio.ensure_future(session.run(command, key=self.keys.new(), progress=progress))
        await self.soon(arrived.wait())
        await self.kill()
        await self.begun()
        self.pass_gate()
        result = await self.soon(pending)
        self.assertEqual(b"".join(pieces).decode(), result["output"])

    async def test_sessions_of_the_connection_are_gone_and_that_is_said(self):
        own = await self.rex.session("own").open()
        output = own.output()
        await output.open()
        pending = asyncio.ensure_future(own.run(self.gate(), key=self.keys.new()))
        await self.begun()
        await self.kill()
        with self.assertRaises(rex_rpc.OutcomeUnknown) as unknown:
            await self.soon(pending)
        self.assertEqual(unknown.exception.executed, "unknown")
        for asked in (own.info(), output.__anext__()):
            with self.assertRaises(rex_rpc.SessionNotFound):
                await self.soon(asked)
        async with self.rex.session("own") as new:
            self.assertEqual((await new.run("echo new"))["output"], "new\n")

    async def test_events_and_changes_go_on_and_say_that_some_may_be_missing(self):
        session = await self.kept()
        events, changes = session.events(), self.rex.watch(str(self.folder))
        await events.open()
        await changes.open()
        await self.kill()
        self.assertEqual((await self.soon(events.__anext__()))["event"], "stateChanged")
        self.assertTrue((await self.soon(changes.__anext__()))["overflow"])
        await events.close()
        with self.assertRaises(StopAsyncIteration):
            await events.__anext__()

    async def test_hosts_are_connected_again_and_what_runs_there_goes_on(self):
        await self.rex.host_connect("a", argv=[PROGRAM])
        await self.rex.host("a").host_connect("b", argv=[PROGRAM])
        await self.rex.host_connect("gone", argv=[PROGRAM])
        await self.rex.host_disconnect("gone")
        session = await self.kept(self.rex.host("a/b"))
        output = session.output()
        await output.open()
        pending = asyncio.ensure_future(session.run(self.gate(), key=self.keys.new()))
        await self.begun()
        await self.kill()
        self.pass_gate()
        result = await self.soon(pending)
        self.assertEqual((result["output"], result["host"], self.count()), ("done\n", "a/b", 1))
        self.assertEqual((await self.soon(output.__anext__())).text, "done\n")
        self.assertEqual([host["name"] for host in (await self.rex.host_list())["hosts"]], ["a"])

    async def test_a_server_that_listens_is_dialled_until_it_is_there_again(self):
        place = f"unix:{self.folder}/rex.sock"
        with unittest.mock.patch.dict(os.environ, self.environment):
            first = Listening(self, "--listen", place)
            rex = await self.resuming(connect=place)
            session = await self.kept(rex)
            pending = asyncio.ensure_future(session.run(self.gate(), key=self.keys.new()))
            await self.begun()
            first.process.kill()
            first.process.wait()
            Listening(self, "--listen", place)
        self.pass_gate()
        self.assertEqual(((await self.soon(pending))["exitCode"], self.count()), (4, 1))

    async def test_where_nothing_can_be_opened_any_more_the_first_error_comes(self):
        program = self.folder / "program"
        program.symlink_to(PROGRAM)
        rex = await self.resuming(str(program))
        session = await self.kept(rex)
        output = session.output()
        await output.open()
        pending = asyncio.ensure_future(session.run(self.gate(), key=self.keys.new()))
        await self.begun()
        program.unlink()
        with unittest.mock.patch.object(resuming, "PATIENCE_S", 0.5):
            os.kill(pid_of(rex), signal.SIGKILL)
            for asked in (pending, output.__anext__()):
                with self.assertRaises(rex_rpc.ConnectionLost) as lost:
                    await self.soon(asked)
                self.assertEqual(lost.exception.executed, "unknown")
                self.assertIn("SIGKILL", lost.exception.reason)
        with self.assertRaises(rex_rpc.ConnectionLost) as later:
            await self.soon(rex.ping())
        self.assertEqual(later.exception.executed, "no")

    async def test_a_program_that_dies_of_each_request_is_not_started_for_ever(self):
        words = 'n=$(cat count); echo $((n+1)) >count; exec "$0" --private'
        (self.folder / "count").write_text("0\n")
        rex = await self.enterAsync(rex_rpc.AsyncRex(
            argv=["sh", "-c", words, PROGRAM], cwd=str(self.folder), env=self.environment, resume=True
        ))  # fmt: skip
        waiting = asyncio.ensure_future(rex.session_list())
        with unittest.mock.patch.object(resuming, "PATIENCE_S", 1.0):
            while True:
                try:
                    os.kill(pid_of(rex), signal.SIGKILL)
                except ProcessLookupError:
                    pass
                try:
                    await self.soon(rex.ping())
                except rex_rpc.ConnectionLost:
                    break
        await asyncio.wait([waiting])
        self.assertLess(int((self.folder / "count").read_text()), 12)

    async def test_closing_ends_the_resuming_at_once(self):
        await self.rex.close()
        program = self.folder / "program"
        for sick in ("", "#!/bin/sh\nexec sleep 1000\n"):
            program.unlink(missing_ok=True)
            program.symlink_to(PROGRAM)
            rex = await rex_rpc.AsyncRex(str(program), env=self.environment, resume=True).open()
            output = rex.watch(str(self.folder))
            await output.open()
            program.unlink()
            if sick:
                program.write_text(sick)
                program.chmod(0o755)
            os.kill(pid_of(rex), signal.SIGKILL)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(rex.ping(), 0.5)
            pending = asyncio.ensure_future(rex.ping())
            started = time.monotonic()
            await self.soon(rex.close())
            self.assertLess(time.monotonic() - started, 5)
            for asked in (pending, output.__anext__()):
                with self.assertRaises(rex_rpc.ConnectionLost):
                    await self.soon(asked)
            until(lambda: not self.processes())

    async def test_a_feed_that_is_left_while_nobody_is_there_stays_left(self):
        session = await self.kept()
        output = session.output()
        await output.open()
        os.kill(pid_of(self.rex), signal.SIGKILL)
        while self.rex.feeds:
            await asyncio.sleep(0)
        await self.soon(output.close())
        await self.soon(session.run("echo more"))
        self.assertEqual(self.rex.feeds, {})
        with self.assertRaises(StopAsyncIteration):
            await output.__anext__()


class ResumeSync(Alone, unittest.TestCase):
    def test_who_blocks_does_not_notice_either(self):
        self.make()
        with rex_rpc.Rex(PROGRAM, env=self.environment, resume=True) as rex:
            session = rex.session("kept", shell="bash", lifetime="daemon").open()

            def disturb():
                until(lambda: self.count() == 1)
                os.kill(pid_of(rex), signal.SIGKILL)
                self.pass_gate()

            disturber = threading.Thread(target=disturb)
            with session.output() as output:
                command = self.gate()
                disturber.start()
                self.assertEqual(session.run(command, key=self.keys.new())["exitCode"], 4)
                self.assertEqual(next(output).text, "done\n")
            disturber.join()
            session.close()
        self.assertEqual(self.count(), 1)


if __name__ == "__main__":
    unittest.main()
