"""Group E: processes end when told, are told apart, and leave nothing behind. Rows of the scenarios by their ids.

Must not know how processes are kept; it looks at /proc from outside.
"""

import os
import re
import unittest

from rig import (
    Rex, RexCase, RpcError, alive, amount, binary, descriptors, family, in_shells, is_sanitized, memory, needs, signal,
    status_of, subprocess, until, zombies,
)

STUBBORN = "sh -c \"trap '' INT TERM; echo up; while :; do sleep 0.05; done\""


def in_own_pids(test):
    """For what must not happen in the system's own process space."""
    probe = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    return unittest.skipIf(probe.returncode, "cannot run here: no pid namespace may be made")(test)


class Processes(RexCase):
    @in_shells()
    def test_E1_an_interrupt_escalates_step_by_step(self, session):
        call = session.start("run", command=STUBBORN)
        session.call("wait", any=[{"match": "up"}], waitMs=5000)
        first = session.call("interrupt", graceMs=50)
        self.assertEqual((first["step"], first["state"]), ("INT", "running"))
        last = session.call("interrupt", escalate=True, graceMs=200)
        self.assertEqual((last["step"], last["state"]), ("KILL", "ready"))
        self.ended(last["result"], 137)
        self.ended(call.result(), 137)
        idle = session.call("interrupt")
        self.assertEqual((idle["step"], idle["state"]), (None, "ready"))
        self.usable(session)

    @in_shells()
    def test_E1_a_kill_spares_the_shell_that_goes_on_behind_it(self, session):
        count = {"bash": 10_000}.get(session.info["shell"], 20_000)  # some 30 ms
        command = f"{STUBBORN}; i=0; while [ $i -lt {count} ]; do i=$((i+1)); done; echo on its own"
        call = session.start("run", command=command)
        session.call("wait", any=[{"match": "up"}], waitMs=5000)
        last = session.call("interrupt", escalate=True, graceMs=1000)
        self.assertEqual((last["step"], last["state"]), ("KILL", "ready"))
        self.assertIn("on its own\n", self.ended(call.result())["output"])
        self.usable(session)

    @in_shells()
    def test_E1_an_interrupt_that_ended_its_program_is_not_told_the_shell_too(self, session):
        polite = "sh -c \"trap 'exit 3' INT; echo up; while :; do sleep 0.01; done\""
        # No process behind it: one that came to the foreground within the grace would be interrupted rightly.
        command = f"{polite}; code=$?; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; [ $code -eq 3 ]"
        call = session.start("run", command=command)
        session.call("wait", any=[{"match": "up"}], waitMs=5000)
        self.assertEqual(session.call("interrupt", graceMs=60)["step"], "INT")
        self.ended(call.result())
        self.usable(session)

    @in_shells("bash")
    def test_E1_a_cancel_that_stops_goes_through_the_same_steps(self, session):
        call = session.start("run", command=STUBBORN.replace("INT TERM", "INT"))
        session.call("wait", any=[{"match": "up"}], waitMs=5000)
        self.rex.notify("$/cancelRequest", id=call.id, stop=True)
        with self.assertRaises(RpcError) as caught:
            call.result(timeout=10)
        self.assertEqual((caught.exception.code, caught.exception.type), (-32800, "RequestCancelled"))
        self.result(caught.exception.data["result"], state="cancelled", survivors=[])
        self.assertIn("up\n", caught.exception.data["result"]["output"])
        self.usable(session)

    @in_shells()
    def test_E5_a_stopped_job_says_so_and_can_go_on_or_be_killed(self, session):
        result = session.run("sh -c 'kill -STOP $$; echo resumed; exit 3'")
        self.result(result, state="stopped", signal=None)
        self.assertEqual([process["command"] for process in result["survivors"]], ["sh"])
        self.assertTrue(alive(result["survivors"][0]["pid"]))
        self.ended(session.run("(exit 147)"), 147)  # what stopped before is not this command
        on = session.run("fg")
        self.assertEqual((on["state"], on["exitCode"]), ("exited", 3))
        self.assertIn("resumed\n", on["output"])
        self.ended(session.run("sh -c 'sleep 0.01 & exit 148'"), 148)
        self.ended(session.run("sleep 60 & (exit 148)"), 148)
        session.run("kill %1; wait %1 2>/dev/null")
        again = self.result(session.run("sh -c 'kill -STOP $$'"), state="stopped")
        session.run("kill -9 %1")
        self.assertTrue(until(lambda: not alive(again["survivors"][0]["pid"])))
        self.usable(session, deaths=True)

    @in_shells()
    def test_E5_suspended_by_its_key(self, session):
        call = session.start("run", command="echo up; sleep 60")
        until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep")
        session.call("write", data="\x1a")
        stopped = self.result(call.result(), state="stopped")
        self.assertEqual([process["command"] for process in stopped["survivors"]], ["sleep"])
        self.assertEqual(session.call("close")["survivors"], [])
        self.assertFalse(alive(stopped["survivors"][0]["pid"]))

    @in_shells("bash", "dash", "zsh", "fish")
    def test_E5_what_stops_behind_a_command_that_failed_is_stopped(self, session):
        """fish leaves its status as it was before."""
        self.ended(session.run("sh -c 'exit 5'"), 5)
        call = session.start("run", command="sleep 60")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        session.call("write", data="\x1a")
        self.result(call.result(), state="stopped")

    @in_shells("bash", "dash", "zsh", "fish")
    def test_E12_a_key_that_signals_waits_behind_nothing_that_was_typed(self, session):
        """A terminal full of lines that nobody reads would look at no key behind them; and what was typed to a program
        that such a key has ended is not for the next one."""
        for key, state, code in (("\x03", "exited", 130), ("\x1c", "exited", 131), ("\x1a", "stopped", None)):
            with self.subTest(key=key):
                call = session.start("run", command="sleep 1000")
                self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
                for _ in range(5):
                    session.call("write", data="echo typed " + "y" * 2000, submit=True)
                self.assertEqual(session.call("write", data=f"more{key}")["accepted"], 5)
                result = self.result(call.result(), state=state)
                self.assertIn(code, (None, result["exitCode"]), result)
                self.assertTrue(self.ended(session.run("echo next"))["output"].endswith("next\n"))
                self.result(session.run("head -n 1", waitMs=20_000), state="waitingInput", output="")
                session.call("interrupt")
        call = session.start("run", command="sleep 1000")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        for _ in range(5):
            session.call("write", data="y" * 2000, submit=True)
        self.assertEqual(session.call("interrupt")["step"], "INT")
        self.ended(call.result(), 130)

    @in_shells("bash", "dash", "zsh", "fish")
    def test_E12_keys_that_edit_a_line_act_in_their_turn(self, session):
        """An erased line and the end of the file, behind ten kilobytes that the program reads late."""
        gate, copy = self.folder / "gate", self.folder / "copy"
        os.mkfifo(gate)
        call = session.start("run", command=f"head -n 1 {gate} >/dev/null; cat >{copy}", returnOnInput=False)
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "head"))
        line = "y" * 2000
        for data, keys in (*[(line, ["Enter"])] * 5, ("wrong", ["C-u"]), ("right", ["Enter", "C-d"])):
            session.call("write", data=data, keys=keys)
        gate.write_text("go\n")
        self.ended(call.result())
        self.assertEqual(copy.read_text(), f"{line}\n" * 5 + "right\n")

    @in_shells()
    @needs("pkill")
    def test_E6_a_command_that_kills_by_its_own_words_does_not_kill_us(self, session):
        """pkill never matches itself; whoever runs a text with `sh -c` is matched by it, a session is not."""
        self.ended(session.run("pkill -f 'unique_words_of_this_very_command'; echo still here"), output="still here\n")
        self.usable(session)

    @in_own_pids
    @needs("pkill")
    def test_E6_a_massacre_is_told_by_each_session(self):
        """In a process space of its own, whose first process is the program and is spared by the kernel."""
        rex = Rex(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", binary()])
        self.addCleanup(rex.kill)
        one, two = rex.session("one", shell="bash"), rex.session("two", shell="dash")
        idle = rex.session("idle", shell="bash")
        waiting = two.start("run", command="sleep 60")
        result = one.run("kill -9 -1", timeoutMs=10_000)
        # The kernel spares the process that asks; whoever held its session may have ended it as well.
        self.assertIn(result["state"], ("exited", "shellExited", "lost"), result)
        self.assertIn(waiting.result(timeout=10)["state"], ("shellExited", "lost"))

        def back(session):
            while True:
                try:
                    return session.run("echo back; (exit 2)")
                except RpcError as error:  # who starts programs is still dying
                    self.assertEqual((error.type, error.data["retryable"]), ("StartFailed", True))

        for session in (one, two, idle):
            again = back(session)
            if session is one and again["state"] == "lost":  # its keeper went a moment behind the answer
                again = back(session)
            self.result(again, state="exited", exitCode=2, output="back\n")
            if session is not one:
                self.assertIsNotNone(again["restarted"])

    @in_shells()
    def test_E6_a_session_whose_keeper_is_killed_says_so_and_comes_back(self, session):
        """P16 too: whoever else is shot along with a shell, a call is answered and a session ends."""
        keeper = int(status_of(session.info["pid"])["PPid"])
        self.assertNotEqual(keeper, self.rex.pid)
        self.ended(session.run("sleep 61 </dev/null >/dev/null 2>&1 &"))
        call = session.start("run", command="sleep 60")
        self.assertTrue(until(lambda: sum(status.get("Name") == "sleep" for status in family(keeper).values()) == 2))
        kept = list(family(keeper))
        os.kill(keeper, signal.SIGKILL)
        result = call.result(timeout=5)
        self.assertIn(result["state"], ("shellExited", "lost"))
        self.assertTrue(until(lambda: not any(alive(pid) for pid in kept), 2), "what the session started has not ended")
        again = session.start("run", command="echo back").result(timeout=5)
        self.ended(again, output="back\n")
        self.assertIsNotNone(again["restarted"])

    @in_shells()
    def test_E7_short_jobs_that_orphan_children_leave_no_zombie(self, session):
        for _ in range(amount(150, 5000)):
            self.ended(session.run("(sleep 0.01 &)"))
        self.assertTrue(until(lambda: not any("sleep" in status.get("Name", "")
                                              for status in family(self.rex.pid).values())))
        self.assertTrue(until(lambda: not zombies(self.rex.pid)), "zombies")

    def test_E8_sessions_jobs_and_failures_give_everything_back(self):
        rex = self.spawn()
        pid = rex.pid

        def round_of(count):
            for number in range(count):
                session = rex.session(f"r{number}", shell="bash" if number % 2 else "dash")
                self.assertEqual(session.run("(exit 3)")["exitCode"], 3)
                self.assertEqual(session.call("close")["survivors"], [])
                error = self.refused("StartFailed", rex.call, "session/create", session="bad", shell="/nosuch/bash")
                self.assertEqual((error.data["name"], error.data["executed"]), ("ENOENT", "no"))
                self.refused("StartFailed", rex.call, "process/run", command=["/nosuch/program"])

        round_of(10)
        files, resident = descriptors(pid), memory(pid, "VmRSS")
        round_of(amount(60, 5000))
        self.assertLessEqual(abs(descriptors(pid) - files), 5)
        # rex-rpc, its nursery and the guardian in stock; one that kept a tree ends a moment after it has told its end.
        self.assertTrue(until(lambda: len(family(pid)) <= 3), "processes")
        if not is_sanitized():  # whose memory is mostly the sanitizer's
            self.assertLess(memory(pid, "VmRSS") - resident, 8 * 1024 * 1024)
        self.assertEqual(zombies(pid), [])

    @in_shells()
    def test_E9_a_job_has_three_descriptors_and_the_end_of_the_client_is_the_end(self, session):
        listing = session.output("ls -l /proc/self/fd")
        numbers = re.findall(r" (\d+) -> (\S+)", listing)
        self.assertEqual([number for number, _ in numbers], ["0", "1", "2", "3"], listing)
        self.assertEqual({target for _, target in numbers[:3]}, {numbers[0][1]})
        self.assertRegex(numbers[0][1], r"^/dev/pts/\d+$")
        self.assertRegex(numbers[3][1], r"^/proc/\d+/fd$", "the directory that ls reads")
        one_off = self.rex.call("process/run", command=["ls", "-l", "/proc/self/fd"])["stdout"]
        self.assertEqual([number for number, _ in re.findall(r" (\d+) -> (\S+)", one_off)], ["0", "1", "2", "3"])
        rex = Rex()
        daemon = rex.session("d", shell=session.info["shell"]).run("setsid sleep 1000 & echo $!")
        pids = list(family(rex.pid))
        self.assertEqual(rex.close(), 0)
        self.assertTrue(until(lambda: not any(alive(pid) for pid in pids), 2), daemon)

    @in_shells()
    def test_E10_children_start_with_default_signals(self, session):
        probe = ("import signal; print([s.name for s in sorted(set(signal.Signals) - {9, 19}) "
                 "if signal.getsignal(s) == signal.SIG_IGN])")
        shown = session.output(f"python3 -c '{probe}'; grep -E 'Sig(Blk|Ign)' /proc/self/status")
        # Python itself ignores these two.
        self.assertIn("['SIGPIPE', 'SIGXFSZ']", shown)
        self.assertIn("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", shown)
        one_off = self.rex.call("process/run", command=["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])["stdout"]
        self.assertEqual(one_off, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n")
        self.ended(session.run("sh -c 'kill -PIPE $$'"), 128 + signal.SIGPIPE)

    @in_shells()
    def test_E11_the_terminal_is_a_real_one_with_job_control(self, session):
        shown = self.ended(session.run("tty; ps -o tpgid= -p $$; echo $-; echo x >/dev/tty"))["output"].split()
        self.assertRegex(shown[0], r"^/dev/pts/\d+$")
        self.assertGreater(int(shown[1]), 0)
        self.assertIn("i", shown[2])
        self.assertIn("m", shown[2])
        self.assertEqual(shown[3], "x")
        job = self.ended(session.run("sleep 0.1 & fg"))
        self.assertIn("sleep 0.1", job["output"])
        self.assertEqual(job["survivors"], [])
        self.usable(session)


if __name__ == "__main__":
    unittest.main()
