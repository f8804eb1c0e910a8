"""Calls, sessions and their errors, with await. Each test has a rex-rpc of its own."""

import asyncio
import os
import re
import unittest

from rex_rpc import errors_gen, methods_gen, wire
import rex_rpc
from world import PROGRAM, Case, folder_of


class Sessions(Case):
    async def test_a_session_keeps_its_state_and_tells_exact_codes(self):
        async with self.rex.session("main", env={"GREETING": "hello"}) as session:
            self.assertEqual(session.name, "main")
            self.assertEqual(session.created["state"], "ready")
            await session.run("cd /tmp; there=$GREETING")
            result = await session.run("echo $there from $PWD; false | true; (exit 7)")
            self.assertEqual((result["output"], result["exitCode"]), ("hello from /tmp\n", 7))
        self.assertEqual([info["state"] for info in (await self.rex.session_list())["sessions"] if info["state"] != "exited"], [])

    async def test_thirty_sessions_run_beside_each_other(self):
        async def one(number):
            async with self.rex.session() as session:
                return [(await session.run(f"echo {number} {step}"))["output"] for step in range(3)]

        outputs = await self.soon(asyncio.gather(*map(one, range(30))))
        self.assertEqual(outputs, [[f"{number} {step}\n" for step in range(3)] for number in range(30)])

    async def test_a_command_that_waits_for_input_says_so_and_gets_it(self):
        session = await self.session()
        asked = await self.soon(session.run("read -rp 'Deploy? ' answer; echo you said $answer"))
        self.assertEqual((asked["state"], asked["waiting"]["text"]), ("waitingInput", "Deploy? "))
        await session.write("no", submit=True)
        ended = await self.soon(session.wait([{"exit": True}]))
        self.assertIn("you said no\n", ended["result"]["output"])

    async def test_a_repl_is_driven_without_patterns(self):
        session = await self.session()
        await self.soon(session.run("python3 -q"))
        self.assertEqual((await self.soon(session.run("6 * 7", interactive=True)))["output"], "42\n>>> ")
        self.assertEqual((await self.soon(session.run("exit()", interactive=True)))["state"], "exited")

    async def test_interrupt_wait_read_and_screen_are_methods_of_the_session(self):
        session = await self.session(rows=5, cols=40)
        await session.run("echo ready; exec 3<>/dev/null; sleep 1000", waitMs=0)
        met = await self.soon(session.wait([{"match": "ready"}, {"exit": True}]))
        self.assertEqual(met["met"], 0)
        self.assertIn("ready", (await session.screen())["lines"][0])
        self.assertEqual(rex_rpc.data_of(await session.read(offset=0, maxBytes=6)), b"ready\n")
        interrupted = await self.soon(session.interrupt(escalate=True))
        self.assertEqual(interrupted["result"]["exitCode"], 130)

    async def test_a_session_that_is_there_can_be_used_and_is_left_alone(self):
        made = await self.session("shared")
        async with self.rex.use_session("shared") as same:
            await same.run("x=1")
        self.assertEqual((await made.run("echo $x"))["output"], "1\n")

    async def test_leaving_a_session_that_is_closed_already_is_no_error(self):
        async with self.rex.session() as session:
            await session.close()


class Kept(Case):
    async def test_a_request_with_a_key_takes_place_once_whoever_is_asked_again(self):
        log, keys = folder_of(self) / "log", rex_rpc.Keys()
        other = await self.enterAsync(rex_rpc.AsyncRex(PROGRAM))
        first, second = keys.new(), keys.new()
        answer = await self.rex.file_write(str(log), "one\n", append=True, key=first)
        self.assertEqual(await other.file_write(str(log), "one\n", append=True, key=first), answer)
        session = await self.session()
        results = [await session.run(f"echo two >>{log}; echo told", key=second) for _ in range(2)]
        self.assertEqual((results[0], results[0]["output"]), (results[1], "told\n"))
        self.assertEqual(log.read_text(), "one\ntwo\n")
        with self.assertRaises(rex_rpc.KeyConflict):
            await session.run("true", key=second)
        keys.done(first)
        keys.done(second)
        third = keys.new()
        self.assertEqual((third["seq"], third["acked"]), (3, 2))
        await session.run("true", key=third)
        with self.assertRaises(rex_rpc.OutcomeUnknown) as unknown:
            await session.run("true", key=second)
        self.assertEqual((unknown.exception.reason, unknown.exception.executed), ("forgotten", "unknown"))

    async def test_what_is_typed_comes_once_by_its_place(self):
        session = await self.session(argv=["sh", "-c", "read one; echo got $one"], tty=False)
        for _ in range(2):
            self.assertEqual((await session.write("x\n", inputOffset=0))["accepted"], 2)
        await self.soon(session.wait([{"exit": True}]))
        self.assertEqual(rex_rpc.data_of(await session.read(offset=0)), b"got x\n")


