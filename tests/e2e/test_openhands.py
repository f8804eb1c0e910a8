"""What OpenHands demands of a shell in its own tests, and where its shells went wrong (peers.md, B 2.1, 2.2, 2.6, 3.5).

Their soft time-out is `quietMs`, or that the program reads the terminal; their hard one is `waitMs`, an empty command
is `session/wait` or `session/read`, and `is_input` is `session/write`, where a key is its character ("\\u0003" is C-c).
Numbers in names are those of the lists there.
"""

import os
import re
import shlex
import shutil
import signal
import unittest
import urllib.request

from shell_case import PATIENCE_MS, PYTHON, ShellCase, is_alive, raw_bytes

RAW = {"view": "raw"}
LARGE = {"maxOutputBytes": 8 << 20}
ANY = re.compile(r".*", re.DOTALL)
SERVER = f"{PYTHON} -u -m http.server 0 --bind 127.0.0.1"
NAMES = "import sys\nn = input('Name? ')\na = input('Age? ')\nprint(f'{n} is {a}')\n"


class Commands(ShellCase):
    """2.1 and 2.2: one command, its text, its output."""

    def setUp(self):
        super().setUp()
        self.session = self.shell()

    def test_2_1_03_line_breaks_in_a_command_are_kept(self):
        for command, output in (
            ("echo 'foo\\\nbar'", "foo\\\nbar\n"), ("echo foo\\\nbar", "foobar\n"), ("echo 'a\n\n\nb'", "a\n\n\nb\n"),
            ("echo \"hello\nworld\"", "hello\nworld\n"), ("printf '\\n\\n\\n'", "\n\n\n"), ("echo 'a   b'", "a   b\n"),
        ):
            with self.subTest(command):
                self.gives(self.session, command, output)

    def test_2_1_04_a_loop_on_one_line(self):
        self.gives(self.session, "n=0; i=0; while [ $n -lt 3 ]; do i=$((i+1)); [ $((i%2)) = 0 ] && n=$((n+1)); done; "
                                 "echo $n flips", "3 flips\n")

    def test_2_1_05_no_continuation_prompt_in_output(self):
        self.gives(self.session, "for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n")

    def test_2_1_06_nested_loops_with_more_behind_them(self):
        command = "for i in 1 2; do\n  for j in a b; do\n    echo $i$j | sed 's/a/A/'\n  done\ndone && echo over"
        self.gives(self.session, command, "1A\n1b\n2A\n2b\nover\n")

    def test_2_1_07_and_08_several_commands_on_several_lines(self):
        lines = ["ls", 'echo -e "hello\\nworld"', 'echo "hello it\'s me"', "echo hello -v",
                 "echo -e 'world\\nare\\nyou?'", "for i in a b; do echo $i; done", "false"]
        output = "hello\nworld\nhello it's me\nhello -v\nworld\nare\nyou?\na\nb\n"
        self.gives(self.session, "\n".join(lines), output, 1)
        self.assertEqual("".join(self.session.output(line) for line in lines), output)

    def test_2_1_09_files_belong_to_the_user(self):
        self.gives(self.session, "ls; mkdir d && touch d/f && ls d", "f\n")
        self.assertEqual(os.stat(self.path("d/f")).st_uid, os.getuid())
        self.gives(self.session, "rm -r d; ls", "")

    def test_2_1_10_home(self):
        self.gives(self.session, "cd ~ && pwd", f"{os.path.realpath(self.home)}\n", cwd=os.path.realpath(self.home))

    def test_2_1_11_two_commands_on_a_line(self):
        self.path("there", "")
        self.gives(self.session, "pwd && ls", f"{self.dir}\nthere\n")

    def test_2_1_12_and_22_and_2_2_02_the_directory_is_kept_and_told(self):
        self.gives(self.session, "mkdir inner && cd inner", "", cwd=self.path("inner"))
        self.gives(self.session, "pwd", self.path("inner") + "\n", cwd=self.path("inner"))
        self.assertEqual(self.session.call("info")["cwd"], self.path("inner"))

    def test_2_1_13_and_23_a_failed_command(self):
        self.gives(self.session, "non_existing_command", "bash: non_existing_command: command not found\n", 127)
        self.gives(self.session, "cd missing && echo no", re.compile(r"bash: cd: missing: .*\n"), 1)
        self.gives(self.session, "echo a && echo b && false", "a\nb\n", 1)

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_2_1_20_git(self):
        self.gives(self.session, "git init -q . && git config user.name n && git config user.email e@x", "")
        self.gives(self.session, "echo hello >f && git add f", "")
        self.gives(self.session, "git diff --cached --stat", re.compile(r" f \| 1 \+\n.*\n"))
        self.gives(self.session, "git commit -q -m first && git log --format=%s", "first\n")
        self.gives(self.session, "git status --porcelain", "")

    def test_2_1_21_python_is_what_path_says(self):
        self.gives(self.session, f"{PYTHON} --version", re.compile(r"Python 3\..*\n"))

    def test_2_1_25_and_2_2_09_five_thousand_lines(self):
        self.gives(self.session, "for i in $(seq 1 5000); do echo \"Line $i\"; done",
                   "".join(f"Line {i}\n" for i in range(1, 5001)), params=LARGE, omitted=None)

    def test_2_1_26_and_2_2_10_fifty_thousand_lines_lose_nothing(self):
        text = "".join(f"Line {i}\n" for i in range(1, 50_001))
        result = self.run_in(self.session, "seq -f 'Line %.0f' 50000")
        self.check(result, ANY, totalBytes=len(text))
        omitted = result["omitted"]
        self.assertTrue(result["output"].startswith(text[:30_000]))
        self.assertTrue(result["output"].endswith(text[-30_000:]))
        self.assertLessEqual(len(result["output"]), 65_536 + 1024)
        self.assertEqual(omitted["bytes"], omitted["to"] - omitted["from"])
        middle = self.session.read_all(omitted["from"])[: omitted["bytes"]]
        start = omitted["from"] - result["from"]
        self.assertEqual(middle, text[start : start + omitted["bytes"]].encode())
        self.assertEqual(result["output"], text[:start] + text[start + omitted["bytes"] :])
        self.is_fine(self.session)

    def test_2_1_27_ten_thousand_nested_files(self):
        for folder in range(100):
            os.mkdir(self.path(f"folder_{folder:03}"))
            for file in range(100):
                self.path(f"folder_{folder:03}/file_{file:03}", "")
        output = self.check(self.run_in(self.session, "ls -R1", **LARGE), ANY, omitted=None)["output"]
        self.assertEqual(output.count("\nfile_"), 10_000)
        self.assertTrue(output.endswith("file_099\n"))

    def test_2_1_28_a_backslash_before_a_semicolon(self):
        self.path("f", "x\n")
        self.gives(self.session, "find . -type f -exec grep -l x {} \\;", "./f\n")

    def test_2_1_32_and_2_2_07_an_empty_command_does_nothing(self):
        for command in ("", "  ", "\n\n"):
            self.gives(self.session, command, "")
        self.assertIsNone(self.session.call("interrupt")["step"])

    def test_2_1_35_the_command_is_not_in_the_output(self):
        self.gives(self.session, "cd . # echo", "")
        self.gives(self.session, "true 'some text'", "")

    def test_2_2_01_starts_where_and_as_whom_it_was_told(self):
        self.gives(self.session, "pwd; id -u", f"{self.dir}\n{os.getuid()}\n", cwd=self.dir)

    def test_2_2_11_a_condition_on_several_lines(self):
        self.gives(self.session, "if true\nthen\n  echo inside if\nelse\n  echo no\nfi", "inside if\n")


