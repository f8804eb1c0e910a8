"""`rex-rpc shell`: a person's terminal, on a shell of their own and on a session that an agent drives."""

import os
import re
import signal
import unittest

from rig import alive, binary, until
from watching import Person, WatchCase


class ShellCase(WatchCase):
    def person(self, *words, **size):
        person = Person(binary(), *words, env=self.environment(SHELL="/bin/sh", PS1="own$ ", ENV=""), **size)
        self.addCleanup(person.close)
        return person

    def watcher(self, session, *words, **size):
        person = self.person("shell", session.name, *words, **size)
        person.sees("typing into" if words else "watching")
        person.sees("only watch")
        return person

    def left(self, person, code=0):
        self.assertEqual(person.ends(), code, person.screen)
        self.assertTrue(person.terminal_is_restored(), "the terminal is not as it was")


class OwnShell(ShellCase):
    def test_it_is_the_users_shell_and_ends_with_its_code(self):
        person = self.person("shell", rows=33, cols=77)
        person.sees("own$ ")
        person.type("tty; stty size; exit 5\r")
        person.sees("/dev/pts/")
        person.sees("33 77")
        self.left(person, 5)

    def test_others_find_it_and_it_ends_with_its_terminal(self):
        person = self.person("shell")
        person.sees("own$ ")
        person.type("echo $$ is me; sleep 1000\r")
        person.sees("\n")
        pid = int(person.sees(" is me"))
        row = rf"{person.process.pid}-\w+/s1 +unmanaged .* sleep"
        self.assertTrue(until(lambda: re.search(row, self.command("sessions").stdout)))
        done = self.command("logs", f"{person.process.pid}/s1")
        self.assertIn(f"{pid} is me", done.stdout)
        person.process.send_signal(signal.SIGTERM)
        self.left(person, 128 + signal.SIGTERM)
        self.assertTrue(until(lambda: not alive(pid)), "its shell lives on")

    def test_a_signal_that_ends_the_shell_is_told_as_a_shell_would(self):
        person = self.person("shell")
        person.sees("own$ ")
        person.type("kill -9 $$\r")
        self.left(person, 128 + signal.SIGKILL)

    def test_keys_reach_the_program_as_they_are(self):
        person = self.person("shell")
        person.sees("own$ ")
        person.type("trap 'echo caught' INT; cat -v\r")
        person.sees("cat -v\r\n")
        person.type("a~b~.\r")
        person.sees("a~b~.\r\na~b~.\r\n")
        person.type("~~x\r")
        person.sees("~x\r\n~x\r\n")
        person.type("~q\r")
        person.sees("~q\r\n~q\r\n")
        person.type("\x03")
        person.sees("caught")
        person.resize(40, 90)
        person.process.send_signal(signal.SIGWINCH)
        person.sees("own$ ")
        person.type("until stty size | grep '40 90'; do :; done\r")
        person.sees("\n40 90")
        person.type("~.")
        self.left(person)

    def test_modes_that_a_program_leaves_behind_are_undone(self):
        person = self.person("shell")
        person.sees("own$ ")
        person.type(r"printf '\033[?1049h\033[?25l\033[?1000;1006h\033[?2004h\033[?2004l'; kill -9 $$" + "\r")
        self.left(person, 137)
        tail = person.screen[person.screen.rindex("\x1b[?2004l"):]
        for undone in ("\x1b[?1049l", "\x1b[?25h", "\x1b[?1000l", "\x1b[?1006l"):
            self.assertIn(undone, tail)
        self.assertEqual(tail.count("2004"), 1)

    def test_it_needs_a_terminal(self):
        done = self.command("shell")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("logs --follow", done.stderr)


