"""The screen of a session: what full-screen programs show, with nobody attached, equals what tmux shows of them.

Known differences from `tmux capture-pane`, each with its reason; everything else is compared whole, cursor included:

| program | what is not compared | why |
|---|---|---|
| htop | all but its help page | a list of processes and loads is another at every look |
| any | line graphics (ESC ( 0) | capture-pane gives the letters they are sent as, we the lines |
| any | the cursor behind a full row | tmux counts it in the column behind the last one, we in the last |
"""

import subprocess
import unittest

from rig import needs, until
from terminal_world import COLS, TerminalCase, editor, has_controls
from watching import Attached, WatchCase

# Reads what the terminal says: writes argv[2] where argv[1] is "raw" behind turning to raw mode, and shows all that
# comes up to the answer to a last question.
ASK = r"""
import os, sys, termios, tty
before = termios.tcgetattr(0)
if sys.argv[1] == "raw": tty.setraw(0)
os.write(1, sys.argv[2].encode().decode("unicode_escape").encode("latin-1") + b"\033[5n")
if sys.argv[1] == "late": tty.setraw(0)
got = b""
while b"\033[0n" not in got: got += os.read(0, 1000)
termios.tcsetattr(0, termios.TCSADRAIN, before)
print("got", ascii(got.replace(b"\033[0n", b"")))
"""


