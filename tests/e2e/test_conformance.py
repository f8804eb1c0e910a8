"""The kit of tests/conformance: our server and the smallest client follow it, and those that do not are found out.

The clients of clients/ are held to it by their own tests.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from rig import binary

KIT = pathlib.Path(__file__).resolve().parents[1] / "conformance"
SCHEMA = KIT.parents[1] / "schema/rex-rpc.json"


def run(script, *arguments, **environment):
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    argv = [sys.executable, KIT / script, *arguments]
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True, check=False)


class Servers(unittest.TestCase):
    def test_our_server_follows_every_exchange_in_both_framings(self):
        done = run("run.py", binary(), "--private")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_server_that_answers_something_else_or_nothing_is_found_out(self):
        for server in (["cat"], ["true"]):
            with self.subTest(server=server):
                done = run("run.py", "--only", "method-not-found", *server)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("not followed: method-not-found (lines): step ", done.stdout)
                self.assertIn("0 of 2 exchanges followed", done.stdout)


class Clients(unittest.TestCase):
    def test_the_smallest_client_follows_in_both_framings(self):
        for framing, pieces in (("lines", []), ("headers", ["--pieces", "odd"])):
            with self.subTest(framing):
                done = run("client.py", *pieces, sys.executable, KIT / "plain_driver.py", framing)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("not asked: progress: the driver cannot progress\n", done.stdout)

    def test_a_client_that_does_otherwise_is_found_out(self):
        plain = (KIT / "plain_driver.py").read_text(encoding="utf-8")
        broken = (
            ("answers are taken in turn", 'pop(message["id"], None)', "pop(min(self._waiting), None)", "out-of-order"),
            ("a lost call hears nothing", "            answered(None)", "            pass", "dies-behind-an-answer"),
            ("a lost call was not executed", '{"lost": "unknown"}', '{"lost": "no"}', "end-of-output"),
            ("a question has no answer", '            if "id" in message:', "            if False:", "questions"),
            ("an id is not given back", '{"id": message["id"], "error"', '{"id": 1, "error"', "questions"),
            ("text is made ASCII", "**message}).encode()", r'**message}).replace("\\u", "").encode()', "results"),
            ("an error is a result", 'if "error" not in message:', "if True:", "errors"),
            ("what is no message is passed over", "self._take(json.loads(body))",
             "self._take(json.loads(body) if body.endswith((b'}', b'}\\n')) else {'method': ''})", "nonsense-in-a-body"),
            ("version 2", '"1.0"', '"2.0"', "initialize"),
        )  # fmt: skip
        for what, old, new, exchange in broken:
            with self.subTest(what), tempfile.NamedTemporaryFile("w", suffix=".py") as driver:
                self.assertIn(old, plain)
                driver.write(plain.replace(old, new))
                driver.flush()
                done = run("client.py", "--only", exchange, "--pieces", "whole", sys.executable, driver.name, "lines",
                           PYTHONPATH=str(KIT), REX_TEST_DEADLINE="3")  # fmt: skip
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f"not followed: {exchange} (whole): step ", done.stdout)

    def test_a_driver_that_is_none_is_found_out(self):
        for driver, said in ((["true"], "has ended before its first line"), (["echo", "hello"], "printed what is no JSON")):
            with self.subTest(driver):
                done = run("client.py", "--only", "results", "--pieces", "whole", *driver)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(said, done.stdout)

    def test_every_error_of_the_schema_is_there(self):
        errors = json.loads(SCHEMA.read_text(encoding="utf-8"))["components"]["errors"]
        steps = json.loads((KIT / "client_exchanges/errors.json").read_text(encoding="utf-8"))["steps"]
        told = {step["told"]["error"]["type"]: step["told"]["error"]["code"] for step in steps if "told" in step}
        self.assertEqual(told, {name: error["code"] for name, error in errors.items()})


class Exchanges(unittest.TestCase):
    def test_every_exchange_says_what_it_promises(self):
        forms = (("exchanges", {"framings", "exitCode", "ignore"}), ("client_exchanges", {"framings", "pieces", "needs", "greets"}))
        for folder, options in forms:
            for path in sorted((KIT / folder).glob("*.json")):
                with self.subTest(path=path.name):
                    exchange = json.loads(path.read_text(encoding="utf-8"))
                    self.assertLessEqual(set(exchange), {"promise", "steps"} | options)
                    self.assertRegex(exchange["promise"], r"\A\w.*\.\Z")


if __name__ == "__main__":
    unittest.main()
