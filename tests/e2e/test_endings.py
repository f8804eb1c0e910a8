"""How an instance ends: hang-ups, crashes, and one that is stuck. Group C of the faults, as far as no other file has it.

Each test has instances and a runtime directory of its own.
"""

import os
import pathlib
import signal
import time
import unittest

from rig import RpcError, amount, binary
from test_daemon import DaemonCase
from watching import Person


class Told(DaemonCase):
    def test_C14_a_hang_up_of_the_terminal_ends_what_serves_there_and_no_daemon_session(self):
        made = """'{"session": "main", "shell": "dash", "lifetime": "daemon"}'"""
        place = self.folder / "sock"
        person = Person("sh", "-c", f"{binary()} call session/create {made} >/dev/null; exec {binary()} serve --listen unix:{place}",
                        env=self.environment)
        self.addCleanup(person.process.wait)
        self.addCleanup(person.process.kill)
        person.sees("listening at")
        [keeper] = self.keepers()
        os.close(person.master)
        self.addCleanup(os.close, person.slave)
        self.assertEqual(person.process.wait(timeout=20), 0)
        self.assertFalse(place.exists())
        self.assertEqual(self.keepers(), [keeper])
        self.assertEqual(self.instance().call("session/run", session="main", command="echo here")["output"], "here\n")


class Broken(DaemonCase):
    def test_C09_a_crash_costs_no_daemon_session_and_leaves_no_memory_in_a_core(self):
        rex = self.instance(hops=0)
        session = rex.session("main", shell="dash", lifetime="daemon")
        [keeper] = self.keepers()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        job = session.run(f"read x <{gate}; echo $x", waitMs=0)["job"]
        for pid in (rex.pid, keeper):
            self.assertEqual(int(pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0)
        rex.process.send_signal(signal.SIGSEGV)
        self.assertEqual(rex.process.wait(timeout=20), -signal.SIGSEGV)
        rex = self.instance()
        self.pass_gate(gate)
        waited = rex.call("session/wait", session="main", job=job, any=[{"exit": True}])
        self.ended(waited["result"], output="go\n")

    def test_C13_one_that_is_stuck_holds_up_no_session_and_answers_when_it_goes_on(self):
        stuck = self.instance(hops=0)
        stuck.session("main", shell="dash", lifetime="daemon").run("kept=yes")
        os.kill(stuck.pid, signal.SIGSTOP)
        asked = [stuck.start("session/run", session="main", command=f"echo {number}", key={"client": "c", "seq": number})
                 for number in range(1, 4)]
        begun = time.monotonic()
        other = self.instance()
        turns = 0
        while turns == 0 or time.monotonic() - begun < amount(1, 10):
            self.ended(other.call("session/run", session="main", command="echo $kept"), output="yes\n")
            turns += 1
        os.kill(stuck.pid, signal.SIGCONT)
        answers = []
        for number, each in enumerate(asked, 1):  # all at once they come; one runs, the others are told so
            try:
                answers.append(each.result()["output"])
            except RpcError as error:
                self.assertEqual((error.type, error.data["executed"]), ("SessionBusy", "no"))
                again = stuck.call("session/run", session="main", command=f"echo {number}", key={"client": "c", "seq": number})
                answers.append(again["output"])
        self.assertEqual(answers, ["1\n", "2\n", "3\n"])


if __name__ == "__main__":
    unittest.main()
