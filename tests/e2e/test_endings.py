"""How an instance ends, or cannot begin: signals, hang-ups, crashes, and machines that lack what it needs. Group C of the
faults, as far as no other file has it.

Each test has instances and a runtime directory of its own.
"""

import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import termios
import time
import unittest

from rig import RpcError, amount, binary, is_sanitized, needs, until
from test_daemon import DaemonCase
from watching import Person

ENDINGS = (signal.SIGTERM, signal.SIGINT)


class Told(DaemonCase):
    def setUp(self):
        super().setUp()
        # Under asan: what an end at once leaves unsaid is memory in use, and goes with the process.
        self.environment["ASAN_OPTIONS"] = "detect_leaks=0"

    def test_C04_what_was_asked_before_it_was_told_to_end_is_answered_and_nothing_more_is_taken(self):
        for number in ENDINGS:
            with self.subTest(number):
                rex = self.instance(hops=0)
                go = self.folder / f"go{number}"
                rex.session("s", shell="dash")
                calls = [rex.start("session/wait", session="s", any=[{"file": str(go)}]) for _ in range(100)]
                rex.call("ping")
                rex.process.send_signal(number)

                def is_refused():
                    asked = rex.start("process/run", command=["touch", str(self.folder / "done")])
                    try:
                        asked.result()
                    except RpcError as error:
                        return error
                    (self.folder / "done").unlink()
                    return None

                refused = until(is_refused)
                go.touch()
                self.assertEqual((refused.type, refused.data["executed"]), ("InvalidRequest", "no"), refused)
                self.assertEqual([call.result()["met"] for call in calls], [0] * 100)
                self.assertEqual(rex.process.wait(timeout=20), 0)
                self.assertFalse((self.folder / "done").exists())

    def test_C05_told_twice_it_ends_at_once_and_told_once_it_waits_for_nobody_for_long(self):
        for numbers, bound in (((signal.SIGTERM, signal.SIGINT), 1.8), ((signal.SIGTERM, signal.SIGHUP), 1.8), ((signal.SIGINT,), 20)):
            with self.subTest(numbers):
                rex = subprocess.Popen([binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       env=self.environment)
                self.addCleanup(rex.stdout.close)
                self.addCleanup(rex.stdin.close)
                self.addCleanup(rex.wait)
                self.addCleanup(rex.kill)
                rex.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"process/run","params":{"command":'
                                b'"head -c 4000000 /dev/zero","maxOutputBytes":8000000}}\n'
                                b'{"jsonrpc":"2.0","id":2,"method":"process/run","params":{"command":"sleep 1000"}}\n')
                rex.stdin.flush()
                self.assertTrue(until(lambda rex=rex: self.unread(rex.stdout) > 0), "its answer does not come")
                begun = time.monotonic()
                for number in numbers:
                    rex.send_signal(number)
                self.assertTrue(until(lambda rex=rex: rex.poll() is not None, bound))
                self.assertEqual(rex.returncode, 0, time.monotonic() - begun)

    @staticmethod
    def unread(pipe):
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]

    def test_C14_a_hang_up_of_the_terminal_ends_what_serves_there_and_no_daemon_session(self):
        made = """'{"session": "main", "shell": "dash", "lifetime": "daemon"}'"""
        place = self.folder / "sock"
        person = Person("sh", "-c", f"{binary()} call session/create {made} >/dev/null; exec {binary()} serve --listen unix:{place}",
                        env=self.environment)
        self.addCleanup(person.process.wait)
        self.addCleanup(person.process.kill)
        person.sees("listening at")
        [keeper] = self.keepers()
        os.close(person.master)
        self.addCleanup(os.close, person.slave)
        self.assertEqual(person.process.wait(timeout=20), 0)
        self.assertFalse(place.exists())
        self.assertEqual(self.keepers(), [keeper])
        self.assertEqual(self.instance().call("session/run", session="main", command="echo here")["output"], "here\n")


