"""Servers that are reached and not started, and hosts behind them."""

import os
import pathlib
import re
import shutil
import sys
import unittest

import rex_rpc
from world import PROGRAM, ROOT, Case, Listening, folder_of

sys.path.insert(0, str(ROOT / "tests/support"))
from ssh_server import SshServer  # noqa: E402  pylint: disable=wrong-import-position

HAS_SSHD = os.getuid() == 0 and pathlib.Path("/usr/sbin/sshd").exists()


class Connecting(Case):
    async def test_a_server_on_a_unix_socket_is_reached_and_lives_on(self):
        place = f"{folder_of(self)}/rex.sock"
        listening = Listening(self, "--listen", f"unix:{place}")
        for address in (f"unix:{place}", f"unix://{place}"):
            async with rex_rpc.AsyncRex(connect=address) as rex, rex.session() as session:
                self.assertEqual((await session.run("echo over $PPID"))["exitCode"], 0)
                self.assertEqual(int(rex.server["machine"]["instance"].split("-")[0]), listening.process.pid)
        self.assertIsNone(listening.process.poll())

    async def test_a_server_on_tcp_wants_its_token(self):
        token = folder_of(self) / "token"
        listening = Listening(self, "--listen", "tcp:127.0.0.1:0", "--token-file", str(token))
        address = re.search(r"tcp:[0-9.:]+", listening.said).group()
        async with rex_rpc.AsyncRex(connect=address, token=token.read_text().strip()) as rex:
            await rex.ping()
        for wrong in ("wrong", None):
            with self.subTest(wrong), self.assertRaises(rex_rpc.Unauthenticated) as refused:
                await rex_rpc.AsyncRex(connect=address, token=wrong).open()
            self.assertEqual(refused.exception.executed, "no")

    async def test_whoever_is_connected_is_told_when_the_server_ends(self):
        listening = Listening(self, "--listen", f"unix:{folder_of(self)}/rex.sock")
        rex = await self.enterAsync(rex_rpc.AsyncRex(connect=re.search(r"unix:\S+", listening.said).group()))
        listening.process.kill()
        with self.assertRaises(rex_rpc.ConnectionLost):
            while True:
                await self.soon(rex.ping())


class Hosts(Case):
    async def test_a_path_of_hosts_is_where_things_are_done(self):
        phases = []
        await self.rex.host_connect("a", argv=[PROGRAM], progress=phases.append)
        await self.rex.host("a").host_connect("b", argv=[PROGRAM])
        far = self.rex.host("a").host("b")
        self.assertEqual((far.path, phases[0]["state"]), ("a/b", "connecting"))
        async with self.rex.host("a/b").session("there") as session:
            self.assertEqual((await session.run("echo hello"))["host"], "a/b")
            async with session.output(offset=0) as output:
                self.assertIn(b"hello", (await self.soon(output.__anext__())).data)
            self.assertEqual([info["session"] for info in (await far.session_list())["sessions"]], ["there"])
        with self.assertRaises(rex_rpc.OsError) as failed:
            await far.file_read("/none")
        self.assertEqual(failed.exception.host, "a/b")
        with self.assertRaises(rex_rpc.HostNotFound):
            await far.host("c").ping()

    @unittest.skipUnless(HAS_SSHD, "cannot run here: sshd as root")
    async def test_a_question_of_a_host_comes_to_the_prompt_and_its_answer_counts(self):
        server = SshServer.of(self)
        home = folder_of(self)
        (home / ".ssh").mkdir()
        (home / "bin").mkdir()
        (home / "bin/ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {home}/config "$@"\n')
        (home / "bin/ssh").chmod(0o755)
        (home / "config").write_text(
            f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.folder}/key\n"
            f"  UserKnownHostsFile {home}/known\n  GlobalKnownHostsFile /dev/null\n"
        )
        environment = {**os.environ, "HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        asked = []

        def blocking(question):
            asked.append(question)
            return "no"

        async def awaiting(question):
            asked.append(question)
            return "yes"

        for prompt, accepted in ((blocking, False), (awaiting, True)):
            async with rex_rpc.AsyncRex(PROGRAM, env=environment, prompt=prompt) as rex:
                try:
                    await self.soon(rex.host_connect("box", url="ssh://box", install=False))
                except (rex_rpc.HostKeyRejected, rex_rpc.HostUnreachable) as error:
                    self.assertTrue(accepted or isinstance(error, rex_rpc.HostKeyRejected), error)
        self.assertEqual([(each["host"], each["kind"]) for each in asked], [("box", "hostKey")] * 2)

    async def test_without_a_prompt_nothing_is_asked(self):
        self.assertFalse(await self.answers_questions())

    async def answers_questions(self):
        try:
            await self.rex._serve("host/prompt", {})  # pylint: disable=protected-access
        except rex_rpc.MethodNotFound:
            return False
        return True


if __name__ == "__main__":
    unittest.main()
