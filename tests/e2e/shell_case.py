"""What tests of shell sessions share: one rex-rpc a class, a fresh session and folder a test, results compared whole.

Must not know what any one test is about. Nothing here sleeps: a call waits in the server or on a FIFO.
"""

import base64
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from rex import Rex, RpcError  # noqa: E402

PYTHON = os.path.realpath(sys.executable)
# What a shell says of a job that a command itself waits for with `wait`: its own output, or nothing.
NOTICE = r"(\[\d+\].*\n)?"
PATIENCE_MS = 30_000  # for what must end; nothing that works comes near it


def clean_environment(home, **more):
    """Ours without what would change how programs behave: rc files, pagers, editors, a history."""
    passed = ("PATH", "LANG", "LC_ALL", "ASAN_OPTIONS", "UBSAN_OPTIONS")
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    return {"LANG": "C.UTF-8", **kept, "HOME": home, "TMPDIR": "/tmp", **more}


def is_alive(pid):
    """A zombie is dead: who reaps it, and when, is up to its new parent."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone before the look, or during it
        return False


class Gate:
    """A FIFO that a command opens with `read x <gate`: it goes on when the test says so, and not before.

    Good for one reader: a second could find the writer not yet gone, and read the end of file.
    """

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)

    def release(self):
        """Blocks until the command is at the gate; fails when it never comes."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while True:
            try:
                fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"nobody came to {self.path}") from None
                time.sleep(0.002)  # the only wait that the kernel does not offer to do for us
        os.write(fd, b"go\n")
        os.close(fd)


class ShellCase(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp(prefix="rex-home-")
        cls.rex = Rex(env=clean_environment(cls.home), cwd=cls.home)
        cls.names = 0

    @classmethod
    def tearDownClass(cls):
        cls.rex.close()
        shutil.rmtree(cls.home, ignore_errors=True)

    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="rex-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def shell(self, shell="bash", **options):
        """A new session in this test's own folder."""
        type(self).names += 1
        session = self.rex.session(f"t{self.names}", shell=shell, cwd=self.dir, **options)
        self.addCleanup(self._close, session)
        return session

    def _close(self, session):
        try:
            session.call("close", graceMs=100)
        except RpcError as error:
            self.assertIn(error.type, ("SessionNotFound", "SessionEnded"))

    def path(self, name, content=None):
        """A path in the test's folder, with this content if any is given."""
        path = os.path.join(self.dir, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def gate(self, name="gate"):
        return Gate(self.path(name))

    def run_in(self, session, command, **params):
        return session.run(command, **{"waitMs": PATIENCE_MS, **params})

    def ends(self, session):
        """The result of the job that runs, once it has ended."""
        waited = session.call("wait", any=[{"exit": True}], waitMs=PATIENCE_MS)
        self.assertEqual(waited["met"], 0, f"the job did not end: {waited}")
        return waited["result"]

    def check(self, result, output, exit_code=0, state="exited", **wanted):
        """Compares output (a string, or a pattern for all of it), exit code, state and whatever else is named."""
        wanted = {"state": state, "exitCode": exit_code, "output": output, **wanted}
        got = {name: result[name] for name in wanted}
        if result["encoding"] == "base64":
            got["output"] = raw_bytes(result).decode(errors="surrogateescape")
        if isinstance(output, re.Pattern) and output.fullmatch(got["output"]):
            got["output"] = output
        self.assertEqual(got, wanted)
        return result

    def gives(self, session, command, output, exit_code=0, state="exited", params=None, **wanted):
        return self.check(self.run_in(session, command, **(params or {})), output, exit_code, state, **wanted)

    def is_fine(self, session):
        """The session takes a command and says exactly what it did."""
        self.gives(session, "echo fine; (exit 7)", "fine\n", 7, completion="exact")

    def refused(self, wanted_type, call, *args, **params):
        with self.assertRaises(RpcError) as caught:
            call(*args, **params)
        self.assertEqual(caught.exception.type, wanted_type, str(caught.exception))
        self.assertEqual(caught.exception.data["executed"], "no")
        return caught.exception

    def is_busy(self, session, job):
        """A second command is refused, runs nowhere and is typed nowhere."""
        stolen = self.path("stolen")
        error = self.refused("SessionBusy", session.run, f"touch {stolen}", waitMs=PATIENCE_MS)
        self.assertEqual(error.data["job"], job)
        self.assertFalse(os.path.exists(stolen))

    def starts(self, session, command, said, **params):
        """Runs `command` until it has said `said`, and leaves it running."""
        return self.check(self.run_in(session, command, expect=[re.escape(said)], **params), "", None, "matched")

    def died(self, pid):
        """Waits until there is no such process, or only a zombie of it."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while is_alive(pid):
            self.assertLess(time.monotonic(), deadline, f"{pid} does not end")
            time.sleep(0.002)  # not our child: the kernel tells us nothing

    def settles(self, session, command, **params):
        """Runs `command` until it reads the terminal: the call returns and says that the job goes on."""
        result = self.run_in(session, command, **params)
        self.assertEqual((result["state"], result["exitCode"]), ("waitingInput", None), result["output"])
        return result

    def asks(self, session, command, question, **params):
        """Runs `command` until it reads the terminal; the output of the call then ends with its question."""
        result = self.settles(session, command, **params)
        self.assertTrue(result["output"].endswith(question), result["output"])
        return result

    def says(self, session, text, since):
        """Waits until the journal has `text` at or behind the offset `since`."""
        waited = session.call("wait", any=[{"match": re.escape(text)}], waitMs=PATIENCE_MS, **{"from": since})
        self.assertEqual(waited["met"], 0, f"never said: {text!r}")

    def types(self, session, data):
        session.call("write", data=data, submit=True)


def raw_bytes(result):
    """What a result's output says, as bytes."""
    if result["encoding"] == "base64":
        return base64.b64decode(result["output"])
    return result["output"].encode()