class Running(ShellCase):
    """2.1 and 2.2: commands that do not end at once, and what is said to them."""

    def setUp(self):
        super().setUp()
        self.session = self.shell()

    def interrupts(self, exit_code=130):
        answer = self.session.call("interrupt", graceMs=PATIENCE_MS)
        self.assertEqual((answer["step"], answer["state"]), ("INT", "ready"))
        return self.check(answer["result"], ANY, exit_code)

    def test_2_1_01_a_server_in_the_foreground_runs_until_interrupted(self):
        for _ in range(2):
            result = self.run_in(self.session, SERVER, expect=["Serving HTTP on .*\n"])
            self.check(result, "", None, "matched")
            result = self.session.call("wait", any=[{"exit": True}], waitMs=50)
            self.assertIsNone(result["met"])
            self.assertIn("Keyboard interrupt received, exiting.\n", self.interrupts(0)["output"])
            self.gives(self.session, "ls", "")

    def test_2_1_02_a_server_in_the_background_returns_at_once(self):
        os.mkfifo(self.path("p"))
        started = self.gives(self.session, f"{SERVER} >p 2>/dev/null & read line <p; echo $line $!", ANY)
        port, pid = re.fullmatch(r"Serving HTTP on \S+ port (\d+) .* (\d+)\n", started["output"]).groups()
        self.assertEqual([process["pid"] for process in started["survivors"]], [int(pid)])
        self.assertEqual(urllib.request.urlopen(f"http://127.0.0.1:{port}/").status, 200)
        self.gives(self.session, f"kill {pid}; wait {pid}", ANY, 143)
        self.assertFalse(is_alive(pid))

    def test_2_1_24_a_question_is_in_the_output_when_the_waiting_ends_and_is_answered(self):
        for waiting in ({"waitMs": 200}, {"quietMs": 100}):
            with self.subTest(waiting):
                question = "read -p 'Enter name: ' name && echo \"Hello $name\""
                result = self.session.run(question, returnOnInput=False, **waiting)
                self.check(result, "Enter name: ", None, "running")
                self.is_busy(self.session, result["job"])
                self.types(self.session, "John")
                self.check(self.ends(self.session), "Enter name: John\nHello John\n")

    def test_2_1_24_a_question_is_answered_by_an_interactive_run(self):
        result = self.settles(self.session, "read -p 'Enter name: ' name && echo \"Hello $name\"")
        self.assertEqual(result["output"], "Enter name: ")
        self.gives(self.session, "Jo", "Hello Jo\n", params={"interactive": True}, job=result["job"])

    def test_2_1_24_a_question_returns_and_is_answered(self):
        result = self.settles(self.session, "read -p 'Enter name: ' name && echo \"Hello $name\"")
        self.assertEqual(result["output"], "Enter name: ")
        self.types(self.session, "John")
        self.check(self.ends(self.session), "Enter name: John\nHello John\n")
        self.gives(self.session, "cat <<EOF\nline 1\nline 2\nEOF", "line 1\nline 2\n")

    def test_2_1_29_ten_rounds_of_questions_floods_and_interrupts(self):
        for _ in range(10):
            self.settles(self.session, "read x")
            self.types(self.session, "answer")
            self.check(self.ends(self.session), "answer\n")
            flood = self.run_in(self.session, "sh -c 'while :; do printf %01000d 7; done'", waitMs=50)
            self.check(flood, ANY, None, "running")
            self.assertLessEqual(len(flood["output"]), 65_536 + 1024)
            self.is_busy(self.session, flood["job"])
            self.interrupts()
            self.gives(self.session, "ls", "")

    def test_2_1_30_and_2_2_08_every_reader_gets_the_new_output_only(self):
        gates = [self.gate(f"gate{number}") for number in range(1, 6)]
        first = self.run_in(self.session, "for i in 1 2 3 4 5; do echo $i; read x <gate$i; done", expect=["1\n"])
        offset = first["from"]
        for number, gate in enumerate(gates, 1):
            read = self.session.call("read", offset=offset, waitMs=PATIENCE_MS)
            self.assertEqual(read["data"], f"{number}\n")
            offset = read["next"]
            gate.release()
        self.check(self.ends(self.session), "1\n2\n3\n4\n5\n")
        self.assertEqual(self.session.call("read", offset=offset)["data"], "")

    def test_2_1_31_and_2_2_04_a_new_command_waits_for_the_end_of_the_old_one(self):
        gate = self.gate()
        result = self.run_in(self.session, "echo one; read x <gate; echo two", waitMs=100)
        self.check(result, "one\n", None, "running")
        self.is_busy(self.session, result["job"])
        self.is_busy(self.session, result["job"])
        gate.release()
        self.check(self.ends(self.session), "one\ntwo\n")
        self.gives(self.session, "echo three", "three\n")

    def test_2_1_33_and_2_2_12_two_questions_of_a_program(self):
        self.path("names.py", NAMES)
        self.asks(self.session, f"{PYTHON} names.py", "Name? ")
        age = self.asks(self.session, "Ada", "Age? ", interactive=True)
        self.assertEqual(age["output"], "Age? ")
        self.gives(self.session, "36", "Ada is 36\n", params={"interactive": True})

    def test_2_1_34_an_answer_that_is_not_typed_is_refused(self):
        self.path("names.py", NAMES)
        result = self.run_in(self.session, f"{PYTHON} names.py", expect=["Name\\? "])
        self.is_busy(self.session, result["job"])
        for answer in ("Ada", "36"):
            self.types(self.session, answer)
        self.assertTrue(self.check(self.ends(self.session), ANY)["output"].endswith("Ada is 36\n"))

    def test_2_2_05_a_program_is_fed_line_by_line(self):
        self.settles(self.session, "cat >f")
        for line in ("line 1", "", "line\t2"):
            self.types(self.session, line)
        self.session.call("write", eof=True)
        self.check(self.ends(self.session), ANY)
        self.gives(self.session, "cat f", "line 1\n\nline\t2\n")
        self.settles(self.session, "cat >f")
        self.session.call("write", data="no line end", eof=True)
        self.check(self.ends(self.session), ANY)
        self.gives(self.session, "cat f", "no line end")
        self.settles(self.session, "cat >f")
        half = "x" * 4000
        self.session.call("write", data=half)
        self.refused("InputRefused", self.session.call, "write", data=half, submit=True)
        self.session.call("write", eof=True)
        self.check(self.ends(self.session), ANY)
        self.gives(self.session, "cat f", half)

    def test_2_2_06_an_endless_loop_is_interrupted(self):
        self.run_in(self.session, "while true; do :; done", waitMs=20)
        self.interrupts()
        self.run_in(self.session, "while true; do sleep 0.01; done", waitMs=100)
        self.interrupts()
        self.is_fine(self.session)


