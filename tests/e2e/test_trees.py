"""Trees of processes: whatever a command starts, however it runs away, ends with its time, its session or its rex-rpc.

Must not know how trees are kept. What is left is found by a word in its command line, anywhere in the system.
"""

import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from rig import LONG, Rex, RexCase, alive, amount, binary, family, in_shells, needs, status_of, until, zombies

RUNAWAYS = pathlib.Path(__file__).resolve().parents[1] / "support" / "runaways.py"
sys.path.insert(0, str(RUNAWAYS.parent))

from runaways import KINDS  # noqa: E402

MIB = 1 << 20
ORDINARY = ["setpriv", "--reuid=65531", "--regid=65531", "--clear-groups"]  # a user that nobody else runs as


def marked(mark):
    """Every living process with `mark` in its command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in pathlib.Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            pass
    return [pid for pid in found if alive(pid)]


class Runaways(RexCase):
    marks = itertools.count()

    def setUp(self):
        super().setUp()
        self.canary = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(self.canary.wait)
        self.addCleanup(self.canary.kill)

    def let_loose(self, rex):
        """One session a kind, each with its runaway: [(mark, session, the call that runs it)]."""
        loose = []
        for kind in KINDS:
            mark = f"runaway-{os.getpid()}-{next(self.marks)}-"
            session = self.fresh("dash") if rex is self.rex else rex.session(kind, shell="dash")
            command = f"{sys.executable} {RUNAWAYS} {kind} {mark}"
            loose.append((kind, mark, session, session.start("run", command=command, timeoutMs=self.lifetime)))
            self.addCleanup(self.kill_marked, mark)
        for kind, mark, session, _ in loose:
            waited = session.call("wait", any=[{"match": "^up"}, {"exit": True}], waitMs=20_000)
            self.assertEqual(waited["met"], 0, (kind, waited))
            self.assertTrue(marked(mark), kind)
        return loose

    @staticmethod
    def kill_marked(mark):
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)

    def gone(self, loose):
        for kind, mark, *_ in loose:
            with self.subTest(kind=kind):
                self.assertTrue(until(lambda mark=mark: not marked(mark), 2), [status_of(pid) for pid in marked(mark)])
        self.assertIsNone(self.canary.poll(), "somebody else was ended")

    def test_E2_nothing_of_a_job_outlives_its_time(self):
        self.lifetime = 3000
        bystander = self.fresh("dash")
        other = bystander.start("run", command="sleep 1000")
        for _ in range(amount(1, 50)):
            loose = self.let_loose(self.rex)
            for kind, _, session, call in loose:
                with self.subTest(kind=kind):
                    self.result(call.result(timeout=60), state="timedOut", survivors=[])
                    self.usable(session)
            self.gone(loose)
            for _, _, session, _ in loose:
                session.call("close")
        self.assertFalse(other.done())
        self.assertTrue(until(lambda: not zombies(self.rex.process.pid)), "zombies")

    def test_E2_nothing_of_a_session_outlives_its_close(self):
        self.lifetime = None
        for _ in range(amount(2, 50)):
            loose = self.let_loose(self.rex)
            closes = [session.start("close", graceMs=200) for _, _, session, _ in loose]
            for (kind, _, _, call), close in zip(loose, closes):
                with self.subTest(kind=kind):
                    self.assertEqual(close.result()["survivors"], [])
                    self.result(call.result(), state="cancelled")
            self.gone(loose)
        self.assertTrue(until(lambda: not zombies(self.rex.process.pid)), "zombies")

    def test_E2_nothing_outlives_a_rex_rpc_that_is_killed(self):
        self.lifetime = None
        for _ in range(amount(2, 50)):
            rex = Rex()
            self.addCleanup(rex.process.kill)
            loose = self.let_loose(rex)
            pids = list(family(rex.process.pid))
            rex.process.kill()
            self.gone(loose)
            self.assertTrue(until(lambda pids=pids: not any(alive(pid) for pid in pids), 2))
            rex.close()


class Secrets(RexCase):
    @in_shells()
    def test_J8_no_process_of_ours_shows_what_it_was_told_to_run(self, session):
        """Command lines and environments are for everybody of the host to see, or for the user's other programs."""
        word = f"secret{os.getpid()}word"
        call = session.start("run", command=f": {word}; sleep 1000")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        for pid in [self.rex.process.pid, *family(self.rex.process.pid)]:
            for name in ("cmdline", "environ", "comm"):
                with contextlib.suppress(OSError):
                    self.assertNotIn(word.encode(), pathlib.Path(f"/proc/{pid}/{name}").read_bytes(), (pid, name))
        session.call("interrupt")
        call.result()


