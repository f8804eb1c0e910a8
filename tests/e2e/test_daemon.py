"""Sessions with `lifetime: "daemon"`: they outlive their client, its instance and every relay before them.

Each test has a runtime directory of its own, and with it a set of daemon sessions of its own. Must not know how the
process that keeps a session is started.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

from rig import Rex, RexCase, RpcError, alive, amount, binary, kill_quietly, needs, processes_of, status_of, until
from watching import Attached, Feed

NOBODY = 65534
as_root = unittest.skipUnless(os.geteuid() == 0, "cannot run here: another user is needed, and only root can be one")


class DaemonCase(RexCase):
    """No instance that the tests of a class share: each test makes its own, and ends what outlives them."""

    @classmethod
    def start_rex(cls):
        cls.rex = None

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.sockets = self.runtime / "rex-rpc"
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}
        self.addCleanup(self.end_all)

    def end_all(self):
        for pid in self.keepers():
            kill_quietly(pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not self.keepers()), "a process of a session does not end")

    def keepers(self):
        """The processes that keep the sessions of this test."""
        return [pid for pid in processes_of(self.runtime) if status_of(pid).get("Name") == "rex-session" and alive(pid)]

    def instance(self, **options):
        rex = Rex(env=self.environment, **options)
        self.addCleanup(rex.kill)
        return rex

    def left(self):
        """What the directory of the sockets holds of sessions."""
        return sorted(path.name for path in self.sockets.iterdir() if "daemon" in path.name)

    def pass_gate(self, gate):
        """A job reads the FIFO: it goes on. One that has ended is told, and not waited for."""
        opened = until(lambda: self.opened(gate))
        self.assertTrue(opened, "nobody reads there: the job has ended")
        with opened:
            opened.write("go\n")

    @staticmethod
    def opened(gate):
        try:
            return os.fdopen(os.open(gate, os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError:
            return None

    def command(self, *words):
        return subprocess.run([binary(), *words], capture_output=True, text=True, env=self.environment, check=False,
                              timeout=60)


class Outlives(DaemonCase):
    def test_F1_its_client_and_its_instance_killed(self):
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon")
        self.assertEqual((session.info["lifetime"], session.info["host"]), ("daemon", ""))
        self.assertEqual({name: session.info["survives"][name] for name in ("disconnect", "restart", "reboot")},
                         {"disconnect": True, "restart": True, "reboot": False})
        gate = self.folder / "gate"
        os.mkfifo(gate)
        session.run(f"cd {self.folder}; export KEPT=yes")
        job = session.run(f"seq 20000; read x <{gate}; seq 20001 40000; (exit 7)", waitMs=0)["job"]
        rex.kill()
        self.pass_gate(gate)  # the job lives

        rex = self.instance()
        waited = rex.call("session/wait", session="main", job=job, any=[{"exit": True}])
        self.assertEqual((waited["met"], waited["result"]["exitCode"]), (0, 7))
        everything = b"".join(b"%d\n" % number for number in range(1, 40001))
        session = type(session)(rex, "main", session.info)
        self.assertEqual(session.read_all(), everything)
        seen = Attached(Feed(rex), "main", offset=0)
        seen.until(lambda: seen.next >= len(everything))
        self.assertEqual(seen.data, everything)
        self.ended(session.run("pwd; echo $KEPT"), output=f"{self.folder}\nyes\n")

    def test_F11_a_client_that_knows_nothing_finds_it_in_the_list(self):
        first = self.instance()
        first.session("kept", shell="dash", lifetime="daemon", labels={"of": "somebody"})
        first.session("own", shell="dash")
        first.kill()
        listed = self.instance().call("session/list")
        self.assertNotIn("detail", listed)
        self.assertEqual([(info["session"], info["labels"], info["host"]) for info in listed["sessions"]],
                         [("kept", {"of": "somebody"}, "")])

    @needs("systemd-tmpfiles")
    def test_who_takes_old_files_out_of_tmp_spares_it(self):
        rex = self.instance()
        session = rex.session("main", shell="dash", lifetime="daemon")
        rules = self.folder / "rules.conf"
        rules.write_text(f"q {self.runtime} 0700 - - 1us\n")
        before = self.left()
        subprocess.run(["systemd-tmpfiles", "--clean", rules], check=True, timeout=60)
        self.assertEqual(self.left(), before)
        self.assertEqual(self.instance().call("session/info", session="main")["pid"], session.info["pid"])

    def test_what_its_program_was_given_is_as_for_any_session(self):
        rex = self.instance(cwd=str(self.folder))
        facts = "ulimit -n; pwd; echo $XDG_RUNTIME_DIR; umask; cat /proc/self/coredump_filter"
        own = rex.session("own", shell="dash").output(facts)
        kept = rex.session("kept", shell="dash", lifetime="daemon")
        self.assertEqual(kept.output(facts), own)
        kept.run("exit 3")  # its next shell is started by another nursery than the first
        self.assertEqual(kept.output(facts), own)

    def test_F5_a_relay_on_the_way_killed(self):
        rex = self.instance(hops=0)
        relay = rex.call("host/connect", name="a", argv=[binary()])["machine"]["instance"]
        rex.call("host/connect", name="b", host="a", argv=[binary()])
        kept = rex.call("session/create", host="a/b", session="kept", shell="bash", lifetime="daemon")
        own = rex.call("session/create", host="a/b", session="own", shell="bash")
        self.assertEqual((kept["host"], kept["lifetime"], own["lifetime"]), ("a/b", "daemon", "connection"))
        os.kill(int(relay.split("-", maxsplit=1)[0]), signal.SIGKILL)
        self.assertTrue(until(lambda: not alive(own["pid"])), "a connection session beyond the relay lives on")
        self.assertTrue(alive(kept["pid"]))
        self.assertEqual(self.instance().call("session/run", session="kept", command="echo here")["output"], "here\n")

    def test_its_process_leads_nowhere(self):
        self.instance().session("main", shell="dash", lifetime="daemon")
        [socket] = self.sockets.glob("daemon-*.sock")
        asked = subprocess.run([binary(), "call", "--connect", f"unix:{socket}", "host/connect",
                                '{"name": "far", "argv": ["sh"]}'], env=self.environment, capture_output=True, text=True)
        self.assertEqual(asked.returncode, 1, asked)
        self.assertIn("the process of a session leads nowhere; ask an instance", asked.stderr)

    def test_it_is_not_part_of_the_tree_in_which_it_was_made(self):
        rex = self.instance()
        maker = rex.session("maker", shell="bash")
        made = maker.run(f"{binary()} --private call session/create '{{\"session\": \"kept\", \"lifetime\": \"daemon\"}}'")
        self.ended(made)
        self.assertEqual(len(self.keepers()), 1)
        self.assertEqual(maker.call("close", graceMs=100)["survivors"], [])
        self.assertEqual(rex.call("session/run", session="kept", command="echo here")["output"], "here\n")

    def test_F7_an_upgrade_on_the_way(self):
        """The file is replaced under everything that runs of it; what was begun goes on, and old and new work together."""
        program = self.folder / "rex-rpc"

        def installed():
            new = self.folder / "new"
            shutil.copy(binary(), new)
            new.rename(program)
            return self.instance(argv=[str(program)])

        old = installed()
        session = old.session("main", shell="bash", lifetime="daemon")
        session.run("kept=yes")
        pending = session.start("run", command="read -r x; echo $x", returnOnInput=False)
        self.assertTrue(until(lambda: session.call("info")["job"]))
        new = installed()
        self.assertNotEqual(os.readlink(f"/proc/{old.process.pid}/exe"), str(program))
        new.call("session/write", session="main", data="on", submit=True)
        self.assertTrue(pending.result()["output"].endswith("on\n"))
        made_by_old = old.session("more", shell="dash", lifetime="daemon")
        old.kill()
        self.ended(new.call("session/run", session="main", command="echo $kept"), output="yes\n")
        self.ended(new.call("session/run", session=made_by_old.name, command="echo here"), output="here\n")

    def test_F12_readers_that_come_and_go_read_every_byte_once(self):
        first = self.instance()
        session = first.session("main", shell="bash", lifetime="daemon")
        amount_of = amount(300_000, 15_000_000)
        session.run(f"seq {amount_of}", waitMs=0)
        everything = "".join(f"{number}\n" for number in range(1, amount_of + 1)).encode()
        seen, total, offset = b"", len(everything), 0
        while offset < total:
            rex = self.instance()
            one = Attached(Feed(rex), "main", offset=offset, window=65536)
            goal = offset + total // amount(60, 1000) + 1
            one.until(lambda one=one, goal=goal: one.next >= min(goal, total))
            rex.kill()
            seen += one.data
            offset = one.next
        self.assertEqual(seen, everything)


class Ends(DaemonCase):
    def test_a_close_leaves_nothing_and_frees_the_name(self):
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon")
        session.run("(setsid sleep 1000 &); sleep 1000 &")
        shell = session.info["pid"]
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])
        self.refused("SessionNotFound", session.run, "true")
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertFalse(alive(shell))
        self.assertEqual(self.left(), [])
        again = rex.session("main", shell="bash", lifetime="daemon")
        self.assertEqual(again.output("echo new"), "new\n")

    def test_by_its_ttl_when_nobody_is_there_and_nothing_runs(self):
        rex = self.instance()
        session = rex.session("main", shell="dash", lifetime="daemon", ttlMs=300)
        self.assertEqual(session.info["ttlMs"], 300)
        gate = self.folder / "gate"
        os.mkfifo(gate)
        session.run(f"read x <{gate}", waitMs=0)
        [keeper] = self.keepers()
        rex.close()
        self.pass_gate(gate)  # the job lived on, however long that took
        self.assertTrue(until(lambda: not alive(keeper)))
        self.assertFalse(alive(session.info["pid"]))
        self.assertEqual(self.left(), [])

    def test_a_session_without_daemon_has_no_ttl(self):
        self.refused("InvalidParams", self.instance().session, "main", ttlMs=300)

    def test_F6_its_process_killed_is_told_and_nothing_is_left_but_the_truth(self):
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon")
        pending = session.start("run", command="sleep 1000")
        self.assertTrue(until(lambda: session.call("info")["job"]))
        [keeper] = self.keepers()
        os.kill(keeper, signal.SIGKILL)
        self.assertEqual(self.refused("SessionEnded", pending.result).data["executed"], "unknown")
        self.assertTrue(until(lambda: not alive(session.info["pid"])), "its shell lives on")
        lost = self.refused("SessionEnded", session.run, "true")
        self.assertEqual(lost.data["executed"], "no")
        self.assertEqual([each["state"] for each in rex.call("session/list")["sessions"]], ["lost"])
        self.assertEqual(self.left(), [])
        rex.call("session/close", session="main")
        self.assertEqual(rex.call("session/list")["sessions"], [])
        self.assertEqual(rex.session("main", shell="bash", lifetime="daemon").output("echo new"), "new\n")

    def test_one_that_cannot_start_is_told_and_leaves_nothing(self):
        rex = self.instance()
        self.refused("StartFailed", rex.session, "main", argv=["/nonexistent"], lifetime="daemon")
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(self.left(), [])
        self.sockets.chmod(0o755)
        self.addCleanup(self.sockets.chmod, 0o700)
        refused = self.refused("NotPermitted", rex.session, "main", lifetime="daemon")
        self.assertIn("chmod 700", refused.message)

    def test_what_cannot_be_made_starts_nothing(self):
        rex = self.instance()
        for wrong in ({"session": ""}, {"rows": 0}, {"session": 7}, {"unheard": 1}):
            with self.subTest(wrong):
                self.refused("InvalidParams", rex.call, "session/create", lifetime="daemon", **wrong)
                self.assertEqual(self.keepers(), [])
        made = rex.call("session/create", lifetime="daemon", session=None)  # which says no more than nothing
        rex.kill()
        self.assertEqual([each["session"] for each in self.instance().call("session/list")["sessions"]], [made["session"]])

    def test_one_that_does_not_answer_is_told_in_the_list_and_holds_up_nobody(self):
        rex = self.instance()
        rex.session("stuck", shell="dash", lifetime="daemon")
        [stuck], [path] = self.keepers(), self.sockets.glob("daemon-*.sock")
        rex.session("well", shell="dash", lifetime="daemon")
        os.kill(stuck, signal.SIGSTOP)
        self.addCleanup(os.kill, stuck, signal.SIGCONT)
        listed = self.instance().call("session/list")
        self.assertEqual([each["session"] for each in listed["sessions"]], ["well"])
        self.assertIn("did not answer", listed["detail"])
        late = rex.call("session/list")  # by a link that is there already
        self.assertIn("did not answer", late["detail"])
        callers = contextlib.ExitStack()
        self.addCleanup(callers.close)
        with contextlib.suppress(BlockingIOError):
            while True:  # until it has no place for one more
                caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(str(path))
        full = self.instance().call("session/list")
        self.assertEqual([each["session"] for each in full["sessions"]], ["well"])
        self.assertIn("did not answer", full["detail"])
        callers.close()
        os.kill(stuck, signal.SIGCONT)
        self.assertTrue(until(lambda: len(rex.call("session/list")["sessions"]) == 2))

    def test_C07_F14_what_a_dead_one_left_fools_nobody(self):
        rex = self.instance()
        rex.session("main", shell="dash", lifetime="daemon")
        [keeper] = self.keepers()
        [name] = [name for name in self.left() if name.endswith(".sock")]
        os.kill(keeper, signal.SIGKILL)
        self.assertTrue(until(lambda: not alive(keeper)))
        (self.sockets / name).unlink(missing_ok=True)
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(self.sockets / name))  # and nobody will ever listen there
        (self.sockets / f".{name}.lock").touch()
        self.refused("SessionExists", rex.session, "main", shell="dash", lifetime="daemon")
        rex.call("session/close", session="main")
        self.assertEqual(rex.session("main", shell="dash", lifetime="daemon").output("echo new"), "new\n")


class Names(DaemonCase):
    def test_are_the_users_whoever_makes_them(self):
        one, two = self.instance(), self.instance()
        one.session("main", shell="dash", lifetime="daemon")
        two.session("own", shell="dash")
        for rex, lifetime, name in ((two, "daemon", "main"), (two, "connection", "main"), (two, "daemon", "own")):
            with self.subTest(lifetime=lifetime, name=name):
                self.refused("SessionExists", rex.session, name, shell="dash", lifetime=lifetime)
        one.session("own", shell="dash")  # that of `two` is not of here
        made = two.call("session/create", shell="dash", lifetime="daemon")["session"]
        self.assertEqual(one.call("session/run", session=made, command="echo reached")["output"], "reached\n")

    def test_of_two_that_make_the_same_at_once_one_is_told(self):
        instances = [self.instance() for _ in range(4)]
        pending = [rex.start("session/create", session="main", shell="dash", lifetime="daemon") for rex in instances]
        made = []
        for each in pending:
            try:
                made.append(each.result()["pid"])
            except RpcError as error:
                self.assertEqual(error.type, "SessionExists")
        self.assertEqual(len(made), 1)
        self.assertTrue(until(lambda: len(self.keepers()) == 1))
        for rex in instances:
            self.assertEqual(rex.call("session/info", session="main")["pid"], made[0])

    def test_may_be_anything(self):
        rex = self.instance()
        for name in ("a/b", "..", "-x", "ä" * 64, "\U0010ffff", "a b\nc"):
            with self.subTest(name=name):
                self.assertEqual(rex.session(name, shell="dash", lifetime="daemon").output("echo yes"), "yes\n")
        self.assertEqual(len(rex.call("session/list")["sessions"]), 6)

    def test_F9_typing_is_leased_across_instances(self):
        one, two = self.instance(), self.instance()
        session = one.session("main", shell="bash", lifetime="daemon")
        held = Attached(Feed(two), "main", role="writer")
        self.refused("NotWriter", session.run, "true")
        two.kill()
        self.assertTrue(until(lambda: session.call("info")["writer"] is None))
        self.ended(session.run("echo free"), output="free\n")
        self.assertTrue(held.id)


class Places(DaemonCase):
    @as_root
    def test_what_ends_with_the_last_logout_is_no_place_for_what_outlives_it(self):
        """/run/user/UID, which systemd-logind takes away, in a namespace of mounts of the test's own."""
        script = """
            mount -t tmpfs none /run && mkdir -p -m 700 /run/user/0 && mount -t tmpfs none /tmp || exit 3
            request() { "$1" call "$2" "$3"; }
            XDG_RUNTIME_DIR=/run/user/0 request "$1" session/create '{"session": "main", "lifetime": "daemon"}' || exit 4
            rm -r /run/user/0
            env -u XDG_RUNTIME_DIR "$1" call session/run '{"session": "main", "command": "echo still here"}'
            mkdir -m 700 /run/user/0
            XDG_RUNTIME_DIR=/run/user/0 "$1" sessions
            XDG_RUNTIME_DIR=/run/user/0 "$1" kill main
        """
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", os.path.realpath(binary())],
                              capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 3 or "unshare:" in done.stderr:
            self.skipTest(f"cannot run here: no mounts of one's own: {done.stderr}")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn('"output": "still here\\n"', done.stdout)
        self.assertIn("daemon/main", done.stdout)