class Watching(ShellCase):
    def test_who_watches_sees_all_and_types_nothing(self):
        session = self.fresh()
        person = self.watcher(session)
        session.run("echo one; echo two")
        person.sees("one\r\ntwo\r\n")
        person.type("rm -rf /\r")
        person.sees("only watching")
        self.assertEqual(session.call("info")["writer"], None)
        self.assertEqual((session.call("info")["rows"], session.call("info")["cols"]), (50, 200))
        session.run("echo three")
        person.sees("three\r\n")
        person.type("\r~.")
        person.sees("which goes on")
        self.left(person)
        self.usable(session)

    def test_the_instance_may_be_given_by_its_address(self):
        session = self.fresh()
        for address in (f"unix:{self.socket_of()}", self.instance()):
            with self.subTest(address):
                person = self.person("shell", "--connect", address, session.name)
                person.sees("watching")
                person.sees("only watch")
                person.type("\r~.")
                person.sees("which goes on")
                self.left(person)

    def test_B14_a_person_takes_over_types_a_secret_and_hands_back(self):
        session = self.fresh()
        command = "stty -echo; printf 'OTP: '; read -r otp; stty echo; echo; test $otp = 271828 && echo welcome"
        pending = session.start("run", command=command, returnOnInput=False)
        person = self.watcher(session, rows=24, cols=80)
        self.assertTrue(until(lambda: b"OTP: " in session.read_all()))
        person.type("~t")
        person.sees("hands it back")
        self.assertTrue(until(lambda: session.call("info")["writer"]))
        self.assertIn(" on /dev/pts/", session.call("info")["writer"])
        self.refused("NotWriter", session.call, "write", data="nonsense", submit=True)
        self.assertTrue(until(lambda: session.call("info")["cols"] == 80))
        person.type("271828\r")
        person.sees("welcome")
        result = pending.result()
        self.ended(result)
        self.assertIn("welcome", result["output"])
        self.assertNotIn(b"271828", session.read_all())
        person.sees("$ ")
        person.type("~w")
        person.sees("watching")
        self.assertTrue(until(lambda: session.call("info")["writer"] is None))
        self.assertEqual(session.call("info")["cols"], 200)
        self.usable(session)
        person.sees("usable")
        person.type("\r~.")
        self.left(person)

    def test_D13_at_the_prompt_of_an_agents_shell_a_persons_lines_are_run_as_its_commands_are(self):
        session = self.fresh()
        for i in range(20):
            session.run(f"echo agent {i}")
        session.run("cd /usr")
        person = self.watcher(session, "--takeover")
        person.sees("/usr$ ")
        shown = len(person.screen)
        person.type("\x1b[A")  # there is no history of an agent's to go back in
        person.type("x\x7fecho $PPID of xx\x7f\x7fme; cd /\r")
        person.sees(" of me\r\n")
        person.sees("/$ ")
        person.type("wrong\x03")
        person.sees("^C")
        person.sees("/$ ")
        person.type("read -r line; echo got $line; (exit 3)\r")
        person.sees("(exit 3)\r\n")
        self.assertTrue(until(lambda: session.call("info")["job"]))
        person.type("typed\r")
        person.sees("got typed")
        person.sees("/$ ")
        person.type("echo 'unfinished\r")
        person.sees("/$ ")
        self.refused("NotWriter", session.run, "true")
        person.type("~.")
        self.left(person)
        self.assertEqual(session.output("pwd"), "/\n")
        self.assertNotIn("agent", person.screen[shown:])

    def test_who_comes_sees_what_is_there(self):
        session = self.fresh()
        session.run(r"seq 100; printf '\033[1mbold\033[m'")
        person = self.watcher(session, rows=10)
        before = person.sees("bold")
        self.assertIn("100\r\n", before)
        self.assertNotIn("90\r\n", before)
        person.type("~.")
        self.left(person)

    def test_who_comes_to_a_program_that_paints_sees_it_painted(self):
        paint = "printf '\\033[?1049h\\033[2J\\033[3;5Hpainted\\033[5;1H\\033[?25l'; exec cat"
        session = self.fresh(None, argv=["sh", "-c", paint])
        self.assertTrue(until(lambda: "    painted" in session.call("screen")["lines"]))
        person = self.watcher(session)
        self.assertTrue(person.sees("painted").endswith("\x1b[?1049h\x1b[H\r\n\r\n    "), person.screen)
        person.sees("\x1b[?25l")
        person.type("~.")
        self.left(person)
        self.assertTrue({"\x1b[?1049l", "\x1b[?25h"} <= set(re.findall("\x1b\\[\\?\\d+[hl]", person.screen)))

    def test_of_two_people_one_types_and_is_told_when_the_other_takes_over(self):
        session = self.fresh()
        one, two = self.watcher(session, "--takeover"), self.watcher(session)
        one.sees("$ ")
        two.type("~t")
        two.sees("Enter ~ T takes it")
        two.type("\r~T")
        one.sees("has taken over; watching")
        two.sees("$ ")
        two.type("echo from two\r")
        one.sees("from two")
        one.type("\r~.")
        self.left(one)
        two.type("~.")
        self.left(two)
        self.usable(session)

    def test_a_program_that_reads_nothing_is_still_interrupted_by_its_key(self):
        session = self.fresh()
        pending = session.start("run", command="sleep 1000")
        person = self.watcher(session, "--takeover")
        until(lambda: session.call("info")["job"])
        person.type("x" * 3000)
        person.type("\x03")
        self.ended(pending.result(), 130)
        person.sees("$ ")
        person.type("\x15")
        person.type("\r~.")
        self.left(person)

    def test_the_end_of_the_session_or_of_its_instance_gives_the_terminal_back(self):
        for early in (False, True):
            session = self.fresh(None, argv=["sh", "-c", "read x; exit 6"])
            if early:
                session.call("write", data="go", submit=True)
                until(lambda session=session: session.call("info")["state"] == "exited")
            person = self.watcher(session)
            if not early:
                self.assertTrue(until(lambda session=session: "watching" in person.screen))
                session.call("write", data="go", submit=True)
            self.left(person, 6)
        rex = self.spawn(env=self.environment())
        self.socket_of(rex)
        doomed = rex.session("doomed")
        person = self.watcher(doomed)
        doomed.run("echo there")
        person.sees("there")
        rex.process.kill()
        person.sees("ended")  # the instance has, or its connection has before an answer that was under way
        self.left(person, 1)

    def test_a_hang_up_of_the_terminal_hands_back_and_leaves(self):
        session = self.fresh()
        person = self.watcher(session, "--takeover")
        self.assertTrue(until(lambda: session.call("info")["writer"]))
        os.close(os.dup(person.slave))
        person.process.send_signal(signal.SIGHUP)
        self.left(person, 128 + signal.SIGHUP)
        self.assertTrue(until(lambda: session.call("info")["writer"] is None))
        self.usable(session)

    def test_an_ambiguous_or_unknown_session_touches_no_terminal(self):
        person = self.person("shell", "nobody")
        person.sees("SessionNotFound")
        self.left(person, 1)


if __name__ == "__main__":
    unittest.main()