class Broken(DaemonCase):
    def test_C09_a_crash_costs_no_daemon_session_and_leaves_no_memory_in_a_core(self):
        self.environment["ASAN_OPTIONS"] = "handle_segv=0"
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        rex = self.instance(hops=0)
        session = rex.session("main", shell="dash", lifetime="daemon")
        [keeper] = self.keepers()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        job = session.run(f"read x <{gate}; echo $x", waitMs=0)["job"]
        for pid in (rex.pid, keeper):
            self.assertEqual(int(pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0)
        rex.process.send_signal(signal.SIGSEGV)
        self.assertEqual(rex.process.wait(timeout=20), -signal.SIGSEGV)
        front = rex.pid
        rex = self.instance()
        self.pass_gate(gate)
        waited = rex.call("session/wait", session="main", job=job, any=[{"exit": True}])
        self.ended(waited["result"], output="go\n")
        os.kill(keeper, signal.SIGABRT)
        self.assertTrue(until(lambda: not self.keepers()))
        self.refused("SessionEnded", rex.call, "session/run", session="main", command="true")
        noted = pathlib.Path(self.environment["XDG_STATE_HOME"]) / "rex-rpc/incidents.log"
        self.assertEqual(noted.stat().st_mode & 0o777, 0o600)
        when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ rex-rpc \S+"
        by = f", sent by pid {os.getpid()}"
        self.assertRegex(noted.read_text(), rf"\A{when} serve, pid {front}: crashed by SIGSEGV{by}\n"
                                            rf"{when} serve, pid {front}: crashed at( [0-9a-f]+| library)+\n"
                                            rf"{when} session main, pid {keeper}: crashed by SIGABRT{by}\n"
                                            rf"{when} session main, pid {keeper}: crashed at( [0-9a-f]+| library)+\n\Z")
        doctor = subprocess.run([binary(), "doctor"], env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertIn(f"session main, pid {keeper}: crashed by SIGABRT", doctor.stdout)

    def test_C09_what_is_in_the_place_of_the_file_holds_nobody_up(self):
        self.environment["ASAN_OPTIONS"] = "handle_segv=0"
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        place = self.folder / "state/rex-rpc"
        place.mkdir(parents=True)
        os.mkfifo(place / "incidents.log", 0o600)
        doctor = subprocess.run([binary(), "doctor"], env=self.environment, stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertNotIn("note", doctor.stdout)
        rex = self.instance(hops=0)
        rex.process.send_signal(signal.SIGSEGV)
        self.assertEqual(rex.process.wait(timeout=20), -signal.SIGSEGV)

    def test_C13_one_that_is_stuck_holds_up_no_session_and_answers_when_it_goes_on(self):
        stuck = self.instance(hops=0)
        stuck.session("main", shell="dash", lifetime="daemon").run("kept=yes")
        os.kill(stuck.pid, signal.SIGSTOP)
        asked = [stuck.start("session/run", session="main", command=f"echo {number}", key={"client": "c", "seq": number})
                 for number in range(1, 4)]
        begun = time.monotonic()
        other = self.instance()
        turns = 0
        while turns == 0 or time.monotonic() - begun < amount(1, 10):
            self.ended(other.call("session/run", session="main", command="echo $kept"), output="yes\n")
            turns += 1
        os.kill(stuck.pid, signal.SIGCONT)
        answers = []
        for number, each in enumerate(asked, 1):  # all at once they come; one runs, the others are told so
            try:
                answers.append(each.result()["output"])
            except RpcError as error:
                self.assertEqual((error.type, error.data["executed"]), ("SessionBusy", "no"))
                again = stuck.call("session/run", session="main", command=f"echo {number}", key={"client": "c", "seq": number})
                answers.append(again["output"])
        self.assertEqual(answers, ["1\n", "2\n", "3\n"])


@needs("cc")
@unittest.skipIf(is_sanitized(), "cannot run here: a sanitized program takes no preloaded library")
class Stuck(DaemonCase):
    """SIGUSR2 lets the loop compute as long as a file is there, and the time after which that is noticed is short: both
    by a preloaded library, as the program has no such fault to show."""

    def setUp(self):
        super().setUp()
        source, library = self.folder / "stuck.c", self.folder / "stuck.so"
        source.write_text(
            "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <time.h>\n"
            "#include <unistd.h>\n"
            'static void stick(int n) { while (access(getenv("STUCK"), F_OK) == 0) {} }\n'
            "__attribute__((constructor)) static void begin(void) { signal(SIGUSR2, stick); }\n"
            "int timer_settime(timer_t t, int how, const struct itimerspec* when, struct itimerspec* old) {\n"
            "  struct itimerspec sooner = {{0, 200000000}, {0, 200000000}};\n"
            '  return ((int (*)(timer_t, int, const struct itimerspec*, struct itimerspec*))dlsym(RTLD_NEXT, "timer_settime"))\n'
            "      (t, how, &sooner, old);\n}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        self.mark = self.folder / "stuck"
        self.mark.touch()
        self.environment.update(LD_PRELOAD=str(library), STUCK=str(self.mark),
                                XDG_STATE_HOME=str(self.folder / "state"))
        self.noted = self.folder / "state/rex-rpc/incidents.log"

    def lines(self, who):
        when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ rex-rpc \S+"
        return (rf"\A{when} {who}: the loop has not turned for 10 s of computing\n"
                rf"{when} {who}: it is at( [0-9a-f]+| library)+\n\Z")

    def test_C13_an_instance_that_computes_for_ever_notes_where_and_ends_and_its_daemon_sessions_go_on(self):
        rex = self.instance(hops=0)
        session = rex.session("main", shell="dash", lifetime="daemon")
        session.run("kept=yes")
        rex.process.send_signal(signal.SIGUSR2)
        self.assertEqual(rex.process.wait(timeout=60), -signal.SIGVTALRM)
        self.assertRegex(self.noted.read_text(), self.lines(f"serve, pid {rex.pid}"))
        doctor = subprocess.run([binary(), "doctor"], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertIn(f"serve, pid {rex.pid}: the loop has not turned", doctor.stdout)
        self.assertEqual(self.instance().call("session/run", session="main", command="echo $kept")["output"], "yes\n")

    def test_C13_one_on_the_way_that_computes_for_ever_is_had_anew(self):
        rex = self.instance(hops=0)
        far = rex.call("host/connect", name="far", argv=[binary()])["machine"]["instance"]
        waiting = rex.start("process/run", host="far", command="sleep 1000")
        os.kill(int(far.split("-", maxsplit=1)[0]), signal.SIGUSR2)
        error = self.refused("HostLost", waiting.result)
        self.assertEqual(error.data["executed"], "unknown")
        self.assertEqual(rex.call("process/run", host="far", command="echo here")["stdout"], "here\n")

    def test_C13_the_process_of_a_session_is_noted_and_not_ended(self):
        rex = self.instance()
        session = rex.session("main", shell="dash", lifetime="daemon")
        session.run("kept=yes")
        [keeper] = self.keepers()
        os.kill(keeper, signal.SIGUSR2)
        self.assertTrue(until(lambda: self.noted.exists() and "it is at" in self.noted.read_text(), 60))
        asked = session.start("run", command="echo $kept")
        self.mark.unlink()
        self.ended(asked.result(), output="yes\n")
        self.assertRegex(self.noted.read_text(), self.lines(f"session main, pid {keeper}"))

    def test_C13_a_loop_that_has_much_to_do_and_turns_is_not_suspected(self):
        rex = self.instance(hops=0)
        session = rex.session("main", shell="dash")
        session.run("seq 1 3000000 >/dev/tty", timeoutMs=120_000)
        spent = os.sysconf("SC_CLK_TCK") // 2
        while sum(map(int, pathlib.Path(f"/proc/{rex.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) < spent:
            rex.call("ping")
        self.assertFalse(self.noted.exists())


class Lacking(DaemonCase):
    """What a machine lacks is worked without, or named."""

    REQUESTS = {"process/run": {"command": ["echo", "here"]}, "session/create": {"session": "s", "shell": "dash"}}

    def outcome(self, rex, method, params):
        try:
            done = rex.call(method, **params)
            return done.get("stdout") or done["state"]
        except RpcError as error:
            return f"{error.type}: {error.message}"

    def test_C10_without_a_home_or_directories_of_the_user_it_works_and_says_what_it_cannot_keep(self):
        bare = {name: value for name, value in self.environment.items() if name != "HOME" and not name.startswith("XDG_")}
        nowhere = {**self.environment, "HOME": "/proc/1", "XDG_STATE_HOME": ""}
        for environment in (bare, nowhere):
            self.environment = {**environment, "XDG_RUNTIME_DIR": str(self.runtime)}
            rex = self.instance(hops=0)
            self.assertEqual([self.outcome(rex, *each) for each in self.REQUESTS.items()], ["here\n", "ready"])
            if environment is nowhere:  # else it is the home of whoever runs the tests
                keyed = {"path": str(self.folder / "made"), "key": {"client": "c", "seq": 1}}
                error = self.refused("OsError", rex.call, "file/mkdir", **keyed)
                self.assertEqual((error.data["path"], error.data["executed"]), ("/proc/1/.local/", "no"))
                self.assertFalse((self.folder / "made").exists())

    def test_C10_where_its_directory_was_removed_it_works_elsewhere(self):
        place = self.folder / "place"
        place.mkdir()
        script = 'rmdir ../place && exec "$0"'
        rex = self.instance(argv=["sh", "-c", script, os.path.realpath(binary())], cwd=place)
        self.assertEqual([self.outcome(rex, *each) for each in self.REQUESTS.items()], ["here\n", "ready"])
        rex.session("d", shell="dash", lifetime="daemon", cwd="/")
        self.assertEqual(rex.call("session/run", session="d", command="pwd")["output"], "/\n")

    @unittest.skipUnless(os.geteuid() == 0, "cannot run here: takes a namespace of mounts")
    def test_C10_C11_what_doctor_finds_lacking_is_what_is_refused_and_by_the_same_name(self):
        lacks = {
            "/proc": ("LACK /proc:", "StartFailed: /proc is not mounted here"),
            "/dev/pts": ("LACK pseudo-terminals:", "OsError: cannot open a pseudo-terminal (`tty: false` needs none) /dev/ptmx"),
            "/mnt": ("", "ready"),
        }
        for place, (found, refused) in lacks.items():
            with self.subTest(place):
                argv = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {place} && exec "$@"', "sh",
                        os.path.realpath(binary())]
                done = subprocess.run([*argv, "doctor"], capture_output=True, text=True, env=self.environment, check=False,
                                      timeout=60)
                said = [line for line in done.stdout.splitlines() if line.startswith("LACK")]
                self.assertEqual((done.returncode, bool(said)), (1, True) if found else (0, False), done)
                self.assertIn(found, done.stdout)
                rex = self.instance(argv=argv)
                ran, made = (self.outcome(rex, *each) for each in self.REQUESTS.items())
                self.assertEqual(ran, "here\n")
                self.assertTrue(made.startswith(refused), made)
                if place == "/proc":
                    error = self.refused("OsError", rex.call, "session/create", session="d", lifetime="daemon")
                    self.assertEqual(error.data["path"], "/proc/self/exe")


if __name__ == "__main__":
    unittest.main()