class Strangers(DaemonCase):
    def test_the_socket_is_the_users_own(self):
        self.instance().session("main", shell="dash", lifetime="daemon")
        [path] = [self.sockets / name for name in self.left() if name.endswith(".sock")]
        self.assertEqual((stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)), (0o600, 0o700))

    @as_root
    def test_a_directory_that_somebody_else_has_made_is_no_place_for_sessions(self):
        rex = self.instance()
        rex.call("ping")
        until(lambda: self.sockets.exists())
        os.chown(self.sockets, NOBODY, NOBODY)
        self.addCleanup(os.chown, self.sockets, 0, 0)
        self.refused("NotPermitted", rex.session, "main", lifetime="daemon")
        own = rex.session("own", shell="dash")
        listed = rex.call("session/list")
        self.assertEqual([info["session"] for info in listed["sessions"]], [own.name])
        self.assertIn("belongs to somebody else", listed["detail"])


class People(DaemonCase):
    def test_see_and_reach_them_by_one_name(self):
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon")
        session.run("echo one; echo two")
        self.assertTrue(until(lambda: "daemon/main" in self.command("sessions").stdout))
        shown = self.command("sessions").stdout
        self.assertEqual(shown.count("main"), 1, shown)
        self.assertEqual(self.command("logs", "daemon/main").stdout, "one\ntwo\n")
        self.assertEqual(self.command("logs", "--from", "4", "main").stdout, "two\n")
        self.assertEqual(self.command("kill", "main").returncode, 0)
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(self.command("sessions").stdout, "")

    def test_logs_follow_to_the_end_of_the_session(self):
        rex = self.instance()
        rex.call("session/create", session="main", argv=["sh", "-c", "read x; echo $x"], tty=False, lifetime="daemon")
        with subprocess.Popen([binary(), "logs", "--follow", "main"], stdout=subprocess.PIPE, text=True,
                              env=self.environment) as follower:
            self.addCleanup(kill_quietly, follower.pid)
            rex.call("session/write", session="main", data="told\n")
            self.assertEqual(follower.stdout.read(), "told\n")
            self.assertEqual(follower.wait(timeout=30), 0)


class Many(DaemonCase):
    def test_twenty_at_once_from_one_client(self):
        rex = self.instance()
        pending = [rex.start("session/create", session=f"s{number}", shell="dash", lifetime="daemon") for number in range(20)]
        for each in pending:
            each.result()
        runs = [rex.start("session/run", session=f"s{number}", command=f"echo {number}") for number in range(20)]
        self.assertEqual([run.result()["output"] for run in runs], [f"{number}\n" for number in range(20)])
        self.assertEqual(len(rex.call("session/list")["sessions"]), 20)
        threads = [threading.Thread(target=rex.call, args=("session/close",), kwargs={"session": f"s{number}", "graceMs": 100})
                   for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
