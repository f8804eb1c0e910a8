"""rex_rpc.openhands: the cases of OpenHands' bash session, and what went wrong in theirs.

OpenHands is not on these machines; tests/standin has the public classes that are needed.
"""

import os
import pathlib
import sys
import unittest

from world import PROGRAM, folder_of

os.environ["REX_RPC"] = PROGRAM
sys.path.append(str(pathlib.Path(__file__).parent / "standin"))
import rex_rpc  # noqa: E402
from openhands.events.action import CmdRunAction  # noqa: E402
from openhands.runtime.utils import bash, bash_constants  # noqa: E402
from rex_rpc import openhands as ours  # noqa: E402

COMPLETED, SOFT, HARD = bash.BashCommandStatus.COMPLETED, bash.BashCommandStatus.NO_CHANGE_TIMEOUT, bash.BashCommandStatus.HARD_TIMEOUT
DONE = "\n[The command completed with exit code 0.]"
GOES_ON = "[Below is the output of the previous command.]\n"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = folder_of(self).resolve()
        self.gate = self.folder / "gate"
        self.shut = f"until [ -e {self.gate} ]; do sleep 0.01; done"
        self.session = self.start(no_change_timeout_seconds=1)

    def start(self, **options):
        session = ours.BashSession(self.folder, **options)
        session.initialize()
        self.addCleanup(session.close)
        return session

    def do(self, command, **options):
        return self.session.execute(CmdRunAction(command, **options))

    def watch(self, observation, text):
        """Goes on watching until there was this text, however slow the machine is; all that was told."""
        content = observation.content
        while text not in content:
            observation = self.do("", is_input=True)
            content += "\n" + observation.content
        return observation, content


class Commands(Case):
    def test_a_command_is_told_with_its_metadata(self):
        for command, content, code in (("echo 'hello   world'", "hello   world", 0), ("(exit 7)", "", 7), ("# word", "", 0),
                                       ("echo a\necho b", "a\nb", 0), ("cat << EOF\n\ttab\nEOF", "\ttab", 0),
                                       ("if true; then\necho inside\nfi", "inside", 0), ("echo a\\;b 'Hi!there'", "a;b Hi!there", 0),
                                       ("echo '###PS1JSON###'; echo '{\"exit_code\": 42}'; echo '###PS1END###'; (exit 5)",
                                        '###PS1JSON###\n{"exit_code": 42}\n###PS1END###', 5)):  # fmt: skip
            with self.subTest(command):
                seen = self.do(command)
                self.assertEqual((seen.content, seen.metadata.exit_code, seen.metadata.prefix), (content, code, ""))
                self.assertEqual(seen.metadata.suffix, f"\n[The command completed with exit code {code}.]")
                self.assertEqual(self.session.prev_status, COMPLETED)
        metadata = self.do("nonexistent_command").metadata
        self.assertEqual((metadata.exit_code, metadata.working_dir), (127, str(self.folder)))
        self.assertTrue(metadata.username and metadata.hostname)

    def test_the_directory_follows_the_shell(self):
        (self.folder / 'a "b"').mkdir()
        self.do("cd 'a \"b\"'")
        self.assertEqual(self.session.cwd, str(self.folder / 'a "b"'))
        os.mkdir(os.fsencode(self.folder) + b"/caf\xe9")
        self.assertEqual(self.do("cd ../caf*").metadata.working_dir, f"{self.folder}/caf\udce9")

    def test_nothing_to_go_on_with_is_told(self):
        for command, is_input, what in (("", False, "retrieve logs from"), ("", True, "retrieve logs from"), ("x", True, "interact with")):
            seen = self.do(command, is_input=is_input)
            self.assertEqual((seen.content, seen.metadata.exit_code), (f"ERROR: No previous running command to {what}.", -1))
        self.assertIsNone(self.session.prev_status)

    def test_output_is_whole_and_what_is_cut_is_counted(self):
        self.assertEqual(self.do("seq 50000").content, "\n".join(map(str, range(1, 50001))))
        seen = self.do("seq 1000000").content
        self.assertRegex(seen, r"(?s)^1\n2\n.*\n\[\d+ bytes left out\]\n.*\n1000000$")

    def test_a_syntax_error_and_a_shell_that_ends_are_results(self):
        self.assertIn("syntax error", self.do("if then").content)
        for command, code in (("exit 3", 3), ("set -e; false", 1)):
            self.assertEqual(self.do(command).metadata.exit_code, code)
            seen = self.do("echo on")
            self.assertEqual((seen.content, seen.metadata.exit_code), ("on", 0))
            self.assertIn("new one", seen.metadata.prefix)

    def test_a_name_a_limit_and_an_end(self):
        session = self.start(username="nobody", max_memory_mb=300)
        self.assertIn("openhands-nobody", session.session.name)
        seen = session.execute(CmdRunAction("python3 -c 'b = bytearray(10**9)'"))
        self.assertNotEqual(seen.metadata.exit_code, 0)
        session.close()
        session.close()
        with self.assertRaises(RuntimeError):
            ours.BashSession(self.folder).execute(CmdRunAction("true"))

    def test_one_client_serves_many_and_they_may_be_elsewhere(self):
        with rex_rpc.Rex() as rex:
            rex.host_connect("there", argv=[PROGRAM])
            for host in ("", "there"):
                session = self.start(rex=rex, host=host)
                self.assertEqual(session.execute(CmdRunAction("echo hello")).content, "hello")
                session.close()
            rex.ping()

    def test_installed_it_is_what_openhands_finds(self):
        ours.install()
        self.assertIs(bash.BashSession, ours.BashSession)


