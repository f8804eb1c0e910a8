"""Programs with prompts of their own, driven by `interactive: true` with no pattern, no time and no silence: the call
comes back when the program has read all that was typed and reads on (B1, B9, D17).
"""

import unittest

from rig import RexCase, in_shells, needs, until
from ssh_server import SshServer
import waiting_world as world

PATIENCE_MS = 60_000
IPYTHON = "ipython3 --no-banner --no-confirm-exit --simple-prompt --quick"
PROGRAM = "import sys\ntotal = 6\ntotal *= 7\nprint(total)\n"

# (program, its command, [(typed, the whole output)], how it is left, exit code)
TOUR = [
    ("python3", "python3 -q", [
        ("print(6 * 7)", "42\n>>> "), ("x = 1", ">>> "), ("import time; time.sleep(1.2); print('late')", "late\n>>> "),
        ("def f(a):\n    return a + 1\n", "def f(a):\n...     return a + 1\n... \n>>> "), ("f(41)", "42\n>>> "),
        ("input('name? ')", "name? "), ("Ada", "'Ada'\n>>> ")], "raise SystemExit(3)", 3),
    ("ipython3", IPYTHON, [
        ("6 * 7", "Out[1]: 42\n\nIn [2]: "), ("import time; time.sleep(0.5); print('late')", "late\n\nIn [3]: ")],
     "exit", 0),
    ("node", "node", [("6 * 7", "42\n> "), ("const x = [1, 2].map(n => n * 2); x", "[ 2, 4 ]\n> ")],
     "process.exit(4)", 4),
    ("gdb", "gdb -q -nx {real}", [
        ("print 6 * 7", "$1 = 42\n(gdb) "), ("info line 99999", None), ("starti", None), ("print $pc != 0", "$2 = 1\n(gdb) "),
        ("kill", "Kill the program being debugged? (y or n) "), ("y", None)], "quit", 0),
    ("python3", "python3 -m pdb {folder}/p.py", [("next", None), ("next", None), ("p total", "6\n(Pdb) ")], "quit", 0),
    ("sqlite3", "sqlite3 -batch -interactive", [
        ("create table t (a); insert into t values (40), (2);", "sqlite> "), ("select sum(a) from t;", "42\nsqlite> ")],
     ".quit", 0),
    ("bc", "bc -q", [("6 * 7", "42\n"), ("2 ^ 64", "18446744073709551616\n")], "quit", 0),
    ("bash", "bash --norc --noprofile", [("PS1='in> '", "in> "), ("sleep 0.3; echo $((6 * 7))", "42\nin> "),
                                         ("read -p '? ' x", "? "), ("a", "in> "), ("echo $x", "a\nin> ")], "exit 5", 5),
]


