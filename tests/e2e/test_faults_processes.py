"""Faults of processes and signals, P03 to P17: failed starts, deaths of every kind, and signals at the wrong moment.

Must not know how processes are spawned or reaped; ids are those of the list of faults.
"""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from rig import (
    Rex, RexCase, alive, amount, binary, family, in_shells, kill_quietly, needs, signal, status_of, until, zombies,
)

as_root = unittest.skipIf(os.getuid() != 0, "cannot run here: needs root")


def ask(process, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


class Processes(RexCase):
    @as_root
    @needs("unshare")
    def test_P04_a_pid_used_again_is_never_hit(self):
        """In a process space of 301 pids: what a session left has ended, and a stranger has its number now."""
        own_pids = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        probe = subprocess.run([*own_pids, "sh", "-c", "echo 400 >/proc/sys/kernel/pid_max"], capture_output=True,
                               check=False)
        host = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
        if probe.returncode or host == 400:
            self.skipTest("cannot run here: pid_max is not the namespace's own (Linux 6.14)")
        program = (
            "import os, subprocess, sys\n"
            "open('/proc/sys/kernel/pid_max', 'w').write('400')\n"
            "rex = subprocess.Popen([sys.argv[1]], stdin=0, stdout=1)\n"
            "for _ in range(int(sys.argv[2])):\n"
            "  subprocess.run(['true'])\n"
            "canary = subprocess.Popen(['sleep', '1000'])\n"
            "rex.wait()\n"
            "sys.stderr.write('canary %s\\n' % canary.poll())\n"
        )
        rex = Rex([*own_pids, "python3", "-c", program, binary(), "350"])
        self.addCleanup(rex.kill)
        session = rex.session("main", shell="bash")
        for _ in range(amount(150, 2000)):
            self.assertEqual(session.run("(/bin/true &)")["exitCode"], 0)
        stale = session.run("sleep 0.01 & echo $!")
        self.assertEqual(stale["exitCode"], 0)
        for _ in range(amount(300, 3000)):
            session.run("/bin/true")
        self.assertEqual(session.call("close")["survivors"], [])
        self.assertEqual(rex.close(), 0)
        self.assertIn("canary None", "".join(rex.stderr))

    @in_shells()
    def test_P06_the_environment_holds_nothing_of_ours(self, session):
        """BASH_ENV is D14's."""
        lines = session.output("env").splitlines()
        shown = dict(line.split("=", 1) for line in lines if "=" in line)
        self.assertFalse([name for name in shown if name.startswith(("REX_RPC_", "__rex"))])
        self.assertEqual(shown.get("LD_PRELOAD"), os.environ.get("LD_PRELOAD"))
        self.assertEqual(shown["TERM"], "dumb")
        prompts = {name: value for name, value in shown.items() if name in ("PS1", "PS2")}
        # dash takes nothing out of its environment again: a known deviation.
        self.assertEqual(prompts, {"PS1": "", "PS2": ""} if session.info["shell"] == "dash" else {})
        human = self.fresh(session.info["shell"], profile="human", env={"TERM": "xterm-256color"})
        self.result(human.run("echo $TERM", expect=["xterm-256color"], waitMs=5000), state="matched")

    @in_shells()
    def test_P07_text_pushed_into_a_terminal_is_never_run(self, session):
        """Whoever may write into every terminal (root may) reaches programs that read it, no shell of ours."""
        other, mark = self.fresh(session.info["shell"]), self.folder / "mark"
        attack = ("import fcntl, glob, os, termios\n"
                  f"text = b'\\ntouch {mark}\\n'\n"
                  "for tty in glob.glob('/dev/pts/[0-9]*'):\n"
                  "  try:\n    fd = os.open(tty, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)\n"
                  "    for byte in text: fcntl.ioctl(fd, termios.TIOCSTI, bytes([byte]))\n"
                  "  except OSError: pass\n")
        (self.folder / "attack.py").write_text(attack)
        mine = {str(pathlib.Path(f"/proc/{s.info['pid']}/fd/1").readlink()) for s in (session, other)}
        script = attack.replace("glob.glob('/dev/pts/[0-9]*')", repr(sorted(mine)))
        (self.folder / "attack.py").write_text(script)
        self.assertEqual(session.run(f"python3 {self.folder}/attack.py")["exitCode"], 0)
        for victim in (other, session):
            self.ended(victim.run("(exit 21)"), 21)
            self.ended(victim.run("true"))
        self.assertFalse(mark.exists())

    @in_shells()
    def test_P09_a_stopped_child_does_not_hold_up_close(self, session):
        """One that the kernel wakes when its shell ends, and one of a session of its own, which nobody wakes but we."""
        pids = []
        for start, told in (("sh", self.folder / "one"), ("setsid sh", self.folder / "two")):
            os.mkfifo(told)
            shown = session.output(f"{start} -c 'echo $$ >{told}; kill -STOP $$' & read p <{told}; echo pid=$p")
            pids.append(int(shown.split("pid=")[1].split()[0]))
        self.assertTrue(until(lambda: all(status_of(pid).get("State", "").startswith("T") for pid in pids)))
        begun = time.monotonic()
        self.assertEqual(session.call("close", graceMs=10_000)["survivors"], [])
        self.assertLess(time.monotonic() - begun, 5, "a stopped process was waited for, not woken")
        self.assertFalse([pid for pid in pids if alive(pid)])

    @as_root
    @needs("cc", "setpriv")
    def test_P10_a_process_that_may_not_be_killed_is_named(self):
        """E14 too. The program runs as nobody; its child has taken root's identity by a set-uid file."""
        folder = pathlib.Path("/var/tmp") / f"rex-test-{os.getpid()}"
        folder.mkdir(mode=0o755)
        self.addCleanup(shutil.rmtree, folder)
        (folder / "hold.c").write_text("#include <unistd.h>\nint main(void) { return setuid(0) || pause(); }\n")
        subprocess.run(["cc", "-o", folder / "hold", folder / "hold.c"], check=True)
        os.chmod(folder / "hold", 0o4755)
        rex = Rex(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary()], cwd="/")
        self.addCleanup(rex.kill)
        session = rex.session("main", shell="dash")
        pid = int(session.output(f"{folder}/hold & echo $!"))
        if not until(lambda: self.real_uid(pid) == 0, 2):
            self.skipTest("cannot run here: set-uid files have no effect")
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        survivors = session.call("close", graceMs=200)["survivors"]
        self.assertEqual([process["pid"] for process in survivors], [pid])
        self.assertTrue(alive(pid))

    @staticmethod
    def real_uid(pid):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                return int(next(line for line in file if line.startswith("Uid:")).split()[1])
        except OSError:
            return None

    def test_P11_every_failed_start_names_its_errno_and_leaves_nothing(self):
        plain, folder, loop, junk, busy = (self.folder / name for name in ("plain", "dir", "loop", "junk", "busy"))
        plain.write_text("x")
        folder.mkdir()
        loop.symlink_to(loop)
        junk.write_bytes(b"\x7fELF junk")
        junk.chmod(0o755)
        shutil.copy("/bin/true", busy)
        before = set(os.listdir(f"/proc/{self.rex.pid}/fd"))
        with busy.open("ab"):
            for argv, name in (([str(self.folder / "nosuch")], "ENOENT"), ([str(plain)], "EACCES"),
                               ([str(folder)], "EACCES"), ([str(loop)], "ELOOP"), ([str(junk)], "ENOEXEC"),
                               (["true", "x" * 3_000_000], "E2BIG"),
                               ([str(busy)], "ETXTBSY"), ([str(plain / "x")], "ENOTDIR"), ([""], "ENOENT"),
                               (["/" + "x" * 5000], "ENAMETOOLONG")):
                for method, params in (("process/run", {"command": argv}),
                                       ("session/create", {"session": "never", "argv": argv})):
                    with self.subTest(method=method, name=name):
                        error = self.refused("StartFailed", self.rex.call, method, **params)
                        self.assertEqual((error.data["name"], error.data["executed"]), (name, "no"))
        for cwd, name in (("/nosuch/place", "ENOENT"), (str(plain), "ENOTDIR"), (str(loop), "ELOOP")):
            for method, params in (("process/run", {"command": ["true"]}),
                                   ("session/create", {"session": "never", "argv": ["true"]}),
                                   ("session/create", {"session": "never", "shell": "bash"})):
                with self.subTest(method=method, cwd=cwd):
                    error = self.refused("StartFailed", self.rex.call, method, cwd=cwd, **params)
                    self.assertEqual((error.data["name"], error.data["executed"]), (name, "no"))
        self.assertEqual(set(os.listdir(f"/proc/{self.rex.pid}/fd")), before)
        self.assertTrue(until(lambda: not zombies(self.rex.pid)))
        self.refused("SessionNotFound", self.rex.call, "session/info", session="never")

    def test_P11_a_directory_that_is_gone_is_told(self):
        gone = self.folder / "gone"
        gone.mkdir()
        rex = self.spawn(cwd=gone)
        gone.rmdir()
        result = rex.call("process/run", command=["true"])
        self.assertEqual(result["exitCode"], 0)
        session = self.fresh(rex=rex)
        self.ended(session.run("echo x"), output="x\n")

    def test_P12_a_client_that_vanishes_ends_the_process_and_its_tree(self):
        process = subprocess.Popen([binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        ask(process, 1, "session/create", session="main", shell="bash")
        process.stdout.readline()
        # Nothing is said that would have to be answered: who only writes finds out too, but not at once.
        ask(process, 2, "session/run", session="main", command="(setsid sleep 60 &); sleep 61")
        self.assertTrue(until(lambda: sum(status.get("Name") == "sleep"
                                          for status in family(process.pid).values()) == 2))
        for number in range(100):
            ask(process, 10 + number, "session/read", session="main", offset=0, waitMs=60_000)
        pids = list(family(process.pid))
        process.stdout.close()
        self.assertTrue(until(lambda: process.poll() is not None, 1.5), "not ended within 1.5 s")
        self.assertGreaterEqual(process.returncode, 0, "died of a signal")
        self.assertTrue(until(lambda: not any(alive(pid) for pid in pids), 1))

    @in_shells()
    def test_P13_every_end_is_reported_once(self, session):
        count = 900 if session.info["shell"] == "zsh" else amount(1000, 10_000)  # its table has no room for more at once
        loop = f"i=0; while [ $i -lt {count} ]; do /bin/true & i=$((i+1)); done; wait; echo over"
        result = self.ended(session.run(loop))
        self.assertTrue("over\n" in result["output"])
        total = amount(150, 900)
        calls = [self.rex.start("process/run", command=["sh", "-c", f"exit {number % 256}"]) for number in range(total)]
        self.assertEqual([call.result()["exitCode"] for call in calls], [number % 256 for number in range(total)])
        self.assertTrue(until(lambda: not zombies(self.rex.pid)))

    @unittest.skipIf(os.environ.get("REX_HOPS"), "at hops it falls to the guardian of the link, with which it ends")
    def test_what_a_one_off_leaves_behind_is_named_and_lives_on(self):
        """`server &` is a way to start one."""
        result = self.rex.call("process/run", command="sleep 300 >/dev/null 2>&1 & echo $!")
        pid = int(result["stdout"])
        self.addCleanup(kill_quietly, pid)
        self.assertEqual([process["pid"] for process in result["survivors"]], [pid])

        def is_let_go_of():
            return status_of(int(status_of(pid).get("PPid", 0))).get("Name") != "rex-guardian"

        self.assertTrue(until(is_let_go_of))
        self.assertTrue(alive(pid))

    def test_P14_deaths_by_signal_are_told_by_name(self):
        for name in ("SEGV", "ABRT", "KILL", "TERM", "HUP", "PIPE", "USR1"):
            result = self.rex.call("process/run", command=["sh", "-c", f"kill -{name} $$"])
            self.result(result, state="signaled", signal=name, exitCode=None)
        cored = self.rex.call("process/run", command="ulimit -c unlimited; kill -SEGV $$", cwd=str(self.folder))
        self.result(cored, state="signaled", signal="SEGV")
        self.assertIsInstance(cored["coreDumped"], bool)
        none = self.rex.call("process/run", command="ulimit -c 0; kill -SEGV $$")
        self.result(none, state="signaled", signal="SEGV", coreDumped=False)

    @in_shells()
    def test_P15_signals_to_the_program_lose_no_byte(self, session):
        rex = self.spawn()
        own = self.fresh(session.info["shell"], rex=rex)
        lines = amount(300_000, 3_000_000)
        call = own.start("run", command=f"seq -w 1000000 {999_999 + lines}")
        turns = 0
        while not call.done():
            for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD):
                os.kill(rex.pid, number)
            turns += 1
        self.assertGreater(turns, 1)
        result = self.ended(call.result(), totalBytes=8 * lines)
        data = own.read_all(result["from"], maxBytes=4 * 1024 * 1024)
        self.assertEqual(data, "".join(f"{number}\n" for number in range(1_000_000, 1_000_000 + lines)).encode())

    @in_shells("bash")
    def test_P17_codes_above_128_and_deaths_by_signal_are_two_things(self, session):
        self.ended(session.run("(exit 137)"), 137)
        self.ended(session.run("sh -c 'kill -9 $$'"), 137)
        self.result(session.run("exit 137"), state="shellExited", exitCode=137, signal=None)
        self.result(session.run("kill -9 $$"), state="shellExited", exitCode=None, signal="KILL")
        one, two = (self.rex.call("process/run", command=["sh", "-c", text]) for text in ("exit 137", "kill -9 $$"))
        self.result(one, state="exited", exitCode=137, signal=None)
        self.result(two, state="signaled", exitCode=None, signal="KILL")


if __name__ == "__main__":
    unittest.main()
