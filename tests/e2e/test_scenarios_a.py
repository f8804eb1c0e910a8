"""Group A: when is a command finished? Each row of the scenarios by its id, through the real program, in bash, dash
and zsh.

Must not know how a shell is driven; what it checks is on the wire or in /proc.
"""

import os
import random
import time
import unittest

from rig import RexCase, RpcError, alive, amount, in_shells, is_sanitized, needs, status_of, subprocess, until

# A shell ends the line itself at each ^C, and a ^C that found it between two programs is sent again.
OUT_INTERRUPTED = tuple("out\n" + "\n" * ends for ends in range(4))


class WhenIsItFinished(RexCase):
    @in_shells()
    def test_A1_a_background_process_does_not_hold_the_command_and_is_named(self, session):
        for _ in range(10):
            result = session.run("sleep 300 & echo $!")
            pid = int(result["output"].split()[-1])  # zsh says first which job it has become
            self.ended(result)
            self.assertLess(result["durationMs"], 1000)
            self.assertEqual(result["survivors"], [{"pid": pid, "command": "sleep"}], result)
            self.assertNotIn(pid, [process["pid"] for process in result["interleaved"]])
            session.run(f"kill -9 {pid}; wait {pid} 2>/dev/null")

    @in_shells()
    def test_A2_a_background_writer_is_read_by_cursor_and_told_as_interleaved(self, session):
        first = self.ended(session.run("(while :; do echo x; sleep 0.1; done) & true"))
        self.assertLess(first["durationMs"], 1000)
        self.assertGreaterEqual(len(first["survivors"]), 1)
        writers = {process["pid"] for process in first["survivors"]}
        met = session.call("wait", any=[{"match": "x\n"}], **{"from": first["next"], "waitMs": 5000})
        self.assertEqual(met["met"], 0)
        second = self.ended(session.run("sleep 0.3; echo mine"))
        self.assertIn("mine\n", second["output"])
        self.assertTrue(writers & {process["pid"] for process in second["interleaved"]}, second)
        own = self.ended(session.run("sleep 0.3; echo mine", isolate=True))
        self.assertEqual(own["output"], "mine\n")
        # Who runs beside a command but has let go of the terminal is no writer.
        shown = session.output("sleep 300 </dev/null >/dev/null 2>&1 & echo pid=$!")
        silent = int(shown.split("pid=")[1].split()[0])
        self.assertTrue(until(lambda: status_of(silent).get("Name") == "sleep"))
        third = {process["pid"] for process in self.ended(session.run("true"))["interleaved"]}
        self.assertEqual((silent in third, bool(writers & third)), (False, True))

    @in_shells()
    def test_A2_what_others_write_beside_an_isolated_command_comes_behind_it(self, session):
        go, gone = self.folder / "go", self.folder / "gone"
        os.mkfifo(go)
        os.mkfifo(gone)
        self.ended(session.run(f"(read x <{go}; echo HELD; echo over >{gone}; exec sleep 300) &"))
        own = self.ended(session.run(f"echo go >{go}; read y <{gone}; echo mine", isolate=True), output="mine\n")
        met = session.call("wait", any=[{"match": "HELD\n"}], **{"from": own["next"], "waitMs": 5000})
        self.assertEqual(met["met"], 0)

    @in_shells("bash")
    def test_A4_a_shell_whose_stdout_has_become_a_pipe_goes_on(self, session):
        log = self.folder / "log"
        first = self.ended(session.run(f"exec > >(tee {log}) 2>&1 && echo done"))
        second = self.ended(session.run("echo next"))
        met = session.call("wait", any=[{"match": "done\nnext\n"}], **{"from": first["from"], "waitMs": 5000})
        self.assertEqual(met["met"], 0, "what tee passed on is in the journal, in order")
        self.assertTrue(until(lambda: log.read_text() == "done\nnext\n"))
        self.assertGreaterEqual(second["from"], first["next"])
        self.ended(session.run("(exit 4)"), 4)

    @in_shells()
    def test_A5_a_job_with_writers_behind_a_fifo_ends_with_its_lifetime(self, session):
        begun = time.monotonic()
        result = session.run(
            f"cd {self.folder}; mkfifo p; (while true; do echo child; sleep 0.2; done) > p & echo pid=$!; cat p",
            timeoutMs=1000,
        )
        self.assertLess(time.monotonic() - begun, 3.5)
        self.result(result, state="timedOut", survivors=[])
        self.assertIn("child\n", result["output"])
        writer = int(result["output"].split("pid=")[1].split()[0])
        self.assertFalse(alive(writer))
        self.usable(session, deaths=True)

    @in_shells()
    def test_A9_codes_are_the_shells_own(self, session):
        self.ended(session.run("false"), 1)
        self.ended(session.run("(exit 300)"), 44)
        self.ended(session.run("sh -c 'kill -TERM $$'"), 143)
        self.ended(session.run("sh -c 'exit 143'"), 143)
        killed = self.result(session.run("kill -9 $$"), state="shellExited", exitCode=None, signal="KILL")
        self.assertIsNone(killed["restarted"])
        after = self.ended(session.run("echo again"), output="again\n")
        self.assertIsNone(after["restarted"]["exitCode"])
        self.assertIsInstance(after["restarted"]["cause"], str)
        self.assertIsNone(session.run("true")["restarted"])

    @in_shells()
    def test_A10_a_pipeline_has_its_last_code_and_in_bash_all_of_them(self, session):
        full = session.info["shell"] in ("bash", "zsh")
        self.ended(session.run("sh -c 'exit 1' | tail -40"), 0, pipeStatus=[1, 0] if full else [0])
        self.ended(session.run("(exit 3) | (exit 4) | (exit 5)"), 5, pipeStatus=[3, 4, 5] if full else [5])

    @in_shells()
    def test_A11_a_pipe_without_a_reader_ends_its_writer(self, session):
        """`sleep 60 | true` lasts as long as sleep: every shell waits for all of a pipeline, and so do we."""
        result = self.ended(session.run("yes | head -1"), 0, output="y\n")
        if session.info["shell"] != "dash":
            self.assertEqual(result["pipeStatus"], [141, 0])
        self.result(session.run("sleep 60 | true", waitMs=300), state="running", exitCode=None)
        code = session.call("interrupt")["result"]["exitCode"]
        self.assertEqual(code, 130 if session.info["shell"] == "bash" else 0, "the others go by `true`")
        self.usable(session)

    @in_shells()
    def test_A12_no_code_is_lost_in_a_row_of_fast_commands(self, session):
        codes = [session.run("true" if number % 3 else "false")["exitCode"] for number in range(amount(500, 10_000))]
        self.assertEqual(codes, [0 if number % 3 else 1 for number in range(len(codes))])

    def test_A12_no_code_is_lost_in_parallel_sessions(self):
        sessions = [self.fresh("bash" if number % 2 else "dash") for number in range(amount(30, 50))]
        for turn in range(amount(20, 200)):
            calls = [session.start("run", command=f"(exit {(turn + number) % 256})")
                     for number, session in enumerate(sessions)]
            codes = [call.result()["exitCode"] for call in calls]
            self.assertEqual(codes, [(turn + number) % 256 for number in range(len(sessions))])

    @in_shells()
    def test_A13_exactly_the_bytes_and_never_a_prompt(self, session):
        for command, output in [
            ("printf x", "x"), ("printf ''", ""), ("printf '\\n\\n'", "\n\n"), ("printf '\\033[2K'", "\x1b[2K"),
            ("printf '$ '", "$ "), ("printf 'a\\r\\nb\\r'", "a\r\nb\r"), ("printf '\\t\\n'", "\t\n"),
        ]:
            self.ended(session.run(command, view="raw"), output=output, totalBytes=len(output), omitted=None)
        journal = session.read_all()
        self.assertEqual(journal, b"x\n\n\x1b[2K$ a\r\nb\r\t\n")

    @in_shells()
    def test_A14_a_shell_that_exits_says_its_code(self, session):
        self.result(session.run("exit 3"), state="shellExited", exitCode=3, signal=None)
        self.assertEqual(session.run("echo new")["restarted"]["exitCode"], 3)
        self.result(session.run("exec true"), state="shellExited", exitCode=0, signal=None)
        self.result(session.run("exec /nosuch/program"), state="shellExited", exitCode=127)
        logout = session.run("logout")
        self.assertEqual(logout["state"], "exited", "no login shell: an error like any other")
        self.assertNotEqual(logout["exitCode"], 0)
        self.usable(session)

    @in_shells()
    def test_A14_a_shell_that_was_replaced_is_unmanaged_and_still_serves(self, session):
        self.result(session.run("exec bash --norc", waitMs=20_000), state="waitingInput", exitCode=None)
        self.assertEqual(session.call("info")["state"], "unmanaged")
        typed = session.run("echo $((6*7))", expect=["^42"], waitMs=5000)
        self.result(typed, state="matched")
        self.assertNotEqual(typed["completion"], "exact")
        over = session.run("exit 9", waitMs=5000)
        self.result(over, state="shellExited", exitCode=9)
        self.usable(session)

    @in_shells()
    def test_A14_a_shell_replaced_by_a_program_ends_with_it(self, session):
        self.result(session.run("exec sleep 60", waitMs=100), state="running")
        self.assertTrue(until(lambda: session.call("info")["state"] == "unmanaged"))
        stopped = session.call("interrupt")["result"]
        self.assertIn(stopped["state"], ("shellExited", "signaled"))
        self.result(stopped, signal="INT", exitCode=None)
        self.usable(session)

    @in_shells()
    def test_A15_set_e_ends_the_shell_as_it_would_for_a_person(self, session):
        self.result(session.run("set -e; echo yes; false; echo no"), state="shellExited", exitCode=1, output="yes\n")
        self.assertIsNotNone(session.run("true")["restarted"])
        self.ended(session.run("set -e; true"))
        self.ended(session.run("false || true; echo on"), output="on\n")
        self.assertIsNone(session.run("set +e")["restarted"])

    @in_shells("bash")
    def test_A15_a_failure_that_set_e_exempts_ends_no_shell(self, session):
        self.ended(session.run("set -e; true"))
        self.ended(session.run("! true"), 1)
        self.ended(session.run("true && ! true"), 1)
        self.assertIsNone(session.run("set +e")["restarted"])

    @in_shells("dash")
    def test_A15_an_exempt_failure_under_set_e_may_end_dash_but_says_so(self, session):
        """A known deviation: `.` returns the failure, and dash takes that for one of its own."""
        self.ended(session.run("set -e; true"))
        result = session.run("! true")
        self.assertIn(result["state"], ("exited", "shellExited"))
        self.result(result, exitCode=1, signal=None)
        self.assertEqual(session.run("true")["restarted"] is not None, result["state"] == "shellExited")
        self.usable(session)

    @in_shells()
    def test_A15_options_of_the_user_neither_break_nor_show_our_machinery(self, session):
        unset = session.run("set -u; echo $nope; echo never")
        self.assertEqual((unset["state"], "never" in unset["output"]), ("exited", False), unset)
        self.assertNotEqual(unset["exitCode"], 0)
        self.usable(session)
        session.run("set +u")
        # Bash marks each level with a plus; how many levels a text has is ours. zsh names file and line.
        self.assertRegex(self.ended(session.run("set -x; echo hi"))["output"], r"\A\+\S* echo hi\nhi\n\Z")
        self.assertRegex(self.ended(session.run("echo yo"))["output"], r"\A\+\S* echo yo\nyo\n\Z")
        self.assertRegex(self.ended(session.run("set +x"))["output"], r"\A\+\S* set \+x\n\Z")
        self.ended(session.run("echo quiet"), output="quiet\n")
        self.usable(session)

    @in_shells()
    def test_A15_a_verbose_shell_shows_no_words_of_ours(self, session):
        session.run("set -v")
        self.assertNotIn("__rex", session.output("echo loud"))
        self.assertNotIn("__rex", session.output("set +v"))
        self.usable(session)

    @in_shells("bash")
    def test_A15_P17_pipefail_and_noexec(self, session):
        self.ended(session.run("set -o pipefail; false | true"), 1, pipeStatus=[1, 0])
        self.ended(session.run("set -n; echo ignored when interactive"), output="ignored when interactive\n")
        self.usable(session)

    @in_shells("dash")
    def test_A15_a_shell_that_executes_nothing_is_not_waited_for_silently(self, session):
        """dash obeys `set -n` for ever, and its own report with it: the end is unknown, and no code may be made up."""
        result = session.run("set -n; echo x", waitMs=3000)
        self.assertNotEqual(result["state"], "exited")
        self.assertIsNone(result["exitCode"])
        self.assertEqual(session.call("close")["survivors"], [])

    @in_shells()
    def test_A16_incomplete_text_is_a_syntax_error_at_once(self, session):
        for command in ("if true; then", 'echo "abc', "echo 'abc", ")", "for x in; do", "echo $((1", "f() {"):
            with self.subTest(command=command):
                begun = time.monotonic()
                result = session.run(command, timeoutMs=5000)
                self.assertLess(time.monotonic() - begun, 1)
                self.assertEqual(result["state"], "exited")
                self.assertNotEqual(result["exitCode"], 0)
                self.assertIsNotNone(result["syntaxError"], result)
                self.assertFalse(result["syntaxError"]["ranBefore"])
                self.usable(session)
        heredoc = session.run("cat <<EOF\nabc", timeoutMs=5000)
        self.assertEqual((heredoc["state"], heredoc["exitCode"]), ("exited", 0))
        self.assertIn("abc\n", heredoc["output"])
        self.usable(session)

    @in_shells()
    def test_A16_lines_before_a_syntax_error_have_run_and_it_says_so(self, session):
        result = session.run("echo one\necho two\nif true; then", timeoutMs=5000)
        self.assertTrue(result["output"].startswith("one\ntwo\n"), result)
        self.assertTrue(result["syntaxError"]["ranBefore"])
        self.assertIn(result["syntaxError"]["line"], (3, 4))
        self.usable(session)

    @in_shells()
    def test_A17_three_lines_are_one_job(self, session):
        result = self.ended(session.run("echo one\nfalse\necho three"), output="one\nthree\n")
        self.assertEqual(int(session.run("true")["job"]), int(result["job"]) + 1)
        self.ended(session.run("echo one\necho two\nfalse"), 1, output="one\ntwo\n")

    @in_shells()
    def test_A18_J3_a_call_may_end_before_its_job(self, session):
        """The notification of the row is in test_attach.py; session/wait brings the same result."""
        begun = time.monotonic()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        first = session.run(f"echo early; read x <{gate}; echo late", waitMs=100, timeoutMs=60_000)
        self.assertLess(time.monotonic() - begun, 2)
        self.result(first, state="running", exitCode=None, output="early\n")
        busy = self.refused("SessionBusy", session.run, "true")
        self.assertEqual((busy.data["job"], busy.data["executed"], busy.data["retryable"]), (first["job"], "no", True))
        gate.write_text("go\n")
        later = session.call("wait", job=first["job"], any=[{"exit": True}], waitMs=10_000)
        self.assertEqual(later["met"], 0)
        self.ended(later["result"], job=first["job"], output="early\nlate\n")
        again = session.call("wait", job=first["job"], any=[{"exit": True}], waitMs=0)
        self.assertEqual(again["result"]["output"], "early\nlate\n", "nothing is missed between two calls")

    @in_shells()
    def test_A20_a_job_that_ends_as_its_time_passes_has_one_final_state(self, session):
        states = set()
        for turn in range(amount(20, 500)):
            result = session.run("echo out; sleep 0.05", timeoutMs=49 + turn % 8)
            self.assertIn(result["state"], ("exited", "timedOut"))
            self.assertIn(result["output"], (["out\n"] if result["state"] == "exited" else OUT_INTERRUPTED))
            if result["state"] == "exited":
                self.assertEqual(result["exitCode"], 0)
            states.add(result["state"])
            again = session.call("wait", job=result["job"], any=[{"exit": True}], waitMs=0)["result"]
            self.assertEqual((again["state"], again["exitCode"]), (result["state"], result["exitCode"]))
        self.usable(session)

    @in_shells()
    def test_A20_a_job_that_ends_as_it_is_cancelled_is_answered_once(self, session):
        for turn in range(amount(20, 500)):
            call = session.start("run", command="echo out; sleep 0.03")
            until(lambda begun=time.monotonic(), after=0.03 + random.random() / 100: time.monotonic() - begun > after)
            self.rex.notify("$/cancelRequest", id=call.id, stop=True)
            try:
                result = call.result()
                self.ended(result, 0, output="out\n")
            except RpcError as error:
                self.assertEqual(error.code, -32800)
                result = self.result(error.data["result"], state="cancelled")
                self.assertIn(result["output"], OUT_INTERRUPTED)
        self.usable(session)


