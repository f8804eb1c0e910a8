"""What the end-to-end tests share: one rex-rpc a class, sessions of a test's own, and probes of /proc.

Must not know any scenario. A probe waits on a fact with a deadline; nothing here sleeps to let something happen.
"""

import atexit
import base64
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.setdefault("REX_TEST_DEADLINE", "60")
# Shells that a test types to keep a history as for a person: not in the home of whoever runs the tests.
os.environ["HOME"] = tempfile.mkdtemp(prefix="rex-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from rex import Rex, RpcError, binary  # noqa: E402, F401

LONG = os.environ.get("REX_LONG") == "1"
SHELLS = ("bash", "dash", "zsh")  # those that the texts of most tests are for; test_shells.py has fish's own
long_only = unittest.skipUnless(LONG, "long: set REX_LONG=1")


def amount(push, long):
    """How much of something to do: little on every push, the row's own number in a long run."""
    return long if LONG else push


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return unittest.skipIf(missing, f"cannot run here: no {', '.join(missing)}")


def in_shells(*shells, **options):
    """Runs the test once a shell, each time with a session of its own as its argument."""

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for shell in shells or SHELLS:
                with self.subTest(shell=shell):
                    self.folder = self.own_folder / shell.replace("/", "_")
                    self.folder.mkdir()
                    test(self, self.fresh(shell, **options))

        return run

    return decorate


def until(fact, seconds=30.0):
    """Waits until fact() is true; returns what it was at last."""
    end = time.monotonic() + seconds
    while True:
        value = fact()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.005)


def processes_of(runtime):
    """The ids of those that were given this $XDG_RUNTIME_DIR."""
    mark = f"XDG_RUNTIME_DIR={runtime}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                mine = mark in environ.read().split(b"\0")
        except OSError:
            continue
        if mine:
            yield int(name)


def status_of(pid):
    """The fields of /proc/PID/status; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return {}


def alive(pid):
    return status_of(pid).get("State", "Z")[0] not in "ZX"


def kill_quietly(pid, number=signal.SIGKILL):
    """What a test may have left running on purpose, or not."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def family(root):
    """Every process below `root`, zombies too, as {pid: status}."""
    every = {int(name): status_of(name) for name in os.listdir("/proc") if name.isdigit()}
    below, grown = {root}, True
    while grown:
        more = {pid for pid, status in every.items() if int(status.get("PPid", 0)) in below} - below
        below |= more
        grown = bool(more)
    return {pid: every[pid] for pid in below - {root}}


def zombies(root):
    return [pid for pid, status in family(root).items() if status.get("State", "").startswith("Z")]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory(pid, field="VmHWM"):
    """In bytes; VmHWM is the most it ever was, VmRSS what it is."""
    return int(status_of(pid)[field].split()[0]) * 1024


def is_sanitized():
    program = pathlib.Path(binary()).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


class RexCase(unittest.TestCase):
    """One rex-rpc for the tests of a class. A test that breaks it does not spoil the next: it gets a new one."""

    maxDiff = 2000
    rex = None
    count = 0

    @classmethod
    def start_rex(cls):
        cls.rex = Rex()

    @classmethod
    def setUpClass(cls):
        cls.start_rex()

    @classmethod
    def tearDownClass(cls):
        cls.rex.close()

    def setUp(self):
        if self.rex.process.poll() is not None:
            type(self).start_rex()
        self.folder = self.own_folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-test-"))
        self.addCleanup(shutil.rmtree, self.own_folder, ignore_errors=True)

    def fresh(self, shell="bash", rex=None, **options):
        """A session of this test's own; it ends with the test."""
        RexCase.count += 1
        session = (rex or self.rex).session(f"s{RexCase.count}", **{"shell": shell, **options})
        self.addCleanup(self.close_quietly, session)
        return session

    @staticmethod
    def close_quietly(session):
        try:
            session.start("close", graceMs=100).result(timeout=10)
        except (RpcError, OSError):  # the test has closed it, or ended its rex-rpc
            pass

    def spawn(self, **options):
        rex = Rex(**options)
        self.addCleanup(rex.close)
        return rex

    def result(self, result, **members):
        """Checks the members of a result, and shows all of it when one is wrong."""
        got = {name: result[name] for name in members}
        if "output" in members and result["encoding"] == "base64":  # what is mostly no text travels so
            got["output"] = base64.b64decode(result["output"]).decode(errors="surrogateescape")
        self.assertEqual(got, members, f"in {result}")
        return result

    def ended(self, result, code=0, **members):
        return self.result(result, state="exited", exitCode=code, signal=None, completion="exact", **members)

    def refused(self, kind, call, *args, **params):
        with self.assertRaises(RpcError) as caught:
            call(*args, **params)
        self.assertEqual(caught.exception.type, kind, caught.exception)
        return caught.exception

    def usable(self, session, deaths=False):
        """The session still runs commands, and nothing of before is in their output; but for what a shell itself says
        about a background job that died of a signal, where there was such a death."""
        if deaths:
            self.assertTrue(until(lambda: session.output("jobs") == ""), "jobs are left")
        self.ended(session.run("echo usable; (exit 21)"), 21, output="usable\n")
        self.assertEqual(session.call("info")["state"], "ready")


__all__ = [
    "LONG", "SHELLS", "Rex", "RexCase", "RpcError", "alive", "amount", "binary", "descriptors", "family", "in_shells",
    "is_sanitized", "kill_quietly", "long_only", "memory", "needs", "signal", "status_of", "subprocess", "until",
    "zombies",
]