class SameAsTmux(TerminalCase):
    @needs("tmux", editor())
    def test_C12_vim_shows_and_places_the_cursor_as_in_tmux(self):
        file = self.folder / "text"
        file.write_text("".join(f"{n} wide 日本 é e\u0301 😀 tab\tend\n" for n in range(1, 100)), encoding="utf-8")
        argv = [editor(), "-u", "NONE", "-i", "NONE", "-n", "-N", str(file)]
        session, tmux = self.program(*argv), self.reference(*argv)
        self.same(session, tmux, "text")
        for keys, ready in (
            (("3", "G", "d", "d"), "4 wide"),
            (("o", "n", "e", "w", " ", "日", "Escape"), "new 日"),
            (("C-f", "C-f"), "50 wide"),
            (("/", "7", "7", "Enter"), "77 wide"),
            (("Up", "Up", "Home", "Right", "C-e"), "77 wide"),
            ((":", "s", "p", "Enter"), "76 wide"),
            ((":", "o", "n", "l", "y", "|", "1", "Enter"), "2 wide"),
            (("y", "y", "5", "p", "G", "A", " ", "e", "n", "d", "Escape"), "99 wide 日本 é e\u0301 😀 tab"),
        ):
            with self.subTest(keys=keys):
                self.both(session, tmux, *keys)
                self.same(session, tmux, ready)
        view = session.call("screen")
        self.assertTrue(view["alternate"])
        self.assertTrue(view["complete"])
        session.call("write", keys=[":", "q", "!", "Enter"])
        ended = session.call("wait", any=[{"exit": True}], waitMs=10_000)
        self.assertEqual(ended["result"]["exitCode"], 0)
        self.assertFalse(session.call("screen")["alternate"])

    @needs("tmux", "less")
    def test_B5_C12_less_shows_and_places_the_cursor_as_in_tmux(self):
        file = self.folder / "long"
        file.write_text("".join(f"{n} " + "日本 long " * (n % 23) + "\n" for n in range(200)), encoding="utf-8")
        session, tmux = self.program("less", str(file)), self.reference("less", str(file))
        self.same(session, tmux, "0")
        for keys, ready in (
            (("Space",), "16 日本"),
            (("Down", "Down", "Up"), "16 日本"),
            (("/", "1", "1", "1", "Enter"), "111 日本"),
            (("-", "S", "Enter"), "111 日本"),
            (("Right",), "日本"),
            (("G",), "(END)"),
            (("g",), "\ng 日本 long\n"),
        ):
            with self.subTest(keys=keys):
                self.both(session, tmux, *keys)
                self.same(session, tmux, ready)
        session.call("write", keys=["q"])
        self.assertIsNotNone(session.call("wait", any=[{"exit": True}], waitMs=10_000)["met"])

    @needs("tmux", "htop")
    def test_C12_htop_shows_its_help_as_in_tmux(self):
        session, tmux = self.program("htop", rows=40), self.reference("htop", rows=40)
        self.shows(session, "F10")
        self.assertTrue(until(lambda: "F10" in tmux.call("capture-pane", "-p")))
        self.both(session, tmux, "F1")
        self.same(session, tmux, "Press any key to return")
        session.call("write", keys=["Escape"])
        self.shows(session, "F10")
        session.call("write", keys=["F10"])
        self.assertIsNotNone(session.call("wait", any=[{"exit": True}], waitMs=10_000)["met"])

    @needs("tmux")
    def test_C12_tmux_in_a_session_shows_as_tmux_in_tmux(self):
        config = self.folder / "inner.conf"
        config.write_text(
            "set -g status-left 'left '\nset -g status-right ' right'\nset -g default-terminal screen-256color\n"
            "setw -g automatic-rename off\nset -g escape-time 0\n"
        )

        def argv(name):
            script = 'printf "one\\n日本 two\\033[5;10Hthree"; exec cat'
            server = ["tmux", "-S", str(self.folder / name), "-f", str(config)]
            self.addCleanup(lambda: Inner.end(server))
            return ["env", "-u", "TMUX", *server, "new-session", "-n", "window", "sh", "-c", script]

        session, tmux = self.program(*argv("a")), self.reference(*argv("b"))
        self.same(session, tmux, "three")
        self.both(session, tmux, "C-b", "%")
        self.same(session, tmux, "│", but=Inner.without_prompt)
        self.both(session, tmux, "C-b", "x")
        self.same(session, tmux, "kill-pane", but=Inner.without_prompt)
        self.both(session, tmux, "y")
        self.same(session, tmux, "three")

    @needs("tmux")
    def test_C12_what_a_plain_program_draws_is_where_tmux_draws_it(self):
        long = "0123456789" * 20
        for name, text in {
            "wrap": f"{long}\r\nnext",
            "wide at the margin": "x" * (COLS - 1) + "日\r\nnext",
            "marks": "e\u0301a\u0308 \u0915\u094d x",
            "emoji": "😀 👍 ok",
            "tabs": "a\tb\t\tc\r\n\tx",
            "region": "1\r\n2\r\n3\r\n4\033[2;3r\033[3;1H\r\nin\033[r\033[8;1Hend",
            "insert": "abcdef\033[3G\033[2@XY\033[1P\r\n\033[Lline",
            "erase": "abc\r\ndef\r\nghi\033[2;2H\033[K\033[1J",
            "repeat": "=\033[20b|",
            "reverse index": "a\r\nb\033M\033M\033Mtop",
            "save": "a\0337bcd\0338X",
            "scroll": "\r\n".join(str(n) for n in range(40)),
            "backspace": "abc\b\bX\r>",
        }.items():
            with self.subTest(name):
                file = self.folder / "case"
                file.write_bytes(text.encode())
                argv = ["sh", "-c", f"stty raw -echo; cat {file}; printf '\\033[24;1HREADY'; exec cat"]
                self.same(self.program(*argv), self.reference(*argv), "READY")


class Inner:
    """The tmux inside."""

    @staticmethod
    def end(server):
        subprocess.run([*server, "kill-server"], capture_output=True, timeout=30, check=False)

    @staticmethod
    def without_prompt(lines):
        """A new pane runs the user's shell, whose prompt has the host's name and may come at any time."""
        return [line.split("│")[0] for line in lines]