class Tour(RexCase):
    def drive(self, session, command, steps, leave, code):
        first = session.run(command, waitMs=PATIENCE_MS)
        self.assertEqual((first["state"], first["waiting"]["how"]), ("waitingInput", "reading"), first)
        for typed, output in steps:
            result = session.run(typed, interactive=True, waitMs=PATIENCE_MS)
            self.assertEqual((result["state"], result["job"]), ("waitingInput", first["job"]), result)
            if output is not None:
                self.assertEqual(result["output"], output, result)
                self.assertEqual(result["waiting"]["text"], (output.rstrip("\n").split("\n"))[-1], result)
        last = session.run(leave, interactive=True, waitMs=PATIENCE_MS)
        self.assertEqual((last["state"], last["exitCode"], last["job"]), ("exited", code, first["job"]), last)

    def test_B1_B9_D17_every_prompt_is_driven_with_no_pattern_and_no_silence(self):
        (self.folder / "p.py").write_text(PROGRAM)
        for program, command, *rest in TOUR:
            with self.subTest(command):
                if world.program(program) is None:
                    self.skipTest(f"cannot run here: no {program}")
                session = self.fresh(env={"PATH": world.PATH, "HOME": str(self.folder)})
                self.drive(session, command.format(folder=self.folder, real="/bin/true"), *rest)
                self.usable(session)

    @needs("psql")
    def test_D17_psql_and_its_password(self):
        server = world.Server(world.database)
        self.addCleanup(server.close)
        session = self.fresh()
        first = session.run(f"psql -X 'host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable'",
                            waitMs=PATIENCE_MS)
        self.assertEqual(first["state"], "waitingInput", first)
        said = session.run("\\echo hello", interactive=True, waitMs=PATIENCE_MS)
        self.assertEqual((said["state"], said["output"]), ("waitingInput", "hello\nd=> "), said)
        asleep = session.run("select pg_sleep(60);", interactive=True, waitMs=500)
        self.assertEqual((asleep["state"], asleep["waiting"]), ("running", None), asleep)

    @needs("ssh", "sshd")
    def test_D17_a_shell_behind_ssh_is_driven_by_its_silence(self):
        server = SshServer(self.folder)
        self.addCleanup(server.close)
        session = self.fresh(env={"HOME": str(self.folder)})
        ask = session.run(server.command(self.folder / "key", self.folder / "known") + " -tt 'PS1=far: exec sh -i'",
                          waitMs=PATIENCE_MS)
        self.assertEqual((ask["state"], ask["waiting"]["kind"]), ("waitingInput", "line"), ask)
        self.assertIn("yes/no", ask["waiting"]["text"])
        far = session.run("yes", interactive=True)
        self.assertEqual((far["state"], far["waiting"]["how"]), ("running", "listening"), far)
        self.assertTrue(far["output"].endswith("far:"), far)
        said = session.run("echo $((6 * 7))", interactive=True)
        self.assertIn("42\n", said["output"])
        self.assertEqual(session.run("exit 6", interactive=True)["exitCode"], 6)

    @needs("ssh", "sshd")
    def test_B7_B8_a_thief_of_input_gets_none_of_the_commands_text(self):
        server = SshServer(self.folder)
        self.addCleanup(server.close)
        far = server.command(self.folder / "key", self.folder / "known") + " -o StrictHostKeyChecking=accept-new"
        session = self.fresh(cwd=str(self.folder))
        stolen = session.run(f"printf '1\\n2\\n3\\n' >list; while read l; do echo $l; {far} -q cat; done <list\necho after",
                             waitMs=PATIENCE_MS)
        self.ended(stolen, output="1\n2\n3\nafter\n")
        asked = session.run("rm -i list\necho after", waitMs=PATIENCE_MS)
        self.assertEqual(asked["state"], "waitingInput", asked)
        self.ended(session.run("n", interactive=True, waitMs=PATIENCE_MS), output="after\n")

    @in_shells()
    def test_B9_a_question_is_answered_and_the_command_goes_on(self, session):
        (self.folder / "f").write_text("")
        asked = session.run(f"rm -i {self.folder}/f; echo over", waitMs=PATIENCE_MS)
        self.assertEqual(asked["state"], "waitingInput", asked)
        self.assertIn("remove regular empty file", asked["waiting"]["text"])
        self.ended(session.run("y", interactive=True, waitMs=PATIENCE_MS), output="over\n")
        self.assertFalse((self.folder / "f").exists())

    @in_shells()
    def test_B1_input_is_a_condition_to_wait_for(self, session):
        session.run("sleep 0.2; read x; echo got $x; read y", waitMs=0)
        met = session.call("wait", any=[{"match": "never"}, {"input": True}], waitMs=PATIENCE_MS)
        self.assertEqual((met["met"], met["condition"]), (1, {"input": True}), met)
        self.assertEqual(met["result"]["state"], "waitingInput")
        session.call("write", data="it", submit=True)
        met = session.call("wait", any=[{"match": "got it\n"}], waitMs=PATIENCE_MS)
        self.assertEqual(met["met"], 0)
        self.assertEqual(session.call("wait", any=[{"input": True}], waitMs=PATIENCE_MS)["met"], 0)
        self.ended(session.run("", interactive=True, waitMs=PATIENCE_MS))

    @in_shells()
    def test_B1_who_does_not_want_to_return_on_input_does_not(self, session):
        result = session.run("read x", returnOnInput=False, waitMs=300)
        self.assertEqual((result["state"], result["waiting"]["how"]), ("running", "reading"), result)
        self.ended(session.run("a", interactive=True, waitMs=PATIENCE_MS))

    @in_shells()
    def test_what_is_typed_before_it_is_read_is_waited_for(self, session):
        """Nobody is told to read on while what was typed has not been read."""
        session.run("sleep 0.4; read x; echo $x; read y", waitMs=0)
        result = session.run("early", interactive=True, waitMs=PATIENCE_MS)
        self.assertEqual((result["state"], result["output"]), ("waitingInput", "early\n"), result)


class Stopped(RexCase):
    @in_shells()
    def test_B16_B17_who_waits_for_what_the_terminal_has_stopped_is_stopped(self, session):
        """A child in a group of its own may not read the terminal, nor change it; its parent would wait for ever."""
        for child in (["cat"], ["stty", "sane"]):
            with self.subTest(child):
                program = f"import os, subprocess; subprocess.run({child}, preexec_fn=os.setpgrp)"
                result = session.run(f'python3 -c "{program}"', waitMs=PATIENCE_MS)
                self.assertEqual((result["state"], result["exitCode"]), ("stopped", None), result)
                self.assertEqual(session.call("info")["state"], "stopped")
                self.assertEqual(session.call("interrupt")["state"], "ready")
                self.usable(session)

    @in_shells("bash")
    def test_B16_what_a_shell_itself_tells_of_a_background_reader(self, session):
        result = self.ended(session.run("cat & wait", waitMs=PATIENCE_MS))
        self.assertIn("Stopped", result["output"])
        self.assertEqual([process["command"] for process in result["survivors"]], ["cat"])

    @in_shells()
    def test_B16_a_background_reader_that_goes_on_is_no_stop(self, session):
        session.run("cat & sleep 60", waitMs=0)
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        result = session.call("wait", any=[{"input": True}], waitMs=400)["result"]
        self.assertEqual((result["state"], result["waiting"]), ("running", None))
        session.call("interrupt")


if __name__ == "__main__":
    unittest.main()