class Running(Case):
    def test_silence_returns_and_the_rest_comes_bit_by_bit(self):
        seen = self.do(f"echo one; {self.shut}; echo two")
        self.assertEqual((seen.metadata.exit_code, seen.metadata.prefix, self.session.prev_status), (-1, "", SOFT))
        self.assertEqual(seen.metadata.suffix, f"\n[The command has no new output after 1 seconds. {bash_constants.TIMEOUT_MESSAGE_TEMPLATE}]")
        seen, _ = self.watch(seen, "one")
        refused = self.do("echo not this")
        self.assertEqual((refused.content, refused.metadata.prefix, self.session.prev_status), ("", GOES_ON, SOFT))
        self.assertIn("NOT executed. The previous command is still running", refused.metadata.suffix)
        self.gate.touch()
        seen, content = self.watch(refused, "two")
        while self.session.prev_status != COMPLETED:
            seen = self.do("")
        self.assertEqual((content.strip(), seen.metadata.suffix), ("two", DONE))

    def test_what_ended_meanwhile_is_told_with_the_next_command(self):
        seen = self.do(f"{self.shut}; echo late; (exit 4)")
        self.assertEqual(self.session.prev_status, SOFT)
        self.gate.touch()
        self.session.session.wait([{"exit": True}])
        seen = self.do("echo next")
        self.assertEqual((seen.content, seen.metadata.exit_code), ("next", 0))
        self.assertEqual(seen.metadata.prefix, f"{GOES_ON}late\n[It completed with exit code 4.]\n")

    def test_a_question_is_told_at_once_and_answered(self):
        script = "name = input('Name? '); age = input('Age? '); print(f'Hello {name}, {age}')"
        self.session = self.start(no_change_timeout_seconds=60)
        seen = self.do(f'python3 -c "{script}"')
        self.assertEqual((seen.content, seen.metadata.exit_code, self.session.prev_status), ("Name? ", -1, SOFT))
        self.assertIn("waits for input", seen.metadata.suffix)
        seen = self.do("Alice", is_input=True)
        self.assertEqual((seen.content, seen.metadata.prefix), ("Age? ", GOES_ON))
        seen = self.do("25", is_input=True)
        self.assertEqual((seen.content, seen.metadata.suffix, seen.metadata.prefix), ("Hello Alice, 25", DONE, ""))

    def test_a_question_may_also_be_told_after_silence(self):
        self.session = self.start(no_change_timeout_seconds=1, return_on_input=False)
        seen = self.do("read -p 'Name? ' name && echo Hello $name")
        self.assertIn("has no new output after 1 seconds", seen.metadata.suffix)
        seen, content = self.watch(seen, "Name? ")
        seen, content = self.watch(self.do("John", is_input=True), "Hello John")

    def test_keys_are_pressed(self):
        self.session = self.start(no_change_timeout_seconds=60)
        # A bash whose child ends by itself at that very moment takes the interrupt for that child's; this one does not end.
        begun = self.do("while :; do echo looping; sleep 1000; done", timeout=0.2)
        while "looping" not in begun.content:  # an interrupt of what has not begun is no interrupt
            begun = self.do("", timeout=0.2)
        seen = self.do("C-c", is_input=True)
        self.assertEqual((seen.metadata.exit_code, self.session.prev_status, seen.metadata.prefix), (130, COMPLETED, ""))
        self.assertIn("CTRL+C was sent", seen.metadata.suffix)
        self.do("cat")
        seen = self.do("C-d", is_input=True)
        while self.session.prev_status != COMPLETED:
            seen = self.do("")
        self.assertEqual(seen.metadata.exit_code, 0)

    def test_a_hard_time_is_told_and_kills_nothing(self):
        for blocking in (False, True):
            seen = self.do(f"{self.shut}; echo over", timeout=0.2, blocking=blocking)
            self.assertEqual((seen.metadata.exit_code, self.session.prev_status), (-1, HARD))
            self.assertIn("timed out after 0.2 seconds", seen.metadata.suffix)
            self.gate.touch()
            seen = self.do("", blocking=True)
            self.assertEqual((seen.content, seen.metadata.suffix), ("over", DONE))
            self.gate.unlink()


if __name__ == "__main__":
    unittest.main()
