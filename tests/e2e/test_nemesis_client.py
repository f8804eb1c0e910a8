"""Faults at random between a client and its sessions three hops away: instances killed, links cut, stopped and silenced.

Whatever happens on the way, every byte of a stream arrives once and in order, and every command with a key runs once.
The seed is told where a test fails; REX_SEED=that gives the same faults at the same bytes. Must not know how a relay
notices or mends anything.
"""

import collections
import contextlib
import os
import pathlib
import queue
import random
import shutil
import signal
import sys
import tempfile
import threading
import unittest

from relay_world import pid_of
from rig import Rex, RpcError, amount, binary, kill_quietly, processes_of, status_of, until
from test_nemesis import numbered
from watching import Attached, Feed

SEED = int(os.environ.get("REX_SEED", random.randrange(1 << 32)))
FAULTS = amount(60, 1000)
NUMBERS = amount(2_000_000, 110_000_000)  # a line each: 15 MB, 1 GB
COMMANDS = amount(100, 500)
KEEP_ALIVE_MS = 200
SILENCE = 1  # a client that hears nothing for so many seconds looks for another way

# What a way that is lost looks like to who is on it.
BROKEN = (TimeoutError, BrokenPipeError, ValueError, queue.Empty)
LOST = {"HostLost", "HostUnreachable", "HostNotFound", "HostProtocol", "AttachmentNotFound", None}


def key(client, seq):
    return {"client": client, "seq": seq}


class Way:
    """An instance of the client's and three more behind it, each reached through two processes that copy bytes; made
    anew when it is broken for good."""

    def __init__(self, environment, wire):
        self.environment = environment
        self.wire = wire
        self.lock = threading.Lock()
        self.rex = None
        self.relays = []
        self.made = 0

    def __call__(self):
        """The instance in front."""
        with self.lock:
            while self.rex is None:
                self.make()
            return self.rex

    def make(self):
        self.rex, self.relays, path = Rex(env=self.environment, hops=0), [], ""
        self.made += 1
        try:
            for name in "abc":
                info = self.rex.call("host/connect", name=name, host=path, argv=[str(self.wire)],
                                     options={"keepAliveMs": KEEP_ALIVE_MS})
                self.relays.append(pid_of(info))
                path = f"{path}/{name}".lstrip("/")
        except (RpcError, BrokenPipeError, TimeoutError):  # a fault has met it already
            self.rex.kill()
            self.rex = None

    def give_up(self, rex):
        """What was reached through `rex` does not come back."""
        with self.lock:
            if rex is self.rex:
                self.rex = None
                rex.kill()

    def processes(self, name):
        """Those of this name that have this test's folder for their sockets."""
        return sorted(pid for pid in processes_of(self.environment["XDG_RUNTIME_DIR"]) if status_of(pid).get("Name") == name)


class Faults:
    """They happen as the stream passes certain bytes."""

    def __init__(self, way, seed, bytes_of_stream):
        self.way = way
        self.random = random.Random(seed)
        self.places = collections.deque(sorted(self.random.randrange(bytes_of_stream) for _ in range(FAULTS)))
        self.done = collections.Counter()
        self.timers = []

    def pass_by(self, offset):
        while self.places and self.places[0] <= offset:
            self.places.popleft()
            self.strike()

    def strike(self):
        kind = self.random.choice(["kill the client's", "kill a relay", "cut a wire", "pause", "silence"])
        choice = self.random.random()
        front, relays, wires = self.way.rex, list(self.way.relays), self.way.processes("cat")
        anyone = [*relays, *wires]
        if kind == "kill the client's" and front is not None:
            kill_quietly(front.process.pid)
        elif kind == "kill a relay" and relays:
            kill_quietly(relays[int(choice * len(relays))])
        elif kind == "cut a wire" and wires:
            kill_quietly(wires[int(choice * len(wires))])
        elif anyone:
            self.stop(anyone[int(choice * len(anyone))], 0.1 if kind == "pause" else KEEP_ALIVE_MS * 6 / 1000)
        self.done[kind] += 1

    def count(self):
        return sum(self.done.values())

    def stop(self, pid, seconds):
        def go_on():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        self.timers.append(threading.Timer(seconds, go_on))
        self.timers[-1].start()

    def end(self):
        for timer in self.timers:
            timer.join()