class Answers(TerminalCase):
    def answered(self, question, when="raw", **options):
        session = self.program("python3", "-c", ASK, when, question, **options)
        done = session.call("wait", any=[{"exit": True}], waitMs=15_000)
        self.assertIsNotNone(done["met"], session.call("screen"))
        return done["result"]["output"].rpartition("got ")[2].rstrip("\n")

    def test_C12_a_program_that_asks_and_waits_is_answered_once_with_nobody_attached(self):
        for question, answer in {
            "\\033[6n": r"b'\x1b[1;1R'",
            "\\033[3;7H\\033[6n": r"b'\x1b[3;7R'",
            "\\033[c": r"b'\x1b[?1;2c'",
            "\\033[>c": r"b'\x1b[>0;100;0c'",
            "\\033]11;?\\007": r"b'\x1b]11;rgb:0000/0000/0000\x07'",
            "\\033[?2026$p": r"b'\x1b[?2026;2$y'",
            "\\033[18t": r"b'\x1b[8;24;80t'",
        }.items():
            with self.subTest(question):
                self.assertEqual(self.answered(question), answer)

    def test_a_program_that_turns_to_its_keys_behind_the_question_is_answered_too(self):
        self.assertEqual(self.answered("\\033[c", when="late"), r"b'\x1b[?1;2c'")
        self.assertEqual(self.answered("\\033[c", profile="human"), r"b'\x1b[?1;2c'")
        session = self.fresh("bash")
        done = session.run("""IFS=';' read -rsdR -p $'\\e[6n' row col; echo "col $col" """, waitMs=10_000)
        self.ended(done)
        self.assertTrue(done["output"].endswith("col 1\n"), done)

    def test_J6_what_only_shows_questions_leaves_no_answer_for_the_next_to_read(self):
        session = self.fresh("bash")
        hostile = (
            r"\033]2;rm -rf /\007\033[21t\033[6n\033[c\033[>c\033[5n\033P$qm\033\\\033]52;c;?\007\033]10;?\007"
            r"\033[>q\033Z\033[1;1;1;1;1;1*y\005"
        )
        self.ended(session.run(f"printf '{hostile}'"))
        self.ended(session.run("read -r -t 1 -n 1 x; echo \"[$x]\"", returnOnInput=False), output="[]\n")
        self.assertEqual(session.call("info")["state"], "ready")


class OnTerminals(WatchCase):
    def test_who_shows_a_session_on_a_terminal_gets_its_carriage_returns(self):
        session = self.fresh("bash")
        feed = self.feed(self.rex)
        raw = Attached(feed, session.name)
        shown = Attached(feed, session.name, newline="terminal")
        session.run("printf 'a\\nb\\r\\nc\\n\\033[?25l'")
        session.run("echo d")
        end = session.call("info")["next"]
        for each in (raw, shown):
            each.until(lambda each=each: each.next == end)
        self.assertEqual(raw.data, b"a\nb\r\nc\n\033[?25ld\n")
        self.assertTrue(shown.data.startswith(b"a\r\nb\r\nc\r\n\033[?25l"), shown.data)
        self.assertTrue(shown.data.endswith(b"d\r\n"), shown.data)
        self.assertIn(b"\033[?25h", shown.data)  # what the ended job left in force

    def test_while_a_writer_shows_it_on_a_terminal_that_one_answers_and_we_do_not(self):
        argv = ["sh", "-c", "read go; exec \"$@\"", "sh", "python3", "-c", ASK, "raw", "\\033[c"]
        session = self.fresh(None, argv=argv)
        writer = Attached(self.feed(self.rex), session.name, role="writer", offset=0)
        session.call("write", data="", submit=True)
        writer.until(lambda: b"\033[5n" in writer.data)
        session.call("write", data="\033[0n")
        done = session.call("wait", any=[{"exit": True}], waitMs=15_000)
        self.assertTrue(done["result"]["output"].endswith("got b''\n"), done)