class Limits(RexCase):
    def test_what_is_limited_is_limited_for_every_process(self):
        """The kernel's own words for it; CPU time is counted in whole seconds, and said so."""
        limits = {"cpuMs": 1500, "memoryBytes": 256 * MIB, "openFiles": 99}
        shown = "ulimit -t; ulimit -d; ulimit -n; sh -c 'ulimit -Hn'"
        expected = f"2\n{256 * 1024}\n99\n99\n"
        self.assertEqual(self.rex.call("process/run", command=shown, limits=limits)["stdout"], expected)
        for shell in ("bash", "dash"):
            session = self.fresh(shell, limits=limits)
            self.ended(session.run(shown), output=expected)
            in_force = {**limits, "cpuMs": 2000, "by": "rlimit"}
            self.assertEqual(session.call("info")["limits"], in_force)
        self.assertNotIn("limits", self.fresh().info)

    def test_a_limit_that_is_reached_is_told_by_its_signal_or_the_programs_own_words(self):
        spin = self.rex.call("process/run", command="while :; do :; done", limits={"cpuMs": 300})
        self.result(spin, state="signaled", signal="XCPU")
        if LONG:
            self.kill_the_deaf()
        eater = ["python3", "-c", "bytearray(1 << 29)"]
        eaten = self.rex.call("process/run", command=eater, limits={"memoryBytes": 256 * MIB})
        self.assertEqual((eaten["state"], eaten["exitCode"]), ("exited", 1))
        self.assertIn("MemoryError", eaten["stderr"])
        self.assertIn("Too many open files", self.run_files(40))

    def kill_the_deaf(self):
        deaf = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
        self.result(self.rex.call("process/run", command=["python3", "-c", deaf], limits={"cpuMs": 300}),
                    state="signaled", signal="KILL")

    def run_files(self, limit):
        program = "kept = [open('/dev/null') for _ in range(100)]"
        return self.rex.call("process/run", command=["python3", "-c", program], limits={"openFiles": limit})["stderr"]

    def test_a_limit_that_cannot_be_is_refused_by_name_and_nothing_is_run(self):
        mark = self.folder / "mark"
        hard = int(subprocess.run(["sh", "-c", "ulimit -Hn"], capture_output=True, text=True, check=True).stdout)
        wrong = [({"openFiles": hard + 1}, "limits.openFiles"), ({"cpuMs": 0}, "limits.cpuMs")]
        if os.getuid() == 0:
            wrong.append(({"processes": 100}, "limits.processes"))
        for limits, member in wrong:
            with self.subTest(limits=limits):
                touch = {"command": f"touch {mark}", "limits": limits}
                error = self.refused("InvalidParams", self.rex.call, "process/run", **touch)
                self.assertEqual((error.data["member"], error.data["executed"]), (member, "no"))
                self.refused("InvalidParams", self.rex.call, "session/create", session="never", shell="dash",
                             limits=limits)
        self.refused("SessionNotFound", self.rex.call, "session/info", session="never")
        self.assertFalse(mark.exists())

    @needs("setpriv")
    def test_E3_P02_L06_a_fork_bomb_under_a_limit_is_ended_and_disturbs_nobody(self):
        """As an ordinary user, since the kernel counts no process of root."""
        rex = Rex([*ORDINARY, binary()] if os.getuid() == 0 else [binary()], cwd="/")
        self.addCleanup(rex.process.kill)
        bystander = rex.session("bystander", shell="dash")
        uid = status_of(rex.process.pid)["Uid"]
        mine = sum(status_of(name).get("Uid") == uid for name in os.listdir("/proc") if name.isdigit())
        limits = {"processes": mine + 150}
        session = rex.session("bomb", shell="bash", limits=limits)
        bomb = session.start("run", command="bomb() { bomb | bomb & }; bomb; sleep 1000")
        self.assertTrue(until(lambda: len(family(rex.process.pid)) > 120, 20), "no bomb")
        for number in range(20):
            self.ended(bystander.run(f"echo {number}"), output=f"{number}\n")
        self.assertEqual(session.call("close", graceMs=200)["survivors"], [])
        self.assertEqual(bomb.result()["state"], "cancelled")
        self.assertNotIn("bash", [status.get("Name") for status in family(rex.process.pid).values()])
        self.ended(rex.session("after", shell="bash", limits=limits).run("echo fine"), output="fine\n")
        rex.close()

    def test_P02_hoppers_are_caught_by_a_close(self):
        """Sixteen processes that each live for one fork."""
        session = self.fresh("dash")
        mark = f"hopper-{os.getpid()}-"
        session.start("run", command=f"{sys.executable} {RUNAWAYS} swarm {mark}")
        self.assertEqual(session.call("wait", any=[{"match": "^up"}], waitMs=20_000)["met"], 0)
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])
        self.assertEqual(marked(mark), [])


if __name__ == "__main__":
    unittest.main()