class TheClockJumps(RexCase):
    @needs("cc")
    @unittest.skipIf(is_sanitized(), "cannot run here: a sanitized program takes no preloaded library")
    def test_A19_a_wall_clock_set_back_changes_no_duration_and_no_deadline(self):
        """The clock is set back for the program alone: a preloaded clock_gettime tells it so once a file is there."""
        source, library, mark = (self.folder / name for name in ("clock.c", "clock.so", "back"))
        source.write_text(
            "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <time.h>\n"
            "#include <unistd.h>\n"
            "int clock_gettime(clockid_t id, struct timespec* now) {\n"
            "  int failed = (int)syscall(SYS_clock_gettime, id, now);\n"
            '  if (!failed && id == CLOCK_REALTIME && access(getenv("CLOCK_BACK"), F_OK) == 0) now->tv_sec -= 3600;\n'
            "  return failed;\n}\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        rex = self.spawn(env={"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library), "CLOCK_BACK": str(mark)})
        session = self.fresh(rex=rex)
        before = rex.call("ping")["time"]
        call = session.start("run", command=f"touch {mark}; sleep 0.3")
        timed = call.result()
        self.assertLess(rex.call("ping")["time"], before, "the program believes the clock")
        self.ended(timed)
        self.assertTrue(290 <= timed["durationMs"] < 5000, timed)
        mark.unlink()
        begun = time.monotonic()
        late = session.run(f"touch {mark}; sleep 60", timeoutMs=300)
        self.result(late, state="timedOut")
        self.assertLess(time.monotonic() - begun, 5)
        self.assertTrue(290 <= late["durationMs"] < 5000, late)


if __name__ == "__main__":
    unittest.main()
