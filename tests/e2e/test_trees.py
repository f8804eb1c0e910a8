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

import cgroups
from rig import LONG, Rex, RexCase, alive, amount, binary, family, in_shells, kill_quietly, needs, status_of, until, zombies

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
            kill_quietly(pid)

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
        self.assertTrue(until(lambda: not zombies(self.rex.pid)), "zombies")

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
        self.assertTrue(until(lambda: not zombies(self.rex.pid)), "zombies")

    def test_E2_nothing_outlives_a_rex_rpc_that_is_killed(self):
        self.lifetime = None
        for _ in range(amount(2, 50)):
            rex = Rex()
            self.addCleanup(rex.kill)
            loose = self.let_loose(rex)
            pids = list(family(rex.pid))
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
        for pid in [self.rex.pid, *family(self.rex.pid)]:
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
        expected = f"2\n{'unlimited' if cgroups.MEMORY else 256 * 1024}\n99\n99\n"
        by = {"cpuMs": "rlimit", "memoryBytes": "cgroup" if cgroups.MEMORY else "rlimit", "openFiles": "rlimit"}
        self.assertEqual(self.rex.call("process/run", command=shown, limits=limits)["stdout"], expected)
        for shell in ("bash", "dash"):
            session = self.fresh(shell, limits=limits)
            self.ended(session.run(shown), output=expected)
            in_force = {**limits, "cpuMs": 2000, "by": by}
            self.assertEqual(session.call("info")["limits"], in_force)
        self.assertNotIn("limits", self.fresh().info)

    def test_a_limit_that_is_reached_is_told_by_its_signal_or_the_programs_own_words(self):
        spin = self.rex.call("process/run", command="while :; do :; done", limits={"cpuMs": 300})
        self.result(spin, state="signaled", signal="XCPU")
        if LONG:
            self.kill_the_deaf()
        eater = ["python3", "-c", "bytearray(1 << 29)"]
        eaten = self.rex.call("process/run", command=eater, limits={"memoryBytes": 256 * MIB})
        if cgroups.MEMORY:
            self.result(eaten, state="signaled", signal="KILL")
        else:
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
        if os.getuid() == 0 and not cgroups.PROCESSES:
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
        self.addCleanup(rex.kill)
        bystander = rex.session("bystander", shell="dash")
        uid = status_of(rex.pid)["Uid"]
        mine = sum(status_of(name).get("Uid") == uid for name in os.listdir("/proc") if name.isdigit())
        limits = {"processes": mine + 150}
        session = rex.session("bomb", shell="bash", limits=limits)
        bomb = session.start("run", command="bomb() { bomb | bomb & }; bomb; sleep 1000")
        self.assertTrue(until(lambda: len(family(rex.pid)) > 120, 20), "no bomb")
        for number in range(20):
            self.ended(bystander.run(f"echo {number}"), output=f"{number}\n")
        self.assertEqual(session.call("close", graceMs=200)["survivors"], [])
        self.assertEqual(bomb.result()["state"], "cancelled")
        self.assertNotIn("bash", [status.get("Name") for status in family(rex.pid).values()])
        self.ended(rex.session("after", shell="bash", limits=limits).run("echo fine"), output="fine\n")
        rex.close()

    @cgroups.counting("pids")
    def test_E3_P02_L06_a_fork_bomb_in_a_cgroup_is_held_to_it_whoever_runs_it(self):
        bystander = self.fresh("dash")
        for shell in ("bash", "dash"):
            limits = {"processes": 40, "openFiles": 200}
            session = self.fresh(shell, limits=limits)
            by = {"processes": "cgroup", "openFiles": "rlimit"}
            self.assertEqual(session.call("info")["limits"], {**limits, "by": by})
            cgroup = cgroups.cgroup_of(session.info["pid"], cgroups.PROCESSES)
            self.assertEqual((cgroup / "pids.max").read_text(), "40\n")
            bomb = session.start("run", command="bomb() { bomb | bomb & }; bomb; sleep 1000")
            self.assertTrue(until(lambda: "max 0" not in (cgroup / "pids.events").read_text(), 60), "no bomb")
            self.assertLessEqual(int((cgroup / "pids.current").read_text()), 40)
            self.ended(bystander.run("echo fine"), output="fine\n")
            self.assertEqual(session.call("close", graceMs=200)["survivors"], [])
            self.assertEqual(bomb.result()["state"], "cancelled")
            self.assertFalse(cgroup.exists())

    @cgroups.counting("pids")
    def test_a_cgroup_is_gone_with_the_tree_it_held(self):
        limits = {"processes": 40}

        def made():
            return {path.name for path in cgroups.PROCESSES.glob("rex-rpc-*")}

        before = made()
        plain = self.fresh("dash")
        self.rex.call("process/run", command="true", limits=limits)
        self.refused("StartFailed", self.rex.call, "process/run", command=["/no/such"], limits=limits)
        self.refused("StartFailed", self.rex.call, "session/create", session="never", argv=["/no/such"], limits=limits)
        self.assertTrue(until(lambda: made() <= before), made())
        self.ended(plain.run("cat /proc/self/cgroup | grep -c rex-rpc"), code=1, output="0\n")
        rex = Rex([binary()], cwd="/")
        self.addCleanup(rex.kill)
        rex.session("short", shell="bash", limits=limits).start("run", command="(setsid sleep 1000 &) ; sleep 1000")
        self.assertEqual(len(made() - before), 1)
        os.kill(rex.pid, signal.SIGKILL)
        self.assertTrue(until(lambda: made() <= before), made())

    @cgroups.counting("pids")
    def test_what_a_killed_guardian_leaves_is_removed_by_the_next(self):
        session = self.fresh("dash", limits={"processes": 40})
        shell = session.info["pid"]
        cgroup = cgroups.cgroup_of(shell, cgroups.PROCESSES)
        inner = cgroup / "made-by-the-program"
        inner.mkdir()
        os.kill(int(status_of(shell)["PPid"]), signal.SIGKILL)
        self.assertTrue(until(lambda: not alive(shell)))
        self.assertTrue(inner.exists())
        left = self.rex.call("process/run", command="sleep 1000 & echo $!", limits={"processes": 41})
        survivor = int(left["stdout"])
        self.addCleanup(os.kill, survivor, signal.SIGKILL)
        self.assertFalse(cgroup.exists())
        self.fresh("dash", limits={"processes": 42})
        held = cgroups.cgroup_of(survivor, cgroups.PROCESSES)
        self.assertEqual((held / "pids.max").read_text(), "41\n", "a survivor lives on within its limits")

    @cgroups.counting("memory")
    def test_the_memory_of_a_tree_is_counted_together(self):
        session = self.fresh("bash", limits={"memoryBytes": 64 * MIB})
        self.assertEqual(session.call("info")["limits"], {"memoryBytes": 64 * MIB, "by": {"memoryBytes": "cgroup"}})
        family = """if True:
            import os
            held, end = os.pipe()
            for _ in range(3):
                if os.fork() == 0:
                    os.close(end)
                    kept = b"x" * (48 << 20)
                    os.read(held, 1)
                    os._exit(0)
            print(os.wait()[1])"""
        held = self.rex.call("process/run", command=[sys.executable, "-c", family], limits={"memoryBytes": 64 * MIB})
        self.result(held, state="exited", exitCode=0, stdout="9\n")

    def test_P02_hoppers_are_caught_by_a_close(self):
        """Sixteen processes that each live for one fork."""
        session = self.fresh("dash")
        mark = f"hopper-{os.getpid()}-"
        session.start("run", command=f"{sys.executable} {RUNAWAYS} swarm {mark}")
        self.assertEqual(session.call("wait", any=[{"match": "^up"}], waitMs=20_000)["met"], 0)
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])
        self.assertEqual(marked(mark), [])

    def test_a_process_whose_first_thread_has_ended_still_lives(self):
        session = self.fresh("dash")
        left = session.run(f"{sys.executable} {RUNAWAYS} headless {os.getpid()}")
        self.ended(left, output="up\n")
        self.assertEqual(len(left["survivors"]), 1)
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])
        self.assertFalse(os.path.exists(f"/proc/{left['survivors'][0]['pid']}"))


if __name__ == "__main__":
    unittest.main()