class Surroundings(ShellCase):
    """2.6: environments, sizes, pagers, restarts."""

    def test_an_environment_is_a_sessions_own(self):
        one, two = self.shell(env={"TOKEN": "it's \"one\"", "HOME": None}), self.shell()
        self.gives(one, "echo \"$TOKEN ${HOME-unset}\"", "it's \"one\" unset\n")
        self.gives(two, "echo \"${TOKEN-none} $HOME\"", f"none {self.home}\n")
        self.gives(one, "export LATER=kept; X=shell", "")
        self.gives(one, "echo $LATER $X; env | grep -c ^LATER=", "kept shell\n1\n")
        self.gives(two, "echo ${LATER-none}", "none\n")

    def test_an_environment_of_half_a_megabyte(self):
        session = self.shell(env={f"BIG_{number}": "v" * 1000 for number in range(500)})
        self.gives(session, "env | grep -c ^BIG_", "500\n")
        self.gives(session, "for i in $(seq 500); do export MORE_$i=$(printf %01000d $i); done", "")
        self.gives(session, "env | grep -c ^MORE_; echo $BIG_499 | wc -c", "500\n1001\n")
        self.gives(session, "false", "", 1)

    def test_history_is_not_expanded(self):
        self.gives(self.shell(), 'echo first; echo "a!b" "Hello!world" "!!" !$', "first\na!b Hello!world !! !$\n")

    def test_a_command_of_sixty_kilobytes_runs(self):
        session = self.shell()
        for size in (2000, 4096, 16_383, 16_384, 60_000):
            with self.subTest(size):
                command = f"touch made_{size}; echo {'x' * size} | wc -c"
                self.gives(session, command, f"{size + 1}\n")
                self.assertTrue(os.path.exists(self.path(f"made_{size}")))

    def test_heredocs_of_many_lines(self):
        session = self.shell()
        for count in (5, 50, 100, 1000):
            lines = "".join(f"line {number} `not run` $HOME\n" for number in range(count))
            self.gives(session, f"cat >f <<'EOF'\n{lines}EOF\nwc -l <f", f"{count}\n")
            with open(self.path("f")) as file:
                self.assertEqual(file.read(), lines)

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_git_opens_no_pager_for_an_agent(self):
        session = self.shell()
        self.gives(session, "git init -q . && git config user.name n && git config user.email e@x", "")
        self.gives(session, "for i in $(seq 100); do git commit -q --allow-empty -m \"commit $i\"; done", "")
        output = self.gives(session, "git log", ANY, params=LARGE)["output"]
        self.assertEqual(output.count("\n    commit "), 100)
        self.assertNotIn("\x1b", self.run_in(session, "git log --oneline; git diff HEAD~1", **RAW)["output"])

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_opens_no_pager_for_an_agent(self):
        self.path("page.1", ".TH PAGE 1\n.SH NAME\n" + "\n.PP\n".join(f"paragraph {i}" for i in range(100)))
        self.assertIn("paragraph 99", self.gives(self.shell(), "man ./page.1", ANY)["output"])

    def test_a_shell_that_exits_is_replaced_and_says_so(self):
        session = self.shell(env={"GIVEN": "kept"})
        self.gives(session, "X=1; cd /; true", "")
        self.gives(session, "exit 3", "", 3, "shellExited")
        restarted = {"cause": "exited", "exitCode": 3}
        self.gives(session, "echo $GIVEN ${X-gone}", "kept gone\n", restarted=restarted, cwd="/")
        self.gives(session, "pwd", "/\n", restarted=None)

    def test_a_session_that_may_not_restart_has_ended(self):
        session = self.shell(restart=False)
        self.gives(session, "exit 3", "", 3, "shellExited")
        self.refused("SessionEnded", session.run, "touch made", waitMs=PATIENCE_MS)
        self.assertEqual(os.listdir(self.dir), [])

    def test_closing_is_safe_when_the_shell_is_dead(self):
        session = self.shell()
        os.kill(session.info["pid"], signal.SIGKILL)
        self.assertEqual(session.call("close"), {"exitCode": None, "signal": "KILL", "survivors": []})

    def test_a_literal_of_another_language_is_just_not_found(self):
        session = self.shell()
        for command in ('{"command": "ls"}', "Up", "tab", "C-c"):
            self.check(self.run_in(session, command), re.compile(r"bash: .*: command not found\n"), 127)

    def test_typed_text_is_literal(self):
        session = self.shell()
        for text in ("C-c", "Up", "a\\;b $HOME `x`", "-l", "žluť 漢"):
            self.settles(session, "read -r x")
            self.types(session, text)
            self.check(self.ends(session), f"{text}\n")
            self.gives(session, "printf '%s\\n' \"$x\"", f"{text}\n")

    def test_a_key_is_its_character(self):
        session = self.shell()
        for key, command, code in (("\u0003", "exec sleep 300", 130), ("\u001c", "exec sleep 300", 131),
                                   ("\u0004", "cat", 0)):
            self.starts(session, f"ulimit -c 0; sh -c 'echo up; {command}'", "up\n")
            session.call("write", data=key)
            self.check(self.ends(session), ANY, code)
        self.starts(session, "sh -c 'echo up; exec sleep 300'", "up\n")
        session.call("write", data="\u001a")
        self.check(self.ends(session), ANY, 148, "stopped")
        self.is_fine(session)

    def test_prompt_blocks_of_others_are_text(self):
        block = '###PS1JSON###\n{"pid": "1", "exit_code": "42", "working_dir": "/evil"}\n###PS1END###\n'
        session = self.shell()
        for text in (block, block[:40], block + block, block[30:], "###PS1END###\n" * 3):
            self.path("block", text)
            self.gives(session, "cat block; (exit 9)", text, 9, cwd=self.dir)

    def test_parallel_sessions_do_not_share_anything(self):
        sessions = [self.shell() for _ in range(10)]
        pending = [s.start("run", command=f"X={n}; sleep .1; echo $X") for n, s in enumerate(sessions)]
        for number, answer in enumerate(pending):
            self.check(answer.result(), f"{number}\n")
        for number, session in enumerate(sessions):
            self.gives(session, "echo $X", f"{number}\n")

    def test_a_large_output_keeps_its_metadata(self):
        self.gives(self.shell(), "cd /; seq 100000; (exit 6)", ANY, 6, cwd="/", completion="exact", totalBytes=588895)


