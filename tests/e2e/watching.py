"""What the tests of watching share: clients on an instance's own socket, attachments taken apart, a person's terminal.

Must not know any scenario. Nothing here sleeps to let something happen.
"""

import base64
import collections
import contextlib
import fcntl
import itertools
import os
import pathlib
import pty
import queue
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types

from rig import Rex, RexCase, binary, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from rex import DEADLINE  # noqa: E402


class Peer(Rex):
    """A connection to a socket instead of a process of its own: the path of one, or a (host, port)."""

    def __init__(self, place, reads=True):  # pylint: disable=super-init-not-called
        if isinstance(place, tuple):
            self.socket = socket.create_connection(place)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(str(place))
        self.process = types.SimpleNamespace(
            stdin=self.socket.makefile("wb"), stdout=self.socket.makefile("rb"), poll=lambda: None, pid=None)
        self.notifications = queue.Queue()
        self.stderr = []
        self._ids = itertools.count(1)
        self._pending = {}
        self._lock = threading.Lock()
        self._threads = []
        if reads:
            self.read()

    def read(self):
        self._threads.append(threading.Thread(target=self._read_stdout, daemon=True))
        self._threads[-1].start()

    def _read_stdout(self):
        with contextlib.suppress(OSError, ValueError):  # closed here, or with something unread there
            super()._read_stdout()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=DEADLINE)
        for file in (self.process.stdin, self.process.stdout, self.socket):
            with contextlib.suppress(OSError):
                file.close()


class Feed:
    """The notifications of one connection, told apart by attachment."""

    def __init__(self, rex):
        self.rex = rex
        self.waiting = collections.defaultdict(collections.deque)

    def next(self, attachment, timeout=DEADLINE):
        while not self.waiting[attachment]:
            message = self.rex.notifications.get(timeout=timeout)
            self.waiting[message["params"].get("attachment")].append(message)
        return self.waiting[attachment].popleft()

    def idle(self, attachment):
        """True when everything that has come is taken; asks once, so that what was sent before the answer has come."""
        self.rex.call("ping")
        with contextlib.suppress(queue.Empty):
            while True:
                message = self.rex.notifications.get_nowait()
                self.waiting[message["params"].get("attachment")].append(message)
        return not self.waiting[attachment]


class Attached:
    """One attachment and what has come of it. Checks of every piece that it lies behind the one before."""

    def __init__(self, feed, session, pending=None, **params):
        """`pending`: has been asked for already."""
        self.feed = feed
        answer = pending.result() if pending else feed.rex.call("session/attach", session=session, **params)
        self.id, self.info = answer["attachment"], answer["info"]
        self.start = self.next = params.get("offset", self.info["next"])
        self.exact = params.get("newline", "terminal" if params.get("role") == "writer" else "raw") == "raw"
        self.data = bytearray()  # bytes would be copied whole for each piece
        self.gaps = []
        self.pieces = []
        self.events = []
        self.eof = False

    def take(self, timeout=DEADLINE):
        """The next notification; a piece of output is added to what there is."""
        message = self.feed.next(self.id, timeout)
        params = message["params"]
        if message["method"] == "session/event":
            self.events.append(params)
            return params
        data = params["data"].encode() if params["encoding"] == "utf-8" else base64.b64decode(params["data"])
        gap = params.get("gap")
        if gap:
            assert gap["from"] == self.next and gap["to"] > gap["from"], params
            self.gaps.append(gap)
            self.next = gap["to"]
        assert not self.eof and params["offset"] == self.next, params
        assert not self.exact or params["next"] == self.next + len(data), params
        self.next = params["next"]
        self.data += data
        self.pieces.append(data)
        self.eof = params.get("eof", False)
        return params

    def ack(self, offset=None):
        self.feed.rex.notify("session/ack", attachment=self.id, offset=self.next if offset is None else offset)

    def until(self, fact, acks=True):
        """Takes what comes until fact() holds."""
        while not fact():
            self.take()
            if acks:
                self.ack()
        return self

    def event(self, kind, **members):
        """The first event of this kind with these members, waited for."""
        def found():
            return [e for e in self.events if e["event"] == kind and all(e.get(m) == v for m, v in members.items())]

        return self.until(found) and found()[0]

    def detach(self):
        self.feed.rex.call("session/detach", attachment=self.id)


class WatchCase(RexCase):
    """Instances of these tests have a runtime directory of their own."""

    @classmethod
    def setUpClass(cls):
        cls.runtime = tempfile.mkdtemp(prefix="rex-run-")
        cls.addClassCleanup(shutil.rmtree, cls.runtime, ignore_errors=True)
        super().setUpClass()

    @classmethod
    def environment(cls, **more):
        return {**os.environ, "XDG_RUNTIME_DIR": cls.runtime, **more}

    @classmethod
    def start_rex(cls):
        cls.rex = Rex(env=cls.environment())
        if not until(lambda: list(cls.folder_of_sockets().glob(f"{cls.rex.pid}-*.sock"))):
            raise AssertionError(f"the instance has no socket; {cls.rex.diagnosis()}")

    @classmethod
    def folder_of_sockets(cls):
        return pathlib.Path(cls.runtime) / "rex-rpc"

    def socket_of(self, rex=None):
        """The path of an instance's own socket, once it is there."""
        name = (rex or self.rex).call("initialize")["machine"]["instance"] if rex else self.instance()
        path = self.folder_of_sockets() / f"{name}.sock"
        self.assertTrue(until(path.exists), f"no {path}")
        return path

    def instance(self):
        """The name of the class's instance."""
        path = until(lambda: next(self.folder_of_sockets().glob(f"{self.rex.pid}-*.sock"), None))
        self.assertTrue(path, "the instance has no socket")
        return path.stem

    def peer(self, rex=None, **options):
        peer = Peer(self.socket_of(rex), **options)
        self.addCleanup(peer.close)
        return peer

    def feed(self, rex=None):
        return Feed(rex or self.peer())

    def command(self, *words, **options):
        """Runs the program with these words to its end."""
        return subprocess.run([binary(), *words], capture_output=True, text=True, timeout=DEADLINE, check=False,
                              env=self.environment(), stdin=subprocess.DEVNULL, **options)


class Person:
    """A program in a terminal of its own, with somebody who reads and types."""

    def __init__(self, *words, env=None, rows=24, cols=100):
        self.master, self.slave = pty.openpty()  # the slave stays open: its modes are looked at afterwards
        self.resize(rows, cols)
        self.modes = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(words, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # noqa: PLW1509
        self.screen = ""
        self.seen = 0

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            with contextlib.suppress(OSError):
                self.screen += os.read(self.master, 65536).decode(errors="replace")

    def sees(self, text):
        """Waits until `text` is shown behind what was seen last; returns what came before it."""
        end = time.monotonic() + DEADLINE
        while text not in self.screen[self.seen:]:
            if time.monotonic() > end:
                raise AssertionError(f"never showed {text!r}; showed {self.screen[self.seen:]!r}")
            self.read(0.1)
        before, self.seen = self.screen[self.seen:].split(text)[0], self.screen.index(text, self.seen) + len(text)
        return before

    def ends(self):
        """Its exit code."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"never ended; showed {self.screen[self.seen:]!r}")
            self.read(0.05)
        self.read(0)
        return self.process.returncode

    def terminal_is_restored(self):
        return termios.tcgetattr(self.slave) == self.modes

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


__all__ = ["Attached", "Feed", "Peer", "Person", "WatchCase"]