class Values(Case):
    async def test_bytes_that_are_no_text_go_there_and_come_back(self):
        folder = os.fsencode(folder_of(self))
        name, content = folder + b"/caf\xe9", bytes(range(256))
        await self.rex.file_write(name, content)
        with open(name, "rb") as file:
            self.assertEqual(file.read(), content)
        self.assertEqual(rex_rpc.data_of(await self.rex.file_read(os.fsdecode(name))), content)
        listed = await self.rex.process_run(["ls", folder], env={"NOT_TEXT": b"\xff", "GONE": None})
        self.assertEqual(rex_rpc.data_of(listed, "stdout"), b"caf\xe9\n")
        self.assertEqual((await self.rex.process_run(["cat"], stdin="text"))["stdout"], "text")

    async def test_from_is_written_from_(self):
        folder = folder_of(self)
        await self.rex.file_write(str(folder / "a"), "text")
        await self.rex.file_rename(from_=str(folder / "a"), to=str(folder / "b"))
        self.assertEqual((folder / "b").read_text(), "text")

    async def test_text_that_cannot_travel_is_refused_here_and_hurts_nobody(self):
        session = await self.session()
        with self.assertRaises(UnicodeEncodeError):
            await self.rex.call("ping", {"host": "\ud800"})
        self.assertEqual((await session.run("echo on"))["output"], "on\n")

    async def test_progress_brings_the_output_as_it_comes_and_all_of_it(self):
        session = await self.session()
        pieces = []
        result = await session.run("seq 1000; sleep 0; seq 1000", progress=pieces.append)
        self.assertEqual(b"".join(rex_rpc.data_of(piece) for piece in pieces).decode(), result["output"])

    async def test_a_progress_callback_that_fails_harms_no_call(self):
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        session = await self.session()
        self.assertEqual((await session.run("echo on", progress=lambda _: 1 / 0))["output"], "on\n")
        self.assertIsInstance(told[0]["exception"], ZeroDivisionError)


class Errors(Case):
    async def test_each_type_of_error_is_a_class_that_tells_its_data(self):
        self.assertEqual({kind.type: code for code, kind in errors_gen.BY_CODE.items()}, wire.ERROR_CODES)
        session, small = await self.session("main"), await self.session(journalBytes=4096)
        await small.run("seq 10000")
        table = (
            (rex_rpc.SessionNotFound, self.rex.use_session("none").run("true"), {"executed": "no"}),
            (rex_rpc.SessionExists, self.rex.session("main").open(), {"code": 1102}),
            (rex_rpc.InvalidParams, session.run("true", waitMs=-1), {"member": "waitMs"}),
            (rex_rpc.MethodNotFound, self.rex.call("no/method", {}), {"code": -32601}),
            (rex_rpc.OsError, self.rex.file_read("/none"), {"name": "ENOENT", "errno": 2, "path": "/none"}),
            (rex_rpc.InputRefused, session.write("x", secret=True), {"retryable": False}),
            (rex_rpc.HostNotFound, self.rex.host("none").ping(), {"executed": "no"}),
            (rex_rpc.OffsetGone, small.read(offset=0), {"next": 48894, "executed": "no"}),
            (rex_rpc.StartFailed, self.rex.session(argv=["/none"]).open(), {"name": "ENOENT"}),
        )
        for kind, awaitable, facts in table:
            with self.subTest(kind.__name__), self.assertRaises(kind) as raised:
                await awaitable
            with self.subTest(kind.__name__):
                self.assertEqual({name: getattr(raised.exception, name) for name in facts}, facts)
        await session.run("sleep 1000", waitMs=0)
        with self.assertRaises(rex_rpc.SessionBusy) as busy:
            await session.run("true")
        self.assertEqual((busy.exception.job, busy.exception.retryable), ("1", True))

    async def test_a_command_that_fails_is_a_result(self):
        session = await self.session()
        self.assertEqual((await session.run("if then"))["syntaxError"]["line"], 1)
        self.assertEqual((await session.run("kill -9 $$"))["state"], "shellExited")
        self.assertEqual((await session.run("true"))["restarted"]["cause"], "signal 9")