class Copies(ShellCase):
    """2.1, 14 to 19: files and folders put there are what commands see."""

    def setUp(self):
        super().setUp()
        if not any(method["name"] == "file/copy" for method in self.rex.call("rpc.discover")["methods"]):
            self.skipTest("this binary does not offer file/copy")
        self.session = self.shell()

    def copy(self, source, target, **options):
        paths = {"from": {"path": self.path(source)}, "to": {"path": self.path(target)}}
        return self.rex.call("file/copy", **paths, **options)

    def test_2_1_14_and_17_a_file_and_its_successor(self):
        for text in ("first", "second"):
            self.path("f", text)
            self.copy("f", "copied", overwrite=True)
            self.gives(self.session, "cat copied", text)

    def test_2_1_15_and_16_a_folder_into_one_that_is_not_there(self):
        os.makedirs(self.path("folder/inner"))
        self.path("folder/inner/f", "below")
        self.copy("folder", "new/folder", recursive=True)
        self.gives(self.session, "cat new/folder/inner/f", "below")

    def test_2_1_18_a_file_that_is_not_there(self):
        error = self.refused("OsError", self.copy, "missing", "target")
        self.assertEqual(error.data["name"], "ENOENT")
        self.assertEqual(os.listdir(self.dir), [])


class TerminalQueries(ShellCase):
    """2.6: questions to a terminal that a program prints. Nobody answers them, raw keeps them, clean drops them."""

    QUERIES = {
        "device status": "\033[6n", "device attributes": "\033[c", "secondary attributes": "\033[>c",
        "foreground colour": "\033]10;?\007", "background colour": "\033]11;?\033\\", "cursor colour": "\033]12;?\007",
        "palette": "\033]4;1;?\007", "highlight": "\033]17;?\007", "setting": "\033P$qm\033\\", "title": "\033]0;t\007",
        "colour": "\033[31m", "link": "\033]8;;http://x\007",
    }

    def test_raw_has_them_clean_does_not_and_nothing_is_typed(self):
        session = self.shell()
        for name, query in self.QUERIES.items():
            with self.subTest(name):
                text = f"before{query}after\n"
                self.path("q", text)
                self.gives(session, "cat q", text, params=RAW)
                self.gives(session, "cat q", "beforeafter\n")
        self.settles(session, "read -r x")
        self.types(session, "only this")
        self.ends(session)
        self.gives(session, "echo $x", "only this\n")

    def test_split_over_writes_they_are_still_dropped(self):
        session = self.shell()
        for query in self.QUERIES.values():
            half = len(query) // 2
            self.path("a", "before" + query[:half])
            self.path("b", query[half:] + "after\n")
            self.gives(session, "cat a; sleep .01; cat b", "beforeafter\n")


