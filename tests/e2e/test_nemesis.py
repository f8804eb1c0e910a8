"""A stream across hops while relays are killed, links cut and swallowed, and processes paused: whole to the byte.

What happens, and at which byte, comes from a seed that is printed; REX_SEED=… makes it happen again.
"""

import os
import random
import signal
import subprocess
import threading
import unittest

from rig import RpcError, amount, binary, family, kill_quietly, until
from test_heal import HealCase
from watching import Attached

KEEP_ALIVE = 200  # ms: three times as long without a word, and a link is lost
WINDOW = 256 * 1024


def numbered(lines):
    """1 and so on, a line each: of 1 GB too, which would be 10 as Python's numbers."""
    return subprocess.run(["seq", str(lines)], stdout=subprocess.PIPE, check=True).stdout


def signalled(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Nemesis(HealCase):
    HOSTS = ("a", "a/b", "a/b/c")

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("REX_SEED", random.randrange(1 << 32)))
        self.chance = random.Random(self.seed)
        print(f"REX_SEED={self.seed}", flush=True)
        self.timers = []
        self.rex = self.near()
        self.addCleanup(self.let_go)
        wire = self.script(f"cat | {binary()} | cat")  # two processes that can be cut or stopped without the relay's
        for host in self.HOSTS:
            self.hop(self.rex, host, argv=wire, options={"keepAliveMs": KEEP_ALIVE})

    def let_go(self):
        for timer in self.timers:
            timer.join()

    def some(self, name):
        """One of the wires or relays that there are now."""
        there = sorted(pid for pid, status in family(self.rex.pid).items() if status.get("Name") == name)
        return [self.chance.choice(there)] if there else []

    def for_a_while(self, pids, seconds):
        signalled(pids, signal.SIGSTOP)
        self.timers.append(threading.Timer(seconds, signalled, (pids, signal.SIGCONT)))
        self.timers[-1].start()

    def strike(self):
        """One fault; its name."""
        fault = self.chance.choice(("kill", "kill", "cut", "swallow", "pause"))
        if fault == "kill":
            signalled(self.some("rex-rpc"), signal.SIGKILL)
        elif fault == "cut":
            signalled(self.some("cat"), signal.SIGKILL)
        elif fault == "swallow":  # until long after the link is given up
            self.for_a_while(self.some("cat"), 6 * KEEP_ALIVE / 1000)
        else:
            self.for_a_while(self.some("rex-rpc"), self.chance.uniform(0.02, 2 * KEEP_ALIVE / 1000))
        return fault

    def test_F5_M04_a_stream_is_whole_whatever_happens_on_the_way(self):
        lines, faults = amount(2_600_000, 110_000_000), amount(60, 1000)
        whole = numbered(lines)
        host = self.HOSTS[-1]
        session = self.kept(self.rex, host, journalBytes=1 << 20, onFull="block")
        one = Attached(self.feed(self.rex), session, host=host, offset=0, window=WINDOW)
        job = self.ran(self.rex, host, session, f"seq {lines}; (exit 23)", waitMs=0)["job"]
        begun = one.next
        struck = []
        for place in sorted(self.chance.sample(range(len(whole)), faults)):
            one.until(lambda place=place: one.next - begun >= place)
            struck.append(self.strike())
        one.until(lambda: one.next - begun >= len(whole))
        at = next((i for i, (a, b) in enumerate(zip(one.data, whole)) if a != b), None) if one.data != whole else None
        self.assertTrue(one.data == whole, f"REX_SEED={self.seed}: another byte at {at}, after {struck}")
        self.assertEqual(one.gaps, [])
        self.assertEqual(self.end_of(host, session, job)["exitCode"], 23, f"REX_SEED={self.seed}")

    def end_of(self, host, session, job):
        """A job's result, asked for until the way there holds for long enough."""
        def answer():
            try:
                return self.rex.call("session/wait", host=host, session=session, job=job, any=[{"exit": True}])["result"]
            except RpcError as error:
                if error.type not in ("HostLost", "HostUnreachable"):
                    raise
                return None

        return until(answer)

    def tearDown(self):
        left = [pid for pid, status in family(self.rex.pid).items() if status.get("Name") == "cat"]
        self.let_go()
        self.rex.close()
        for pid in left:
            self.assertTrue(until(lambda pid=pid: not os.path.exists(f"/proc/{pid}")) or kill_quietly(pid))
        super().tearDown()


if __name__ == "__main__":
    unittest.main()
