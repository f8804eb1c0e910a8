"""The kit of tests/conformance: our server follows every exchange, and one that does not is found out."""

import json
import pathlib
import subprocess
import sys
import unittest

from rig import binary

KIT = pathlib.Path(__file__).resolve().parents[1] / "conformance"


def run(*arguments):
    return subprocess.run([sys.executable, KIT / "run.py", *arguments], stdout=subprocess.PIPE, text=True, check=False)


class Conformance(unittest.TestCase):
    def test_our_server_follows_every_exchange_in_both_framings(self):
        done = run(binary(), "--private")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_server_that_answers_something_else_or_nothing_is_found_out(self):
        for server in (["cat"], ["true"]):
            with self.subTest(server=server):
                done = run("--only", "method-not-found", *server)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("not followed: method-not-found (lines): step ", done.stdout)
                self.assertIn("0 of 2 exchanges followed", done.stdout)

    def test_every_exchange_says_what_it_promises(self):
        for path in sorted((KIT / "exchanges").glob("*.json")):
            with self.subTest(path=path.name):
                exchange = json.loads(path.read_text(encoding="utf-8"))
                self.assertLessEqual(set(exchange), {"promise", "steps", "framings", "exitCode", "ignore"})
                self.assertRegex(exchange["promise"], r"\A\w.*\.\Z")


if __name__ == "__main__":
    unittest.main()