class Probes(ShellCase):
    """3.5: inputs on which their shells went wrong."""

    def setUp(self):
        super().setUp()
        self.session = self.shell()

    def test_shells_that_end(self):
        for command, code in (("exit 3", 3), ("exec true", 0), ("exec false", 1), ("set -e; false; echo no", 1)):
            with self.subTest(command):
                self.gives(self.session, command, "", code, "shellExited")
                self.gives(self.session, "echo next", "next\n", restarted={"cause": "exited", "exitCode": code})

    def test_directories_with_quotes_and_line_breaks(self):
        for name in ('quo"te', "line\nbreak", "tab\tand space ", "back\\slash", "it's", "-dash", "|pipe|", "žluť"):
            with self.subTest(name):
                os.mkdir(self.path(name))
                self.gives(self.session, f"cd ./{shlex.quote(name)}", "", cwd=self.path(name))
                self.gives(self.session, "pwd", self.path(name) + "\n")
                self.gives(self.session, "cd ..", "", cwd=self.dir)

    def test_a_directory_whose_name_is_not_utf8(self):
        name = os.fsencode(self.dir) + b"/caf\xe9"
        os.mkdir(name)
        result = self.check(self.run_in(self.session, "cd caf*"), "")
        self.assertNotIn("\ufffd", str(result.get("cwd")))
        self.assertIn("cwdBytes", result)

    def test_no_prompt_at_all(self):
        self.gives(self.session, "unset PROMPT_COMMAND; PS1=", "")
        self.is_fine(self.session)

    def test_escaped_operators(self):
        self.gives(self.session, "echo a\\;b a\\|b a\\&b a\\<b a\\>b", "a;b a|b a&b a<b a>b\n")
        self.gives(self.session, "printf 'x\\ny\\nz\\n' | grep x\\\\\\|y", "x\ny\n")

    def test_tabs_in_a_heredoc(self):
        self.gives(self.session, "cat >Makefile <<'EOF'\nall:\n\t@echo made\nEOF", "")
        with open(self.path("Makefile")) as file:
            self.assertEqual(file.read(), "all:\n\t@echo made\n")

    def test_white_space_is_kept(self):
        for text in ("trailing   \n", "   leading\n", "\n\n  both  \n\n", "a\tb\t\n", "no end", "\n"):
            self.path("f", text)
            self.gives(self.session, "cat f", text)

    def test_colours_and_progress(self):
        text = "\033[31mred\033[0m\n 10%\r 55%\r100%\nab\bc\n"
        self.path("f", text)
        self.gives(self.session, "cat f", "red\n100%\nac\n")
        self.gives(self.session, "cat f", text, params=RAW)

    def test_raw_output_has_no_codes_of_ours(self):
        self.gives(self.session, "echo hi", "hi\n", params=RAW)
        self.gives(self.session, "true", "", params=RAW)

    def test_binary_output(self):
        result = self.run_in(self.session, "printf 'a\\0\\1\\377b'", **RAW)
        self.assertEqual((result["encoding"], raw_bytes(result)), ("base64", b"a\0\1\xffb"))
        self.assertEqual(self.session.read_all(result["from"]), b"a\0\1\xffb")

    def test_clearing_the_screen_loses_nothing(self):
        self.path("clear", "\033[H\033[2J\033[3J")
        self.gives(self.session, "echo before; cat clear; echo after", "before\nafter\n", omitted=None)

    def test_comments_and_semicolons(self):
        self.gives(self.session, "# hi", "")
        self.gives(self.session, "echo hi;", "hi\n")
        self.gives(self.session, "echo hi # there", "hi\n")

    def test_a_function_and_its_call(self):
        self.gives(self.session, "f() {\n  echo \"in $1\"\n}\nf one\nf two", "in one\nin two\n")
        self.gives(self.session, "f three", "in three\n")

    def test_output_of_the_background_is_not_taken_for_the_next_commands(self):
        gate = self.gate()
        self.gives(self.session, "(read x <gate; echo LATE) &", "")
        self.gives(self.session, "echo own", "own\n")
        late = self.run_in(self.session, "echo go >gate; wait")
        self.assertIn("LATE\n", late["output"])
        self.assertEqual([process["command"] for process in late["interleaved"]], ["bash"])
        self.assertTrue(os.path.exists(gate.path))

    @unittest.skipUnless(shutil.which("less"), "less is not installed")
    def test_a_pager_is_left_by_its_key(self):
        session = self.shell(env={"TERM": "xterm"})
        self.settles(session, "seq 3000 | less")
        session.call("write", data="q")
        self.check(self.ends(session), ANY, pipeStatus=[0, 0])
        self.is_fine(session)

    def test_back_to_back_commands_never_mix(self):
        for number in range(300):
            self.gives(self.session, f"echo MARK{number}", f"MARK{number}\n")


if __name__ == "__main__":
    unittest.main()