class Screens(TerminalCase):
    def test_an_agents_raw_lines_show_without_a_staircase(self):
        session = self.fresh("bash", rows=5, cols=40)
        self.ended(session.run("printf 'one\\ntwo\\n'; seq 1 2"), output="one\ntwo\n1\n2\n")
        view = session.call("screen")
        self.assertEqual(view["lines"], ["one", "two", "1", "2", ""])
        self.assertEqual(view["cursor"], {"row": 4, "col": 0, "visible": True})
        self.assertEqual(session.read_all(), b"one\ntwo\n1\n2\n")  # and the journal is the program's bytes
        repl = self.program("python3", "-q", rows=6)
        self.shows(repl, ">>>")
        repl.call("write", data="print('a\\nb')", submit=True)
        self.shows(repl, "\na\nb\n>>>")

    def test_since_gives_the_rows_that_changed(self):
        session = self.fresh("bash", rows=5, cols=40)
        session.run("seq 1 3")
        first = session.call("screen")
        self.assertNotIn("changed", first)
        again = session.call("screen", since=first["revision"])
        self.assertEqual((again["revision"], again["lines"], again["changed"]), (first["revision"], [], []))
        session.run("printf '\\033[2;1Htwo\\033[5;1H'")
        more = session.call("screen", since=first["revision"])
        self.assertEqual((more["lines"], more["changed"]), (["two"], [1]))
        self.assertEqual(session.call("screen")["lines"], ["1", "two", "3", "", ""])
        self.assertGreater(more["revision"], first["revision"])
        error = self.refused("InvalidParams", session.call, "screen", since=more["revision"] + 1)
        self.assertEqual(error.data["member"], "since")

    def test_colours_come_when_asked_for(self):
        session = self.fresh("bash", rows=3, cols=40)
        session.run("printf '\\033[1;31mred\\033[0m plain'")
        self.assertEqual(session.call("screen", format="ansi")["lines"][0], "\x1b[0;1;31mred\x1b[0m plain")
        self.assertEqual(session.call("screen")["lines"][0], "red plain")

    def test_the_screen_is_right_although_nobody_asked_before(self):
        session = self.fresh("bash", rows=4, cols=40)
        session.run("seq 1 300000; printf '\\033]2;a title\\007end'")
        view = session.call("screen")
        self.assertEqual(view["lines"], ["299998", "299999", "300000", "end"])
        self.assertEqual((view["title"], view["complete"]), ("a title", True))
        self.assertEqual(view["next"], session.call("info")["next"])

    def test_C11_what_a_job_left_on_the_terminal_is_gone_for_the_next(self):
        session = self.fresh("bash", rows=5, cols=40)
        session.run("echo before")
        usual = session.output("stty -a")
        left = self.ended(
            session.run(
                "stty raw -echo; printf '\\033[?1049h\\033[Hgarbage\\033(0\\033[2;3r\\033[?1000h\\033[?2004h\\033[?25l"
                "\\033[?7l\\033=\\033[?1h'"
            )
        )
        self.assertEqual([(name, name in " ".join(left["warnings"])) for name in ("screen", "stty")],
                         [("screen", True), ("stty", True)])
        self.assertNotIn("warnings", self.ended(session.run("stty -a"), output=usual))
        self.assertNotIn("warnings", session.run("printf '\\033[?1049h\\033[?1049l'; stty -echo; stty echo; stty -ixon"))
        self.assertEqual(len(session.run("stty -echo")["warnings"]), 1)
        session.run("stty ixon")
        session.run("printf '\\033[H\\033[2J'; echo lqqk; echo after")
        view = session.call("screen")
        self.assertEqual(view["lines"], ["lqqk", "after", "", "", ""])
        self.assertFalse(view["alternate"])
        self.assertTrue(view["cursor"]["visible"])

    def test_S13_a_resize_shows_and_the_last_size_wins(self):
        session = self.fresh("bash", rows=4, cols=20)
        session.run("printf '0123456789abcdefghij0123456789\\n'")
        for size in ((0, 0), (65536, 10), (10, -1)):
            self.refused("InvalidParams", session.call, "resize", rows=size[0], cols=size[1])
        job = session.start("run", command="for i in $(seq 300); do echo $i; done; echo done", waitMs=20_000)
        calls = [session.start("resize", rows=4 + i % 7, cols=20 + i % 50) for i in range(300)]
        for call in calls:
            call.result()
        job.result()
        session.call("resize", rows=5, cols=40)
        self.ended(session.run("stty size"), output="5 40\n")
        view = session.call("screen")
        self.assertEqual((view["rows"], view["cols"], view["lines"]), (5, 40, ["299", "300", "done", "5 40", ""]))

    def test_C20_a_screen_that_is_too_large_is_refused_and_the_session_lives(self):
        session = self.fresh("bash", rows=65535, cols=65535)
        self.ended(session.run("stty size"), output="65535 65535\n")
        error = self.refused("LimitExceeded", session.call, "screen")
        self.assertEqual(error.data["limit"], "screenCells")
        session.call("resize", rows=1, cols=1)
        self.assertEqual(len(session.call("screen")["lines"]), 1)
        self.usable(session)

    def test_C21_a_program_that_has_ended_keeps_its_screen_and_is_not_resized(self):
        session = self.program("sh", "-c", "printf 'last words'", rows=3)
        session.call("wait", any=[{"exit": True}], waitMs=10_000)
        self.refused("SessionEnded", session.call, "resize", rows=10, cols=10)
        self.assertEqual(session.call("screen")["lines"], ["last words", "", ""])

    def test_S15_hostile_sequences_reach_the_journal_and_nothing_else(self):
        session = self.fresh("bash", rows=5, cols=40)
        hostile = (
            b"\033[9b\033[2147483647b\033[99999999999999999999C\033#8\033[?3h\033[?69h\033[2;3s\033]0;"
            + b"x" * 5000
            + b"\007\033]52;c;aGk=\007\033]8;;http://x\007link\033]8;;\007\033P+q544e\033\\\033[20t\033]50;?\007"
            b"\xc2\x9b6n\033_apc\033\\\033^pm\033\\\033Xsos\033\\\0337\033[1000;1000H\0338\x9b\x90\xffend"
        )
        file = self.folder / "hostile"
        file.write_bytes(hostile)
        done = session.run(f"cat {file}")
        self.assertEqual(session.read_all(offset=done["from"]), hostile)
        self.assertFalse(has_controls(done["output"].replace("\n", "")))
        view = session.call("screen")
        self.assertFalse(any(has_controls(line) for line in [*view["lines"], view["title"]]))
        self.assertIn("end", "".join(view["lines"]))
        self.usable(session)

    def test_pipes_have_no_screen_and_no_keys(self):
        session = self.fresh(None, argv=["cat"], tty=False)
        self.refused("InvalidParams", session.call, "screen")
        self.refused("InvalidParams", session.call, "write", keys=["Enter"])


