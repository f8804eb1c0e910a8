"""Finding instances: the sockets of the runtime directory, who may use them, and the commands that walk it."""

import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import unittest

from rig import Rex, alive, amount, binary, descriptors, family, is_sanitized, memory, until
from watching import Attached, Feed, Peer, WatchCase

NOBODY = 65534
as_root = unittest.skipUnless(os.geteuid() == 0, "cannot run here: another user is needed, and only root can be one")


class Sockets(WatchCase):
    def test_every_instance_has_a_socket_of_its_own_and_its_name(self):
        rex = self.spawn(env=self.environment())
        path = self.socket_of(rex)
        self.assertEqual(path.stem, rex.call("ping") and path.stem)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        peer = Peer(path)
        self.assertEqual(peer.call("initialize")["machine"]["instance"], path.stem)
        peer.close()
        self.assertEqual(rex.close(), 0)
        self.assertFalse(path.exists())

    def test_a_private_instance_has_none_and_neither_has_one_that_only_answers(self):
        folder = self.folder / "run"
        folder.mkdir(mode=0o700)
        environment = self.environment(XDG_RUNTIME_DIR=str(folder))
        with Rex(argv=[binary(), "--private"], env=environment) as private, Rex(env=environment) as public:
            self.assertTrue(until(lambda: list(folder.glob("rex-rpc/[!.]*.sock"))))
            private.call("process/run", command="sleep 0.05")
            self.assertEqual([path.name.split("-")[0] for path in folder.glob("rex-rpc/[!.]*")], [str(public.process.pid)])
        request = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        shutil.rmtree(folder / "rex-rpc")
        done = subprocess.run([binary()], input=request, capture_output=True, text=True, env=environment, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_client_on_the_socket_sees_all_sessions_and_its_own_end_with_it(self):
        session = self.fresh()
        peer = self.peer()
        own = peer.session("its-own")
        pid = own.info["pid"]
        names = [info["session"] for info in peer.call("session/list")["sessions"]]
        self.assertIn(session.name, names)
        self.assertEqual(peer.call("session/read", session=session.name)["data"], "")
        self.assertEqual(self.rex.call("session/run", session="its-own", command="echo shared")["output"], "shared\n")
        pending = self.rex.start("session/run", session="its-own", command="sleep 1000")
        until(lambda: self.rex.call("session/info", session="its-own")["job"])
        peer.close()
        self.assertEqual(pending.result()["state"], "cancelled")
        self.assertTrue(until(lambda: not alive(pid)))
        self.assertEqual([info["session"] for info in self.rex.call("session/list")["sessions"]].count("its-own"), 0)
        self.usable(session)

    def test_shutdown_on_the_socket_ends_that_connection_only(self):
        peer = self.peer()
        peer.call("shutdown")
        peer.notify("exit")
        self.assertEqual(peer.process.stdout.read(), b"") if not peer._threads else peer._threads[0].join(20)
        self.rex.call("ping")

    def test_clients_on_the_socket_keep_no_instance_alive(self):
        rex = self.spawn(env=self.environment())
        peer = self.peer(rex)
        session = peer.session("watched")
        feed = Feed(peer)
        Attached(feed, "watched", role="writer")
        everybody = family(rex.pid)
        self.assertIn(session.info["pid"], everybody)
        self.assertEqual(rex.close(), 0)
        self.assertTrue(until(lambda: not any(map(alive, everybody))), "left behind")

    def test_L07_a_storm_of_clients_costs_little_and_the_driver_is_served(self):
        rex = self.spawn(env=self.environment())
        path = self.socket_of(rex)
        before = memory(rex.pid, "VmRSS")
        clients = []
        for _ in range(amount(1000, 10_000)):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            clients.append(client)
            if len(clients) % 100 == 0:
                rex.call("ping")
            if len(clients) > 300:
                clients.pop(0).close()
        self.assertEqual(rex.session().output("echo served"), "served\n")
        if not is_sanitized():
            self.assertLess(memory(rex.pid) - before, 64 << 20)
        for client in clients:
            client.close()
        self.assertTrue(until(lambda: descriptors(rex.pid) < 40), "descriptors are left")
        with Peer(path) as peer:
            peer.call("ping")

    def test_a_killed_instance_leaves_a_socket_that_the_next_one_who_looks_removes(self):
        rex = self.spawn(env=self.environment())
        path = self.socket_of(rex)
        session = rex.session()
        rex.process.kill()
        rex.process.wait()
        self.assertTrue(until(lambda: not alive(session.info["pid"])))
        self.assertTrue(path.exists())
        done = self.command("sessions")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn(path.stem, done.stdout)
        self.assertFalse(path.exists())
        self.assertTrue(self.socket_of().exists(), "a living one lost its socket")

    def test_an_instance_that_does_not_answer_is_said_and_holds_up_no_other(self):
        rex = self.spawn(env=self.environment())
        name = self.socket_of(rex).stem
        session = self.fresh()
        rex.process.send_signal(signal.SIGSTOP)
        try:
            done = self.command("sessions")
        finally:
            rex.process.send_signal(signal.SIGCONT)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"/{session.name} ", done.stdout)
        self.assertRegex(done.stderr, f"rex-rpc: {name}: .*does not answer")

    def test_A04_a_directory_that_is_not_ours_alone_is_refused(self):
        for name, prepare in (
                ("a link", lambda path, other: path.symlink_to(other)),
                ("open to others", lambda path, other: (path.mkdir(), path.chmod(0o755))),
                ("no directory", lambda path, other: path.write_text("")),
                ("another's", lambda path, other: (path.mkdir(mode=0o700), os.chown(path, NOBODY, NOBODY)))):
            with self.subTest(name):
                if name == "another's" and os.geteuid() != 0:
                    continue
                base = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                other = base / "other"
                other.mkdir(mode=0o700)
                prepare(base / "rex-rpc", other)
                environment = self.environment(XDG_RUNTIME_DIR=str(base))
                with Rex(env=environment) as rex:
                    self.assertEqual(rex.session().output("echo served"), "served\n")
                    warned = until(lambda rex=rex: any("cannot find" in line for line in rex.stderr))
                    self.assertTrue(warned, rex.stderr)
                self.assertEqual(list(other.iterdir()), [])
                done = subprocess.run([binary(), "sessions"], env=environment, capture_output=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"rex-rpc", done.stderr)

    @as_root
    def test_A05_another_user_is_turned_away_whatever_the_modes_have_become(self):
        base = pathlib.Path(tempfile.mkdtemp(prefix="rex-open-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, base)
        with Rex(env=self.environment(XDG_RUNTIME_DIR=str(base))) as rex:
            path = until(lambda: next((base / "rex-rpc").glob("[!.]*.sock"), None))
            base.chmod(0o777)
            path.parent.chmod(0o777)
            path.chmod(0o777)
            script = ("import os, socket, sys\nos.setgid(65534)\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
                      "s.connect(sys.argv[1])\n"
                      "try:\n s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\\n')\n got = s.recv(100)\n"
                      "except OSError:\n got = b''\n"
                      "print(got)")
            done = subprocess.run(["python3", "-c", script, path], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "b''\n"), done.stderr)
            rex.call("ping")

    def test_without_a_runtime_directory_of_the_user_there_is_one_in_tmp(self):
        environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        with Rex(env=environment) as rex:
            name = rex.call("initialize")["machine"]["instance"]
            path = pathlib.Path(f"/tmp/rex-rpc-{os.geteuid()}") / f"{name}.sock"
            self.assertTrue(until(path.exists))
        self.assertFalse(path.exists())


class Listening(WatchCase):
    def serve(self, path):
        process = subprocess.Popen([binary(), "--private", "serve", "--listen", f"unix:{path}"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment())
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def answers(self, path):
        try:
            peer = Peer(path)
        except OSError:
            return False
        with peer:
            return bool(peer.call("ping"))

    def test_clients_of_a_listening_instance_come_and_go_until_it_is_told_to_end(self):
        path = self.folder / "sock"
        process = self.serve(path)
        self.assertTrue(until(lambda: self.answers(path)))
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        done = self.command("run", "--connect", f"unix:{path}", "echo there; exit 9")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (9, "there\n", ""))
        done = self.command("call", "--connect", f"unix:{path}", "session/list")
        self.assertEqual(json.loads(done.stdout), {"sessions": []})
        process.terminate()
        self.assertEqual(process.wait(timeout=20), 0)
        self.assertFalse(path.exists())
        done = self.command("call", "--connect", f"unix:{path}", "ping")
        self.assertEqual(done.returncode, 1)
        self.assertIn("OsError", done.stderr)

    def test_T03_C07_of_many_that_start_at_once_over_a_stale_socket_one_serves(self):
        path = self.folder / "sock"
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(path))
        stale.close()
        many = [self.serve(path) for _ in range(20)]
        self.assertTrue(until(lambda: sum(process.poll() is None for process in many) == 1, 60))
        self.assertTrue(until(lambda: self.answers(path)))
        losers = [process for process in many if process.poll() is not None]
        self.assertEqual({process.returncode for process in losers}, {2})
        self.assertIn(b"somebody does already", losers[0].stderr.read())
        winner = next(process for process in many if process.poll() is None)
        winner.kill()
        winner.wait()
        self.assertTrue(path.exists())
        self.serve(path)
        self.assertTrue(until(lambda: self.answers(path)), "what a killed one left was not replaced")

    def test_what_is_no_socket_is_left_alone(self):
        path = self.folder / "file"
        path.write_text("precious")
        self.assertEqual(self.serve(path).wait(timeout=20), 2)
        self.assertEqual(path.read_text(), "precious")


