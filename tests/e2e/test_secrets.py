"""A secret goes to the program that asks for one, and stays nowhere (B2, B3, B11, B12, B15).

Memory is looked through from outside, as a core dump or a debugger would.
"""

import base64
import os
import pathlib
import re
import unittest

from rig import RexCase, binary, in_shells, needs, status_of, until
import waiting_world as world

PATIENCE_MS = 60_000
SECRET = "hunter2-" + "correct-horse"  # not one word: this file's own text is in the memory of whoever reads it
SHORT = "pw7" + "Qz!"
ASK = "read -rs -p 'password: ' p; echo; echo ${#p}"
ASK_SH = "stty -echo; printf 'password: '; read -r p; stty echo; echo; echo ${#p}"


def memory_holds(pid, text):
    """Whether any writable memory of the process has `text` in it."""
    found = False
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            size = int(end, 16) - int(begin, 16)
            if not rights.startswith("rw") or size > 1 << 30:  # a sanitizer's shadow holds no text
                continue
            try:
                memory.seek(int(begin, 16))
                found = found or text.encode() in memory.read(size)
            except OSError:
                pass  # a guard page
    return found


class Secrets(RexCase):
    def ask(self, session):
        result = session.run(ASK if session.info["shell"] == "bash" else ASK_SH, waitMs=PATIENCE_MS)
        self.assertEqual((result["state"], result["waiting"]["kind"], result["waiting"]["text"]),
                         ("waitingInput", "secret", "password: "), result)

    @in_shells()
    def test_B2_B11_a_secret_reaches_its_program_and_stays_nowhere(self, session):
        for secret, sent in ((SECRET, {"data": SECRET}), (SHORT, {"data": SHORT}),
                             (SECRET, {"data": base64.b64encode(SECRET.encode()).decode(), "encoding": "base64"})):
            with self.subTest(sent):
                self.ask(session)
                written = session.call("write", secret=True, submit=True, **sent)
                self.assertEqual(written["accepted"], len(secret) + 1)
                over = session.call("wait", any=[{"exit": True}], waitMs=PATIENCE_MS)["result"]
                self.assertEqual(over["output"].split(), ["password:", str(len(secret))])
                self.ended(session.run("unset p"))
                pid = self.rex.pid
                self.assertTrue(memory_holds(pid, f"password: \n{len(secret)}\n"), "the journal is there to be found")
                self.assertFalse(memory_holds(pid, secret))
                self.assertNotIn(secret.encode(), session.read_all())
                for place in ("cmdline", "environ"):
                    self.assertNotIn(secret.encode(), pathlib.Path(f"/proc/{pid}/{place}").read_bytes())
                self.assertNotIn(secret, "".join(self.rex.stderr))
                self.assertNotIn(secret, str(session.call("info")))

    @in_shells("bash")
    def test_B2_B11_nor_does_a_long_one_or_a_part_of_it(self, session):
        """Longer than any room that is there beforehand, so that what holds it has to move, with escapes and without."""
        word = SECRET.replace("-", "")
        for secret in ("".join(f"{i:x}{word}" for i in range(30)), "".join(f'{i:x}\\"{word}' for i in range(100))):
            self.ask(session)
            session.call("write", secret=True, submit=True, data=secret)
            over = session.call("wait", any=[{"exit": True}], waitMs=PATIENCE_MS)["result"]
            self.assertEqual(over["output"].split(), ["password:", str(len(secret))])
            self.ended(session.run("unset p"))
            self.assertFalse(memory_holds(self.rex.pid, word))

    def test_B11_C09_a_core_dump_has_no_memory_in_it_and_programs_keep_theirs(self):
        self.rex.call("ping")
        own = pathlib.Path(f"/proc/{self.rex.pid}/coredump_filter").read_text()
        self.assertEqual(int(own, 16), 0)
        session = self.fresh()
        theirs = session.output("cat /proc/self/coredump_filter")
        self.assertEqual(theirs, pathlib.Path("/proc/self/coredump_filter").read_text())

    @in_shells()
    def test_B12_a_secret_that_nobody_asks_for_is_refused_and_not_written(self, session):
        def refuse():
            error = self.refused("InputRefused", session.call, "write", data=SECRET, submit=True, secret=True)
            self.assertEqual((error.data["reason"], error.data["executed"]), ("noSecretPrompt", "no"))
            self.assertNotIn(SECRET, str(error) + str(error.data))

        refuse()
        asked = session.run("printf 'name? '; read -r x; echo got $x", waitMs=PATIENCE_MS)
        self.assertEqual(asked["waiting"]["kind"], "line")
        refuse()
        self.ended(session.run("Ada", interactive=True, waitMs=PATIENCE_MS), output="got Ada\n")
        session.run("sleep 60", waitMs=0)
        refuse()
        session.call("interrupt")
        self.assertNotIn(SECRET.encode(), session.read_all())
        self.assertFalse(memory_holds(self.rex.pid, SECRET))
        self.usable(session)

    @in_shells("bash")
    def test_B12_a_terminal_that_was_left_without_echo_asks_for_nothing(self, session):
        session.run("stty -echo; sleep 60", waitMs=0)
        self.assertTrue(until(lambda: session.call("info")["foreground"]["command"] == "sleep"))
        self.refused("InputRefused", session.call, "write", data=SECRET, secret=True)
        session.call("interrupt")

    @in_shells("bash")
    def test_B2_a_secret_right_behind_its_prompt_is_taken(self, session):
        session.run("sleep 0.2; " + ASK, expect=["password: "], waitMs=PATIENCE_MS)
        session.call("write", data=SECRET, submit=True, secret=True)
        over = session.call("wait", any=[{"exit": True}], waitMs=PATIENCE_MS)["result"]
        self.assertEqual(over["output"].split()[-1], str(len(SECRET)))

    @in_shells()
    def test_B3_without_input_a_question_is_an_end_of_file(self, session):
        self.ended(session.run("read -r x", stdin="empty", waitMs=PATIENCE_MS), 1)
        asked = session.run("python3 -c 'input(\"? \")'", stdin="empty", waitMs=PATIENCE_MS)
        self.assertEqual((asked["state"], asked["exitCode"]), ("exited", 1))
        self.assertIn("EOFError", asked["output"])

    @needs("sudo")
    @unittest.skipUnless(os.getuid() == 0, "cannot run here: only root can become another user")
    def test_B15_what_was_asked_in_one_session_is_asked_in_the_next(self):
        rex = self.spawn(argv=[*world.AS_USER, str(world.copy_for_all(binary(), self.folder))], env=world.environment("/nonexistent"), cwd="/")
        for _ in range(2):
            session = self.fresh(rex=rex)
            asked = session.run("sudo true", waitMs=PATIENCE_MS)
            self.assertEqual((asked["state"], asked["waiting"]["kind"], asked["waiting"]["evidence"]),
                             ("waitingInput", "secret", "termios"), asked)
            self.assertIn("password for", asked["waiting"]["text"])
            session.call("write", data="wrong", secret=True, submit=True)
            again = session.call("wait", any=[{"input": True}], waitMs=PATIENCE_MS)
            self.assertEqual(again["met"], 0, again)
            self.assertNotEqual(status_of(again["result"]["waiting"]["pid"])["Uid"].split()[1], str(world.USER.pw_uid))
            session.call("interrupt")


if __name__ == "__main__":
    unittest.main()