class Keys(TerminalCase):
    SHOW = (
        "import os, sys, tty; tty.setraw(0); os.write(1, sys.argv[1].encode().decode('unicode_escape').encode())\n"
        "while True:\n  got = os.read(0, 100); os.write(1, ascii(got).encode() + b'\\r\\n')\n"
    )

    def test_keys_are_sent_as_the_program_asked_for_them(self):
        for asked, sent in {
            "ready\\r\\n": r"b'\x1b[A\x1b[15~\x1bx\x00\x1b[1;5D5\xc3\xa4'",
            "\\033[?1h\\033=ready\\r\\n": r"b'\x1bOA\x1b[15~\x1bx\x00\x1b[1;5D\x1bOu\xc3\xa4'",
        }.items():
            with self.subTest(asked):
                session = self.program("python3", "-c", self.SHOW, asked)
                self.shows(session, "ready")
                typed = session.call("write", keys=["Up", "F5", "M-x", "C-Space", "C-Left", "KP5", "ä"])
                self.shows(session, sent)
                self.assertEqual(typed["accepted"], typed["inputOffset"])

    def test_data_comes_before_keys_and_enter_behind_them(self):
        session = self.program("python3", "-c", self.SHOW, "ready")
        self.shows(session, "ready")
        session.call("write", data="a", keys=["b", "Tab"], submit=True)
        self.shows(session, r"b'ab\t\r'")

    def test_S08_a_key_of_control_c_interrupts_as_at_a_terminal(self):
        session = self.fresh("bash")
        job = session.start("run", command="sleep 60")
        # As at a terminal, a key that meets the shell while it forks would be lost.
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        session.call("write", keys=["C-c"])
        self.ended(job.result(), 130)
        self.usable(session)

    def test_a_key_that_no_terminal_knows_is_refused_with_those_it_does(self):
        session = self.fresh("bash")
        error = self.refused("InvalidParams", session.call, "write", data="typed?", keys=["Up", "Hyper-x"])
        self.assertEqual(error.data["member"], "keys[1]")
        self.assertIn("PageDown", error.data["known"])
        self.assertEqual(session.call("write", data="")["inputOffset"], 0)


if __name__ == "__main__":
    unittest.main()