class Commands(WatchCase):
    def test_sessions_lists_what_every_instance_has(self):
        session = self.fresh()
        other = self.spawn(env=self.environment())
        job = other.session("other", labels={"task": "build"})
        job.run("sleep 1000", waitMs=0)
        until(lambda: job.call("info")["foreground"]["command"] == "sleep")
        name = self.socket_of(other).stem
        done = self.command("sessions")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"(?m)^{self.instance()}/{session.name} +ready +- +- +\d+s +bash ")
        self.assertRegex(done.stdout, rf"(?m)^{name}/other +running +1 +- +\d+s +sleep$")
        every = json.loads(self.command("sessions", "--json").stdout)
        listed = {(one["instance"], one["session"]): one for one in every}
        self.assertEqual(listed[name, "other"]["labels"], {"task": "build"})
        only = json.loads(self.command("sessions", "--json", "--connect", str(other.process.pid)).stdout)
        self.assertEqual([(one["instance"], one["session"]) for one in only], [(name, "other")])

    def test_a_session_is_named_by_itself_or_with_its_instance_and_never_guessed(self):
        one, two = self.spawn(env=self.environment()), self.spawn(env=self.environment())
        names = [self.socket_of(rex).stem for rex in (one, two)]
        for rex, text in ((one, "first"), (two, "second")):
            rex.session("same").run(f"echo {text}")
        one.session("a/b").run("echo slash")
        for name, out in ((f"{names[0]}/same", "first\n"), (f"{two.process.pid}/same", "second\n"), ("a/b", "slash\n")):
            with self.subTest(name):
                done = self.command("logs", name)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, out, ""))
        ambiguous = self.command("kill", "same")
        self.assertEqual((ambiguous.returncode, ambiguous.stdout), (1, ""))
        for name in names:
            self.assertIn(f"\n  {name}/same", ambiguous.stderr)
        unknown = self.command("logs", "nobody")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn(f"\n  {names[0]}/a/b", unknown.stderr)
        nowhere = self.command("call", "--connect", "no-such-instance", "ping")
        self.assertEqual(nowhere.returncode, 1)
        self.assertIn("rex-rpc sessions", nowhere.stderr)

    def test_kill_ends_all_that_are_named_or_none(self):
        rex = self.spawn(env=self.environment())
        self.socket_of(rex)
        sessions = [rex.session(name) for name in ("x", "y", "z")]
        self.assertEqual(self.command("kill", "x", "nobody").returncode, 1)
        self.assertEqual(sessions[0].output("echo lives"), "lives\n")
        pending = sessions[0].start("run", command="trap '' TERM HUP; sleep 1000")
        until(lambda: sessions[0].call("info")["job"])
        done = self.command("kill", "x", f"{rex.pid}/y")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(pending.result()["state"], "cancelled")
        self.assertEqual([info["session"] for info in rex.call("session/list")["sessions"]], ["z"])

    def test_logs_prints_the_bytes_from_where_it_is_told_and_says_what_is_gone(self):
        session = self.fresh(journalBytes=4096)
        session.run("seq 3000")
        info = session.call("info")
        whole = "".join(f"{n}\n" for n in range(1, 3001))
        done = self.command("logs", session.name)
        self.assertEqual((done.stdout, done.stderr), (whole[info["oldest"]:], ""))
        done = self.command("logs", session.name, "--from", str(info["next"] - 5))
        self.assertEqual(done.stdout, "3000\n")
        done = self.command("logs", session.name, "--from", "0")
        self.assertEqual((done.returncode, done.stdout), (0, whole[info["oldest"]:]))
        self.assertIn(f"{info['oldest']} bytes are no longer kept", done.stderr)

    def test_logs_follow_goes_on_to_the_end_of_the_session(self):
        session = self.fresh(None, argv=["sh", "-c", "echo begin; read x; echo out; echo err >&2; read x"], tty=False)
        following = subprocess.Popen([binary(), "logs", "--follow", session.name], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=self.environment(), text=True)
        self.assertEqual(following.stdout.readline(), "begin\n")
        session.call("write", data="go\n")
        self.assertEqual(following.stdout.readline(), "out\n")
        self.assertEqual(following.stderr.readline(), "err\n")
        session.call("write", eof=True)
        self.assertEqual(following.wait(timeout=20), 0)
        self.assertEqual(following.communicate(), ("", ""))

    def test_S15_logs_send_no_control_code_to_a_terminal(self):
        session = self.fresh()
        session.run(r"printf 'a\033[31mred\033[m \033]52;c;eA==\007 \033[6n \302\233 \000 \177 \377 \r\nb\tc\n'")
        master, slave = pty.openpty()
        done = subprocess.run([binary(), "logs", session.name], stdout=slave, env=self.environment(), check=False)
        shown = os.read(master, 65536)
        os.close(slave)
        os.close(master)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(shown, rb"ared \x1b]52;c;eA==\x07 \x1b[6n \xc2\x9b \x00 \x7f \xff " + b"\r\nb\tc\r\n")
        words = [binary(), "logs", session.name]
        piped = subprocess.run(words, capture_output=True, env=self.environment(), check=False)
        self.assertIn(b"\x1b]52;c;eA==\x07", piped.stdout)

    def test_wrong_usage_exits_with_2(self):
        for words in (("logs",), ("kill",), ("logs", "a", "--from", "-1"), ("shell",), ("sessions", "extra")):
            with self.subTest(words):
                done = self.command(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertNotEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