class Nemesis(unittest.TestCase):
    maxDiff = 500

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        runtime = self.folder / "run"
        runtime.mkdir(mode=0o700)
        wire = self.folder / "rex-rpc-wire"
        wire.write_text(f"#!/bin/sh\ncat | {binary()} | cat\n")
        wire.chmod(0o755)
        self.way = Way({**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, wire)
        self.addCleanup(self.end_all)
        print(f"nemesis: REX_SEED={SEED}", file=sys.stderr)

    def end_all(self):
        if self.way.rex is not None:
            self.way.rex.kill()
        for pid in self.way.processes("rex-session"):
            kill_quietly(pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not self.way.processes("rex-session")), "a process of a session does not end")

    @contextlib.contextmanager
    def on_the_way(self):
        """What fails within because the way is lost is nothing but that; there is a new one then."""
        rex = self.way()
        try:
            yield rex
            return
        except RpcError as error:
            if error.type not in LOST:
                raise
        except BROKEN:
            pass
        self.way.give_up(rex)

    def insist(self, method, **params):
        """Asks until the session has answered; gives the answer."""
        answer = None
        while answer is None:
            with self.on_the_way() as rex:
                answer = rex.start(method, host="a/b/c", **params).result(SILENCE)
        return answer

    def follow(self, session, length, faults):
        """All its output, however often the way to it is lost."""
        data = bytearray()
        while len(data) < length:
            with self.on_the_way() as rex:
                feed = Attached(Feed(rex), session, offset=len(data), host="a/b/c", window=1 << 18)
                while len(data) < length:
                    before = len(feed.data)
                    feed.take(SILENCE)
                    data += feed.data[before:]
                    feed.ack()
                    self.assertEqual(feed.gaps, [])
                    faults.pass_by(len(data))
        return bytes(data)

    def test_every_byte_arrives_once_and_every_command_runs_once(self):
        numbers = numbered(NUMBERS)
        counted = self.folder / "counted"
        for seq, name in enumerate(("stream", "counter"), 1):
            self.insist("session/create", session=name, key=key("setup", seq), shell="dash", lifetime="daemon", onFull="block",
                        journalBytes=1 << 21)
        self.insist("session/run", session="stream", command=f"seq {NUMBERS}", waitMs=0, key=key("setup", 3))
        faults = Faults(self.way, SEED, len(numbers))
        answers = []

        def count():
            for number in range(COMMANDS):
                until(lambda n=number: faults.count() * COMMANDS >= n * FAULTS, 3600)  # some for each fault
                answers.append(self.insist("session/run", session="counter", key=key("count", number + 1),
                                           command=f"echo {number} >>{counted}; echo counted {number}; (exit {number % 7})"))

        counting = threading.Thread(target=count)
        counting.start()
        self.assertTrue(self.follow("stream", len(numbers), faults) == numbers, f"REX_SEED={SEED}: another byte")
        counting.join()
        faults.end()
        self.assertEqual(faults.count(), FAULTS)
        self.assertEqual(counted.read_text().split(), [str(number) for number in range(len(answers))])
        for number, answer in enumerate(answers):
            self.assertEqual((answer["output"], answer["exitCode"]), (f"counted {number}\n", number % 7))
            again = self.insist("session/run", session="counter", key=key("count", number + 1),
                                command=f"echo {number} >>{counted}; echo counted {number}; (exit {number % 7})")
            self.assertEqual(again, answer)
        for seq, name in enumerate(("stream", "counter"), 4):
            self.insist("session/close", session=name, key=key("setup", seq))
        print(f"nemesis: {dict(faults.done)}, {self.way.made} ways, {len(answers)} commands", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
