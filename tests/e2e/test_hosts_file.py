"""Hosts that the user has written into a file, and the commands that go to a host: `hosts`, `run --host`, `shell --host`,
`doctor --host`, and the questions that a host asks of the person in front of them.

Every host here is a program of this machine.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from rig import Rex, RexCase, alive, binary, needs, until
from ssh_server import SshServer
from test_tcp import Served
from watching import Peer, Person

HERE = {"argv": [binary()]}


class FileCase(RexCase):
    """Instances of these tests have a home, a configuration and a runtime directory of their own."""

    @classmethod
    def start_rex(cls):
        pass

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "config"
        self.path = self.config / "rex-rpc" / "hosts.json"
        self.path.parent.mkdir(parents=True)
        (self.folder / "run").mkdir(mode=0o700)
        self.env = {**os.environ, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.config),
                    "XDG_RUNTIME_DIR": str(self.folder / "run"), "SHELL": "/bin/sh"}

    @classmethod
    def tearDownClass(cls):
        pass

    def write(self, hosts):
        """The whole file: what its `hosts` are, or a text."""
        text = hosts if isinstance(hosts, str) else json.dumps({"hosts": hosts})
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o644)
        new.replace(self.path)

    def rex(self, **env):
        rex = Rex(env={**self.env, **env}, hops=0)
        self.addCleanup(rex.close)
        return rex

    def says(self, rex, host, word="hello"):
        done = rex.call("process/run", host=host, command=["echo", word])
        self.assertEqual((done["stdout"], done["exitCode"]), (word + "\n", 0))

    @staticmethod
    def states(rex):
        return {info["name"]: info["state"] for info in rex.call("host/list")["hosts"]}

    def command(self, *words, given=None, **env):
        stdin = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
        return subprocess.run([binary(), *words], capture_output=True, text=True, timeout=60, check=False,
                              env={**self.env, **env}, **stdin)


class TheFile(FileCase):
    def test_the_first_request_dials_a_host_of_the_file(self):
        self.write({"box": HERE, "sock": {"url": "unix:///nowhere"}})
        rex = self.rex()
        self.assertEqual(self.states(rex), {"box": "closed", "sock": "closed"})
        info = rex.call("host/info", name="box")
        self.assertEqual((info["argv"], info["machine"], info["rttMs"]), (HERE["argv"], {}, None))
        self.says(rex, "box")
        self.says(rex, "box/box")  # the host has a file of the same words
        self.assertEqual(self.states(rex), {"box": "ready", "sock": "closed"})
        self.assertIn("hostname", rex.call("host/info", name="box")["machine"])
        failed = self.refused("HostUnreachable", rex.call, "ping", host="sock")
        self.assertEqual((failed.data["hop"], failed.data["phase"]), ("sock", "channel"))
        self.refused("HostNotFound", rex.call, "ping", host="other")
        rex.call("host/disconnect", name="box")
        self.assertIn("box", self.states(rex))

    def test_a_running_instance_sees_edits(self):
        rex = self.rex()
        self.assertEqual(self.states(rex), {})
        self.write({"box": HERE})
        self.says(rex, "box")
        self.write({"box": HERE, "more": HERE})
        self.says(rex, "more")
        self.assertEqual(self.states(rex), {"box": "ready", "more": "ready"})
        self.path.unlink()
        self.assertEqual(self.rex().call("host/list"), {"hosts": []})

    def test_a_name_of_the_connections_own_comes_first(self):
        self.write({"box": {"argv": ["false"]}})
        rex = self.rex()
        rex.call("host/connect", name="box", **HERE)
        self.says(rex, "box")
        self.assertEqual(rex.call("host/info", name="box")["argv"], HERE["argv"])
        rex.call("host/disconnect", name="box")
        self.assertEqual(rex.call("host/info", name="box")["argv"], ["false"])

    def clients(self):
        """Two of one instance."""
        served = Served(self.env, (f"unix:{self.folder}/s.sock",))
        self.addCleanup(served.end)
        one, two = Peer(self.folder / "s.sock"), Peer(self.folder / "s.sock")
        self.addCleanup(two.close)
        return one, two

    def test_clients_share_the_link_and_it_outlives_each_of_them(self):
        self.write({"box": HERE})
        one, two = self.clients()
        pids = set()
        for peer in (one, two):
            self.says(peer, "box")
            pids.add(peer.call("host/info", name="box")["machine"]["instance"])
        self.assertEqual(len(pids), 1)
        one.close()
        self.says(two, "box")

    def test_a_link_of_a_target_that_the_file_no_longer_says_ends_with_its_last_client(self):
        self.write({"box": HERE})
        one, two = self.clients()
        self.says(one, "box")
        old = int(one.call("host/info", name="box")["machine"]["instance"].split("-")[0])
        self.write({"box": {"argv": [binary(), "--private"]}})
        self.says(two, "box")
        new = int(two.call("host/info", name="box")["machine"]["instance"].split("-")[0])
        self.assertNotEqual(old, new)
        self.says(one, "box")  # it goes on where it is
        one.close()
        self.assertTrue(until(lambda: not alive(old)), "the old link is held for nobody")
        self.says(two, "box")

    def test_a_host_taken_out_of_the_file_is_none_to_the_others_and_ends_with_its_last_client(self):
        self.write({"box": HERE})
        one, two = self.clients()
        self.says(one, "box")
        self.assertEqual(self.states(two), {"box": "ready"})
        pid = int(two.call("host/info", name="box")["machine"]["instance"].split("-")[0])
        self.write({})
        self.says(one, "box")
        self.assertEqual((self.states(one), self.states(two)), ({"box": "ready"}, {}))
        self.refused("HostNotFound", two.call, "ping", host="box")
        self.refused("HostNotFound", two.call, "host/info", name="box")
        one.call("host/disconnect", name="box")
        self.assertTrue(until(lambda: not alive(pid)), "the link is held for nobody")
        one.close()

    def test_a_dial_that_one_client_gives_up_is_begun_anew_for_the_other(self):
        mute = f"[ -e {self.folder}/dialled ] && exec {binary()}; touch {self.folder}/dialled; exec cat"
        self.write({"slow": {"argv": ["sh", "-c", mute]}})
        one, two = self.clients()
        first = one.start("ping", host="slow")
        self.assertTrue(until((self.folder / "dialled").exists))
        second = two.start("ping", host="slow")
        self.assertEqual(self.states(two), {"slow": "connecting"})
        one.call("host/disconnect", name="slow")
        self.refused("RequestCancelled", first.result)
        self.assertIn("time", second.result())
        one.close()

    def test_C12_a_broken_file_says_where_and_breaks_no_other_host(self):
        rex = self.rex()
        rex.call("host/connect", name="own", **HERE)
        for text, said in (
                ('{"hosts": {\n"a": {"url": "ssh://a"}\n"b": {}}}', ":3: not JSON"),
                ('{"hosts": {}} extra', ":1: not JSON"),
                ("", ":1: not JSON"),
                ("\n{}\xff", ":2: not JSON"),
                ("[]", ":1: expected an object"),
                ('{"hosts": []}', ":1: hosts: expected an object"),
                ("{}", ":1: hosts: required"),
                ('{"hosts": {},\n "host": {}}', ":2: host: unknown member"),
                ('{"hosts": {"a": {"url": "ssh://a"},\n"a": {"url": "ssh://b"}}}', ":2: the same key twice"),
                ('{"hosts": {\n"b": {"argv": ["sh", "[]{},:"]},\n"a": {"argv":\n["sh",\n1]}}}',
                 ":5: hosts.a.argv[1]: "),
                ('{"hosts": {\n"a": {"install": true,\n"options": {\n"keepAliveMs": 500.5}}}}',
                 ":4: hosts.a.options.keepAliveMs: "),
                ('{"hosts": {\n"a": {"url": "ssh://a",\n"options": {\n"tokenFile": "/t"}}}}',
                 ":4: hosts.a.options.tokenFile: "),
                ('{"hosts": {\n"a.b": {"url": "ssh://a"},\n\n"a": {"url": "ssh://a", "b": 1}}}', ":4: hosts.a.b: unknown member"),
                ('{"hosts":\n{"a": ' + '[' * 70 + ']' * 70 + '}}', ":2: "),
                ('{"hosts": {"a": {}}}', "hosts.a: takes exactly one of url, argv"),
                ('{"hosts": {"a": {"url": "ssh://a", "argv": ["sh"]}}}', "hosts.a: takes exactly one"),
                ('{"hosts": {"a": {"url": "ssh://a", "user": "me"}}}', "hosts.a.user: unknown member"),
                ('{"hosts": {"a": {"url": "http://a"}}}', "hosts.a.url"),
                ('{"hosts": {"a": {"argv": []}}}', "hosts.a.argv: needs at least 1"),
                ('{"hosts": {"a": {"argv": ["sh", 1]}}}', "hosts.a.argv[1]"),
                ('{"hosts": {"a/b": {"url": "ssh://a"}}}', "hosts.a/b"),
                ('{"hosts": {"": {"url": "ssh://a"}}}', "hosts."),
                ('{"hosts": {"a": {"url": "ssh://a", "options": {"keepAliveMs": 1}}}}', "hosts.a.options.keepAliveMs"),
                ('{"hosts": {"a": {"url": "ssh://a", "options": {"tokenFile": "/t"}}}}', "hosts.a.options.tokenFile"),
                ('{"hosts": {"a": {"url": "tcp://127.0.0.1:1", "options": {"tokenFile": "t"}}}}', "absolute"),
                ('{"hosts": {"a": {"url": "ssh://a", "install": "no"}}}', "hosts.a.install"),
                ('{"hosts": {"a": {"url": "ssh://a"}}}' + " " * (1 << 20), "more than 1048576 bytes")):
            with self.subTest(text[:60]):
                self.write(text)
                listed = rex.call("host/list")
                self.assertEqual([info["name"] for info in listed["hosts"]], ["own"])
                self.assertIn(said, listed["detail"])
                self.assertIn(str(self.path), listed["detail"])
                failed = self.refused("HostNotFound", rex.call, "ping", host="a")
                self.assertEqual(failed.data["detail"], listed["detail"])
                self.says(rex, "own")
        self.write({"a": HERE})
        self.says(rex, "a")

    def test_a_file_that_others_could_have_written_is_not_believed(self):
        rex = self.rex()
        real = self.folder / "real.json"
        self.write({"a": HERE})
        self.path.rename(real)
        self.path.symlink_to(real)
        self.says(rex, "a")  # a link to a file of ours
        for mode, said in ((0o666, "can be changed by others"), (0o664, "can be changed by others")):
            real.chmod(mode)
            self.assertIn(said, rex.call("host/list")["detail"])
            self.refused("HostNotFound", self.rex().call, "ping", host="a")
        real.chmod(0o600)
        self.assertNotIn("detail", rex.call("host/list"))
        self.path.unlink()
        os.mkfifo(self.path)
        self.assertIn("no regular file", rex.call("host/list")["detail"])
        if os.geteuid() == 0:
            self.path.unlink()
            self.write({"a": HERE})
            os.chown(self.path, 65534, 65534)
            self.assertIn("belongs to somebody else", rex.call("host/list")["detail"])

    def test_it_is_in_the_configuration_directory_and_else_in_the_home(self):
        self.write({"a": HERE})
        (self.folder / ".config").symlink_to(self.config)
        for value in ("", "config", "./config"):  # what is not absolute counts as unset
            with self.subTest(value):
                self.assertEqual(self.states(self.rex(XDG_CONFIG_HOME=value)), {"a": "closed"})
        (self.folder / "empty").mkdir()
        self.assertEqual(self.states(self.rex(XDG_CONFIG_HOME=str(self.folder / "empty"))), {})


class Tokens(FileCase):
    def setUp(self):
        super().setUp()
        self.served = Served(self.env, ("tcp:127.0.0.1:0",))
        self.addCleanup(self.served.end)
        self.token = (self.folder / "run" / "rex-rpc" / "token").read_text()
        self.mine = self.folder / "mine"
        self.give(self.token)
        self.target = {"url": "tcp://127.0.0.1:%d" % self.served.places[0][1], "options": {"tokenFile": str(self.mine)}}

    def give(self, token, mode=0o600):
        self.mine.write_text(token)
        self.mine.chmod(mode)

    def test_a_host_on_tcp_is_shown_the_token_of_its_file(self):
        self.write({"vm": self.target})
        rex = self.rex()
        self.says(rex, "vm")
        rex.call("host/connect", name="too", **self.target)
        self.says(rex, "too")
        self.assertIn(str(self.mine), rex.call("host/info", name="too")["took"])
        self.assertNotIn(self.token.strip(), json.dumps(rex.call("host/list")))

    def test_a_token_that_is_wrong_missing_or_no_secret_is_told_and_read_anew(self):
        rex = self.rex()
        for what, phase, said in (
                (lambda: self.give("x" * 64), "handshake", "not the token"),
                (lambda: self.give(self.token, 0o644), "auth", "can be used by others"),
                (lambda: self.give(""), "auth", "has no token in it"),
                (self.mine.unlink, "auth", "cannot read the token file")):
            what()
            failed = self.refused("HostUnreachable", rex.call, "host/connect", name="vm", **self.target)
            self.assertEqual(failed.data["phase"], phase, failed)
            self.assertIn(said, failed.message)
        self.refused("HostUnreachable", rex.call, "host/connect", name="vm", url=self.target["url"])
        self.give(self.token)
        rex.call("host/connect", name="vm", **self.target)
        self.says(rex, "vm")

    @needs("sshd", "ssh-agent")
    @unittest.skipUnless(os.geteuid() == 0, "cannot run here: everybody who logs in runs a program of the test's, as root")
    def test_M10_a_host_sees_nothing_of_what_is_for_another_and_no_agent(self):
        """All that comes to a host by ssh is caught: environment, command, and every byte of the stream."""
        seen, programs, agent = (self.folder / name for name in ("seen", "programs", "agent"))
        programs.mkdir()
        shutil.copy(binary(), programs / "rex-rpc")
        login = self.folder / "login"
        login.write_text(f'#!/bin/sh\nexport PATH={programs}:/usr/bin:/bin\n(env; echo "$SSH_ORIGINAL_COMMAND") >>{seen}\n'
                         f'tee -a {seen} | sh -c "$SSH_ORIGINAL_COMMAND"\n')
        login.chmod(0o755)
        sshd = SshServer.of(self, login=login, more="AllowAgentForwarding yes\n")
        keys = subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL)
        self.addCleanup(keys.wait)
        self.addCleanup(keys.terminate)
        self.assertTrue(until(agent.exists))
        secrets = {"token": self.token.strip(), "of the client": "canary-1", "for the other": "canary-2"}
        rex = self.rex(**sshd.client("far", "  ForwardAgent yes\n", environment=self.env), SSH_AUTH_SOCK=str(agent),
                       OF_THE_CLIENT=secrets["of the client"])
        rex.call("host/connect", name="vm", **self.target)
        rex.call("host/connect", name="far", url="ssh://far", install=False)
        given = {"env": {"SECRET": secrets["for the other"]}, "stdin": secrets["for the other"]}
        done = rex.call("process/run", host="vm", command="cat; echo $SECRET", **given)
        self.assertEqual(done["stdout"], 2 * secrets["for the other"] + "\n")
        told = rex.call("process/run", host="far", command="env; echo seen-here", stdin="for this one")["stdout"]
        self.assertNotIn("SSH_AUTH_SOCK", told)
        rex.close()
        self.assertTrue(until(lambda: b"for this one" in seen.read_bytes() and b"seen-here" in seen.read_bytes()))
        for what, secret in {**secrets, "agent": "SSH_AUTH_SOCK", "its socket": str(agent)}.items():
            self.assertNotIn(secret.encode(), seen.read_bytes(), what)
            self.assertNotIn(secret, told, what)


class Commands(FileCase):
    def check(self, done, code=0, out="", err=""):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (code, out, err))

    def test_C12_hosts_is_a_table_of_the_file_and_exits_with_2_where_that_is_wrong(self):
        self.check(self.command("hosts"))
        self.write({"box": HERE, "gpu": {"url": "ssh://me@gpu:22"}})
        self.check(self.command("hosts"), out="HOST  STATE   HOW\n"
                                              f"box   closed  {HERE['argv'][0]}\n"
                                              "gpu   closed  ssh://me@gpu:22\n")
        listed = json.loads(self.command("hosts", "--json").stdout)
        self.assertEqual([info["name"] for info in listed], ["box", "gpu"])
        self.write('{"hosts": {"box": 1}}')
        done = self.command("hosts")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"{self.path}:1: hosts.box: expected an object", done.stderr)

    def test_I8_run_is_the_same_on_a_host_that_any_command_leads_to(self):
        self.write({"box": HERE})
        for host in ("box", "box/box", "exec:" + binary(), "exec:env " + binary()):
            with self.subTest(host):
                done = self.command("run", "--host", host, "cat; echo oops >&2; exit 7", given="in\n")
                self.check(done, 7, "in\n", "oops\n")
        self.check(self.command("run", "--host", "box", "printf", "%s|", "a b", "c"), 0, "a b|c|")
        there = self.command("run", "--host", "box", "echo $PPID").stdout
        self.assertRegex(there, r"^\d+\n$")

    def test_run_on_a_host_that_is_none_says_what_there_is(self):
        self.write({"box": HERE, "gone": {"argv": ["sh", "-c", "echo nothing here >&2; exit 3"]}})
        for host, said in (("other", "rex-rpc hosts"), ("box/other", "other"), ("gone", "nothing here"),
                           ("exec:", "exec: needs a program"), ("http://x", "ssh://"), ("a//b", "host")):
            with self.subTest(host):
                done = self.command("run", "--host", host, "echo x")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(said, done.stderr)

    def test_doctor_tells_how_a_host_was_reached_and_what_it_is(self):
        self.write({"box": HERE})
        done = self.command("doctor", "--host", "box")
        self.assertEqual(done.stderr, "")
        self.assertTrue(done.stdout.startswith(f"host box: {binary()}\n"), done.stdout)
        self.assertRegex(done.stdout, r" ms  box: channel .*\n")
        self.assertRegex(done.stdout, r"\nok   host box: by exec .*\n     machine: .+, Linux .*\n     rex-rpc \d")
        self.assertIn("     ok   pseudo-terminals\n", done.stdout)
        self.assertEqual(done.returncode, 0)
        done = self.command("doctor", "--host", "box/box")
        self.assertIn("ok   host box/box: by", done.stdout)

    def test_doctor_tells_why_a_host_is_not_reached_and_changes_nothing_there(self):
        home = self.folder / "far"
        home.mkdir()
        bare = ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", "sh"]
        self.write({"gone": {"argv": ["sh", "-c", "echo nothing here >&2; exit 3"]}, "bare": {"argv": bare},
                    "sock": {"url": "unix:///nowhere"}})
        for host, said in (("gone", "nothing here"), ("bare", "install"), ("sock", "phase channel")):
            with self.subTest(host):
                done = self.command("doctor", "--host", host)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"\nFAIL host {host}: HostUnreachable, phase ", done.stdout)
                self.assertIn(said, done.stdout)
        self.assertEqual(list(home.rglob("*")), [])
        done = self.command("doctor", "--host", "other")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("rex-rpc hosts", done.stderr)

    def test_doctor_puts_nothing_onto_a_host_behind_another_either(self):
        home = self.folder / "far"
        home.mkdir()
        self.write({"box": HERE, "bare": {"argv": ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", "sh"]}})
        done = self.command("doctor", "--host", "box/bare")
        self.assertIn("ok   host box: by exec", done.stdout)
        self.assertIn("\nFAIL host box/bare: HostUnreachable, phase install", done.stdout)
        self.assertEqual((done.returncode, list(home.rglob("*"))), (1, []))

    def test_shell_is_one_of_the_host(self):
        self.write({"box": {"argv": ["env", "WHERE=there", binary()]}})
        person = Person(binary(), "shell", "--host", "box", env={**self.env, "PS1": "own$ ", "ENV": ""})
        self.addCleanup(person.close)
        self.assertTrue(until(lambda: person.read(0.1) or person.screen), "no prompt")
        person.type("echo it is $WHERE; exit 4\r")
        person.sees("it is there")
        self.assertEqual(person.ends(), 4)
        self.assertTrue(person.terminal_is_restored())

    def test_a_shell_ends_when_a_host_on_the_way_is_lost(self):
        pids = self.folder / "pids"
        self.write({"box": {"argv": ["sh", "-c", f"echo $$ >> {pids}; exec {binary()}"]}})
        for number, host in enumerate(("box", "box/box")):
            with self.subTest(host):
                pids.unlink(missing_ok=True)
                person = Person(binary(), "shell", "--host", "box/box", env=self.env)
                self.addCleanup(person.close)
                self.assertTrue(until(lambda: person.read(0.1) or person.screen), "no prompt")  # noqa: B023
                # Each hop is started twice: it is asked for a shell first, and is none.
                os.kill(int(pids.read_text().split()[2 * number + 1]), signal.SIGKILL)
                person.sees(f"host {host} is lost: ")
                self.assertEqual(person.ends(), 1)
                self.assertTrue(person.terminal_is_restored())


class Asking:
    """An instance of the tests' own: it asks the client that calls it, and answers with what it was told."""

    def __init__(self, path, questions):
        self.questions = questions
        self.answers = []
        self.announced = None
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(1)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @staticmethod
    def send(stream, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        stream.flush()

    @staticmethod
    def receive(stream):
        size = 0
        while (header := stream.readline().strip()):
            if header.lower().startswith(b"content-length:"):
                size = int(header.split(b":")[1])
        return json.loads(stream.read(size)) if size else None

    def serve(self):
        connection, _ = self.server.accept()
        with connection, contextlib.suppress(OSError), connection.makefile("rwb") as stream:
            while (message := self.receive(stream)):
                if message["method"] == "initialize":
                    self.announced = message["params"].get("capabilities")
                else:
                    for number, question in enumerate(self.questions):
                        self.send(stream, {"id": f"q{number}", "method": "host/prompt", "params": question})
                        self.answers.append(self.receive(stream))
                self.send(stream, {"id": message["id"], "result": {"done": True}})

    def close(self):
        self.server.close()


class Questions(FileCase):
    def ask(self, *questions):
        path = self.folder / "asking.sock"
        asking = Asking(path, questions)
        self.addCleanup(asking.close)
        person = Person(binary(), "call", "--connect", f"unix:{path}", "ping", env=self.env)
        self.addCleanup(person.close)
        return asking, person

    def test_a_question_is_shown_with_who_asks_and_a_secret_is_not_echoed(self):
        asking, person = self.ask(
            {"host": "bastion/gpu", "kind": "password", "text": "me@gpu's \x1b[31mpassword: ", "secret": True},
            {"host": "gpu", "kind": "otp", "text": "Code: ", "secret": False})
        person.sees("host bastion/gpu asks for a password. It says:")
        shown = person.sees("(not shown): ")
        self.assertIn("me@gpu's \\x1b[31mpassword:", shown)
        person.type("opensesame\r")
        person.sees("a one-time code")
        person.sees("Code:")
        person.sees("Answer: ")
        person.type("123456\r")
        person.sees("123456")
        person.sees('"done": true')
        self.assertEqual(person.ends(), 0)
        self.assertNotIn("opensesame", person.screen)
        self.assertEqual([answer["result"] for answer in asking.answers], [{"answer": "opensesame"}, {"answer": "123456"}])
        self.assertTrue(asking.announced["prompt"])
        self.assertTrue(person.terminal_is_restored())

    def test_who_gives_no_answer_has_given_none(self):
        question = {"host": "gpu", "kind": "passphrase", "text": "key", "secret": True}
        asking, person = self.ask(question)
        person.sees("(not shown): ")
        person.type("\x04")
        person.sees('"done": true')
        self.assertEqual(person.ends(), 0)
        self.assertEqual(asking.answers[0]["error"]["code"], -32800)
        self.assertTrue(person.terminal_is_restored())

    def test_an_interrupt_ends_the_command_and_restores_the_terminal(self):
        _, person = self.ask({"host": "gpu", "kind": "password", "text": "Password:", "secret": True})
        person.sees("(not shown): ")
        person.type("half\x03")
        self.assertEqual(person.ends(), 130)
        self.assertTrue(person.terminal_is_restored())

    def test_nobody_is_asked_where_there_is_no_terminal(self):
        path = self.folder / "asking.sock"
        asking = Asking(path, [{"host": "gpu", "kind": "password", "text": "Password:", "secret": True}])
        self.addCleanup(asking.close)
        done = subprocess.run([binary(), "call", "--connect", f"unix:{path}", "ping"], env=self.env, timeout=60,
                              check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              start_new_session=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(asking.announced, {"prompt": False})
        self.assertIn("error", asking.answers[0])


if __name__ == "__main__":
    unittest.main()