class Cancelling(Case):
    async def test_a_cancelled_call_stops_what_it_started_before_the_task_ends(self):
        session = await self.session()
        begun = asyncio.Event()
        call = asyncio.ensure_future(session.run("echo begun; sleep 1000", progress=lambda _: begun.set()))
        await self.soon(begun.wait())
        call.cancel()
        with self.assertRaises(asyncio.CancelledError) as cancelled:
            await call
        cause = cancelled.exception
        while cause and not isinstance(cause, rex_rpc.RexError):
            cause = cause.__cause__ or cause.__context__  # Python 3.10 makes a new exception for who awaits the task
        self.assertIsInstance(cause, rex_rpc.RequestCancelled)
        self.assertEqual((cause.result["state"], cause.result["output"].split()), ("cancelled", ["begun"]))
        self.assertEqual((await session.run("echo free"))["output"], "free\n")

    async def test_a_deadline_of_asyncio_is_a_cancel(self):
        session = await self.session()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run("sleep 1000"), 0.01)
        self.assertEqual((await session.info())["state"], "ready")

    async def test_a_wait_that_is_cancelled_stops_no_job(self):
        session = await self.session()
        await session.run("sleep 1000", waitMs=0)
        waiting = asyncio.ensure_future(session.wait([{"exit": True}]))
        await self.rex.ping()  # behind the wait
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await self.soon(waiting)
        self.assertEqual((await session.info())["state"], "running")

    async def test_whoever_cancels_twice_does_not_wait_for_the_word_that_it_is_gone(self):
        session = await self.session()
        command = "trap '' INT TERM; echo begun; while :; do sleep 1000; done"
        begun = asyncio.Event()
        call = asyncio.ensure_future(session.run(f"({command})", progress=lambda _: begun.set()))
        await self.soon(begun.wait())
        call.cancel()
        await asyncio.sleep(0)  # the call takes the first one
        call.cancel()
        with self.assertRaises(asyncio.CancelledError) as cancelled:
            await self.soon(call)
        self.assertIsNone(cancelled.exception.__cause__)


class Contract(unittest.TestCase):
    def test_every_request_of_the_protocol_is_a_method_of_both_faces(self):
        by_hand = {
            "initialize": "open", "shutdown": "close", "session/create": "session", "session/attach": "output",
            "session/subscribe": "events", "file/watch": "watch", "rpc.discover": "call",
        }  # fmt: skip
        within = {"session/detach", "session/unsubscribe", "file/unwatch"}  # what leaving a feed sends
        between = {"file/send", "file/receive", "forward/listen", "forward/connect"}  # instances ask these of each other
        for host, session in ((rex_rpc.AsyncRex, rex_rpc.AsyncSession), (rex_rpc.Rex, rex_rpc.Session)):
            for request in set(wire.REQUESTS) - within - between:
                name = by_hand.get(request) or re.sub("^session/(?!list)", "", request).replace("/", "_")
                self.assertTrue(hasattr(host, name) or hasattr(session, name), f"{host.__name__}: {request}")

    def test_the_two_faces_have_the_same_methods(self):
        for one, other in (("AsyncHostMethods", "HostMethods"), ("AsyncSessionMethods", "SessionMethods")):
            self.assertEqual(dir(getattr(methods_gen, one)), dir(getattr(methods_gen, other)))
        for one, other in ((rex_rpc.AsyncRex, rex_rpc.Rex), (rex_rpc.AsyncSession, rex_rpc.Session), (rex_rpc.AsyncHost, rex_rpc.Host)):
            ours = {name for name in dir(one) if not name.startswith("_")} - {"notify", "open_feed", "request", "notify_server", "leave"}
            self.assertLessEqual(ours, set(dir(other)))


if __name__ == "__main__":
    unittest.main()
