"""README.md keeps its word: its code blocks run as they stand and print what they should, the tests it names exist.

Must not know what the program can do beyond what the README shows. Only the program's place is put in.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from rig import binary, needs

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLACE = "build/release/rex-rpc"


def block(language, having):
    """The one block of a language that has these words, with the place of the program under test in it."""
    blocks = [text for text in re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S) if having in text]
    assert len(blocks) == 1 and PLACE in blocks[0], f"{len(blocks)} blocks of {language} have {having!r}"
    return blocks[0].replace(PLACE, binary())


def output_of(argv):
    """What it prints, from a place of its own; standard error must stay empty."""
    with tempfile.TemporaryDirectory(prefix="rex-test-") as folder:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=folder, stdin=subprocess.DEVNULL,
                              check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


class Examples(unittest.TestCase):
    def test_one_message_a_line_from_a_shell(self):
        self.assertEqual(shlex.quote(binary()), binary(), "the program's place needs quotes")
        answers = output_of(["sh", "-c", block("sh", "printf")]).splitlines()
        self.assertEqual(len(answers), 2)
        self.assertIn('"id":1', answers[0].replace(" ", ""))
        self.assertIn('"output":"/tmp\\n"', answers[1].replace('": "', '":"'))

    def test_a_client_in_python(self):
        printed = output_of([sys.executable, "-c", block("python", "subprocess")])
        self.assertEqual(printed, "hello from /tmp\n shellExited 3\nrunning\ndone\n\n"
                                  "waitingInput Deploy? \nyou said no\n\n")

    @needs("node", "git")
    def test_a_client_in_javascript(self):
        printed = output_of(["node", "--input-type=module", "--eval", block("js", "createInterface")])
        self.assertRegex(printed, r"\A0 git version \S.*\n\n\Z")


class Promises(unittest.TestCase):
    def test_every_test_that_is_named_exists(self):
        rows = re.findall(r"^\| .* \| (.*`.*) \|$", README, re.M)
        named = [name for row in rows for name in re.findall(r"`(.+?)`", row)]
        self.assertGreater(len(named), 10)
        for name in named:
            with self.subTest(name=name):
                self.assertTrue(list(ROOT.glob(name if "/" in name else f"tests/e2e/{name}")), "no such file")

    def test_every_link_leads_to_a_file(self):
        for target in re.findall(r"\]\(([^):]+)\)", README):
            with self.subTest(target=target):
                self.assertTrue((ROOT / target).exists())


if __name__ == "__main__":
    unittest.main()
