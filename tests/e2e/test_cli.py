"""The command line, as a person and a script meet it: exit codes, streams, and nothing left behind.

Must not know the methods, except where `call` needs one to call.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from rig import Rex, alive, binary, family, until

FAREWELL = 5  # seconds in which a program that was told to end has ended


def rex_rpc(*words, given=None):
    stdin = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    return subprocess.run([binary(), *words], capture_output=True, text=True, timeout=60, check=False, **stdin)


class CliCase(unittest.TestCase):
    def check(self, done, code=0, out="", err=""):
        """`out` and `err` are all there is."""
        self.assertEqual((done.returncode, done.stdout, done.stderr), (code, out, err))


class CommandLine(CliCase):
    def test_no_input_is_nothing_to_do(self):
        self.check(rex_rpc())
        self.check(rex_rpc("serve", "--stdio"))

    def test_version_and_help(self):
        self.assertRegex(rex_rpc("--version").stdout, r"\Arex-rpc \d+\.\d+\.\d+\n\Z")
        shown = rex_rpc("--help")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        for word in ("Examples:", "rex-rpc run ", "rex-rpc call ", "schema", "doctor", "Exit codes:"):
            self.assertIn(word, shown.stdout)
        for command in ("run", "call", "schema", "doctor", "serve", "sessions", "logs", "kill", "shell", "hosts"):
            self.assertEqual(rex_rpc(command, "--help").returncode, 0)

    def test_the_examples_of_the_help_run(self):
        lines = rex_rpc("--help").stdout.splitlines()
        examples = [line.strip() for line in lines if line.startswith("  rex-rpc call ")]
        self.assertGreaterEqual(len(examples), 2)
        for example in examples:
            with self.subTest(example):
                done = subprocess.run(["sh", "-c", example.replace("rex-rpc", binary(), 1)], capture_output=True,
                                      stdin=subprocess.DEVNULL, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                json.loads(done.stdout)

    def test_wrong_usage_exits_with_2_and_says_why(self):
        for words in (("frob",), ("--frob",), ("run",), ("call",), ("call", "ping", "no JSON"), ("--log", "loud"),
                      ("serve", "extra"), ("schema", "extra"), ("doctor", "extra"), ("call", "ping", "{}", "extra")):
            with self.subTest(words):
                done = rex_rpc(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertNotEqual(done.stderr, "")

    def test_schema_is_the_document_that_discover_gives(self):
        printed = rex_rpc("schema")
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        with Rex() as rex:
            self.assertEqual(json.loads(printed.stdout), rex.call("rpc.discover"))

    def test_doctor_finds_nothing_lacking_here(self):
        done = rex_rpc("doctor")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("LACK", done.stdout)
        self.assertIn("ok   pseudo-terminals\n", done.stdout)
        self.assertRegex(done.stdout, r"ok   runtime directory /.*/rex-rpc.*\n")

    def test_doctor_tells_of_a_runtime_directory_that_cannot_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "rex-rpc").mkdir()
            pathlib.Path(folder, "rex-rpc").chmod(0o755)
            done = subprocess.run([binary(), "doctor"], capture_output=True, text=True, check=False, timeout=60,
                                  env={**os.environ, "XDG_RUNTIME_DIR": folder}, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"LACK runtime directory {folder}/rex-rpc: ", done.stdout)
        self.assertIn("chmod 700", done.stderr)


class Call(CliCase):
    def test_the_result_is_json_on_standard_output(self):
        done = rex_rpc("call", "process/run", '{"command": "echo hi; exit 3"}')
        self.assertEqual((done.returncode, done.stderr), (0, ""), "that the command failed is a result")
        result = json.loads(done.stdout)
        self.assertEqual((result["stdout"], result["exitCode"]), ("hi\n", 3))
        self.assertEqual(json.loads(rex_rpc("call", "session/list").stdout), {"sessions": []})

    def test_an_error_is_on_standard_error_with_its_type(self):
        for words, said in ((("call", "no/such"), "MethodNotFound"), (("call", "ping", '{"x": 1}'), "InvalidParams"),
                            (("call", "ping", "[1]"), "InvalidParams"),
                            (("call", "session/info", '{"session": "none"}'), "SessionNotFound")):
            with self.subTest(words):
                done = rex_rpc(*words)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(said, done.stderr)


class Run(CliCase):
    def test_the_code_is_the_commands(self):
        for code in (0, 1, 3, 44, 127, 255):
            self.check(rex_rpc("run", f"exit {code}"), code)
        self.check(rex_rpc("run", "sh", "-c", "exit 7"), 7)
        self.check(rex_rpc("run", "false | true"))

    def test_a_death_by_a_signal_is_told_as_shells_do(self):
        done = rex_rpc("run", "kill -9 $$")
        self.assertEqual((done.returncode, done.stdout), (128 + signal.SIGKILL, ""))
        self.assertIn("KILL", done.stderr)

    def test_the_streams_are_kept_apart_and_whole(self):
        self.check(rex_rpc("run", "echo out; echo err >&2; exit 3"), 3, "out\n", "err\n")
        numbers = "".join(f"{number}\n" for number in range(1, 200_001))
        self.check(rex_rpc("run", "seq 200000; seq 200000 >&2"), 0, numbers, numbers)

    def test_no_output_of_a_command_that_ends_at_once_is_lost(self):
        self.assertEqual([rex_rpc("run", "echo hi").stdout for _ in range(50)], ["hi\n"] * 50)

    def test_bytes_come_as_they_are(self):
        every = bytes(range(256))
        script = "import sys; sys.stdout.buffer.write(bytes(range(256)))"
        done = subprocess.run([binary(), "run", "python3", "-c", script], capture_output=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, every, b""))

    def test_several_words_are_a_program_and_its_arguments(self):
        self.check(rex_rpc("run", "printf", "%s|", "a b", "", "$HOME", "-n", "--help"), out="a b||$HOME|-n|--help|")

    def test_a_program_that_is_not_there(self):
        done = rex_rpc("run", "/nosuch/program", "argument")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("/nosuch/program", done.stderr)
        self.assertEqual(rex_rpc("run", "/nosuch/program").returncode, 127, "one word is a command line of sh")

    def test_the_command_reads_our_input(self):
        self.check(rex_rpc("run", "cat"))
        text = "".join(f"line {number}\n" for number in range(20_000))
        self.check(rex_rpc("run", "cat", given=text), out=text)
        self.check(rex_rpc("run", "wc -l | tr -d ' '", given=text), out="20000\n")
        self.check(rex_rpc("run", "true", given=text))

    def test_output_comes_while_the_command_runs(self):
        process = self.start("echo first; read line; echo $line", stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"first\n")
        process.stdin.write(b"second\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"second\n")
        self.assertEqual(process.wait(timeout=FAREWELL), 0)

    def test_errors_come_while_the_command_runs(self):
        process = self.start("echo first >&2; read line; echo $line", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.assertEqual(process.stderr.readline(), b"first\n")
        process.stdin.write(b"second\n")
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"second\n")
        self.assertEqual(process.wait(timeout=FAREWELL), 0)

    def test_signals_end_it_and_all_that_it_started(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                process = self.start("setsid sleep 300 & trap '' INT TERM HUP; echo up; sleep 301; sleep 302")
                self.assertEqual(process.stdout.readline(), b"up\n")
                pids = [process.pid, *family(process.pid)]
                self.assertGreaterEqual(len(pids), 4)
                os.kill(process.pid, number)
                self.assertEqual(process.wait(timeout=FAREWELL), 128 + number)
                self.assertEqual([pid for pid in pids if until(lambda pid=pid: not alive(pid), 2) is False], [])

    def test_a_reader_that_goes_away_ends_it(self):
        process = self.start("yes")
        self.assertEqual(process.stdout.readline(), b"y\n")
        pids = list(family(process.pid))
        process.stdout.close()
        self.assertGreaterEqual(process.wait(timeout=FAREWELL), 1)
        self.assertEqual([pid for pid in pids if until(lambda pid=pid: not alive(pid), 2) is False], [])

    def test_it_ends_with_its_command_and_leaves_nothing_in_the_background(self):
        process = self.start("sleep 300 & echo $!")
        pid = int(process.stdout.readline())
        self.assertEqual(process.wait(timeout=FAREWELL), 0)
        self.assertTrue(until(lambda: not alive(pid), 2))

    def start(self, command, **streams):
        streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
        process = subprocess.Popen([binary(), "run", command], stdout=subprocess.PIPE, **streams)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        if process.stdin:
            self.addCleanup(process.stdin.close)
        return process


if __name__ == "__main__":
    unittest.main()
