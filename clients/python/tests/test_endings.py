"""How it ends: servers that die, lie or never were, and clients that leave. No call may hang, and each error says whether
what was asked for took place.
"""

import asyncio
import os
import signal
import sys
import unittest

import rex_rpc
from world import PROGRAM, Case, folder_of, pid_of

# A server of tests that answers `initialize` with what it is given, then as its words say.
FALSE_SERVER = """
import json, sys
def take():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.split()[-1])
    return json.loads(sys.stdin.buffer.read(length))
def give(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()
give(id=take()["id"], result={})
"""


def false_server(words):
    return rex_rpc.AsyncRex(argv=[sys.executable, "-c", FALSE_SERVER + words])


class Servers(Case):
    async def test_what_is_under_way_when_the_server_dies_fails_and_is_unknown(self):
        session = await self.session()
        calls = [asyncio.ensure_future(session.run("sleep 1000"))]
        await self.rex.ping()  # behind the call
        calls.append(asyncio.ensure_future(session.wait([{"exit": True}])))
        output = session.output()
        await output.open()
        os.kill(pid_of(self.rex), signal.SIGKILL)
        for call in calls:
            with self.assertRaises(rex_rpc.ConnectionLost) as lost:
                await self.soon(call)
            self.assertEqual((lost.exception.executed, lost.exception.retryable), ("unknown", False))
            self.assertIn("SIGKILL", lost.exception.reason)
        with self.assertRaises(rex_rpc.ConnectionLost):
            await self.soon(output.__anext__())
        with self.assertRaises(rex_rpc.ConnectionLost) as later:
            await self.soon(self.rex.ping())
        self.assertEqual(later.exception.executed, "no")
        await self.soon(self.rex.close())

    async def test_the_last_words_of_a_server_are_in_the_exception(self):
        words = 'echo "cannot open the pod bay doors" >&2; exit 3'
        for command, said in ((words, "pod bay"), (f"sleep 1000 & {words}", "pod bay"), ("echo hello", "no rex-rpc"),
                              ("echo Welcome; exec sleep 1000", "Welcome")):  # fmt: skip
            with self.subTest(command), self.assertRaises(rex_rpc.ConnectionLost) as lost:
                await self.soon(rex_rpc.AsyncRex(argv=["sh", "-c", command]).open())
            self.assertIn(said, str(lost.exception))
            if said in words:
                self.assertIn("exit code 3", lost.exception.reason)
                self.assertIn(said, lost.exception.stderr)

    async def test_a_program_that_is_not_there_is_an_error_of_its_own(self):
        with self.assertRaises(FileNotFoundError):
            await rex_rpc.AsyncRex("/none/rex-rpc").open()
        with self.assertRaises(OSError):
            await rex_rpc.AsyncRex(connect=f"unix:{folder_of(self)}/none").open()
        with self.assertRaises(ValueError):
            await rex_rpc.AsyncRex(connect="somewhere").open()

    async def test_who_is_not_open_says_so(self):
        rex = rex_rpc.AsyncRex(PROGRAM)
        for when in ("before", "after"):
            with self.subTest(when), self.assertRaises(rex_rpc.ConnectionLost) as lost:
                await rex.ping()
            self.assertEqual(lost.exception.executed, "no")
            async with rex:
                await rex.ping()

    async def test_a_session_that_was_lost_with_its_server_is_left_without_an_error(self):
        rex = rex_rpc.AsyncRex(PROGRAM)
        async with rex:
            async with rex.session():
                os.kill(pid_of(rex), signal.SIGKILL)

    async def test_leaving_ends_the_server_and_what_it_ran(self):
        rex = rex_rpc.AsyncRex(PROGRAM)
        async with rex:
            session = await rex.session().open()
            result = await session.run("sleep 1000 & echo $!")
            server = pid_of(rex)
        for pid in (server, int(result["output"])):
            self.assertFalse(os.path.exists(f"/proc/{pid}"))


class Messages(Case):
    async def test_what_a_client_does_not_know_it_passes_over(self):
        words = """
give(method="news/of/tomorrow", params={})
give(method="session/output", params={"attachment": "of somebody else"})
give(id=4711, result={})
give(id=7, method="question/of/tomorrow", params={})
seen = {}
while len(seen) < 2:
    message = take()
    if message.get("method") == "ping" or message.get("id") == 7:
        seen[message.get("method")] = message
give(id=seen["ping"]["id"], result={"time": str(seen[None])})
take()
"""
        async with false_server(words) as rex:
            self.assertIn("-32601", (await self.soon(rex.ping()))["time"])

    async def test_a_message_that_is_none_ends_the_connection_with_a_reason(self):
        for bad in ('sys.stdout.write("{}\\n\\n\\r\\n\\r\\n")', 'sys.stdout.write("Content-Length: -1\\r\\n\\r\\n")',
                    'sys.stdout.write("Content-Length: 2\\r\\n\\r\\n[]")', 'sys.stdout.write("Content-Length: 9\\r\\n\\r\\n{")',
                    'give(id=[1], result={})', 'give(result={})', 'give(method="$/progress")'):  # fmt: skip
            rex = await false_server(f"take()\ntake()\n{bad}\nsys.stdout.flush()").open()
            with self.subTest(bad), self.assertRaises(rex_rpc.ConnectionLost) as lost:
                await self.soon(rex.ping())
            self.assertRegex(lost.exception.reason, "no rex-rpc|within a message")
            await rex.close()

    async def test_an_error_that_is_newer_than_this_client_is_an_error_all_the_same(self):
        words = """
take()
give(id=take()["id"], error={"code": 1999, "message": "new", "data": {"type": "Newest", "executed": "yes"}})
give(id=take()["id"], error={"code": -32001, "message": "bare"})
"""
        rex = await false_server(words).open()
        for facts in (("Newest", 1999, "yes"), ("RexError", -32001, "unknown")):
            with self.assertRaises(rex_rpc.RexError) as raised:
                await self.soon(rex.ping())
            self.assertEqual((raised.exception.type, raised.exception.code, raised.exception.executed), facts)
        await rex.close()


if __name__ == "__main__":
    unittest.main()
