#!/usr/bin/env python3
"""Plays a rex-rpc server to a client, and says where the client does not do as it should.

    client.py [--only WORD] [--pieces whole|together|odd|bytes] DRIVER [ARGUMENT...]

DRIVER is a small program of the client's author: it makes the calls it is told and prints what became of them. Each file
of client_exchanges/ is one exchange with a driver of its own, once for each way of cutting what is sent; README.md has
the form. Exits with 0 when all went as they should, 1 when one did not, 2 when there is none to play. Needs Python 3.9
and nothing else.
"""

import argparse
import collections
import fcntl
import io
import itertools
import json
import os
import pathlib
import queue
import select
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types

from run import DEADLINE, Deviation, Framing, check, expect_all, filled

HERE = pathlib.Path(__file__).resolve().parent
PIECES = ["whole", "together", "odd", "bytes"]
ODD = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 4096]  # sizes of pieces, over and over
# What an exchange may use by name, too long to be written there.
LONG = {"page": "0123456789abcde\n" * 256, "long": "a\\\"\u0001é€\U0001d11e\n" * 100_000}
HELLO = {
    "protocolVersion": "1.0",
    "serverInfo": {"name": "a server that plays", "version": "0"},
    "machine": {"hostname": "build7", "os": "linux", "arch": "x86_64", "kernel": "6.1.0", "user": "ada", "uid": 1000,
                "home": "/home/ada", "shell": "/bin/bash", "bootId": "1c6c", "instance": "b7d1"},
    "capabilities": {},
    "limits": {"graceMs": 2000},
}  # fmt: skip
GREETINGS = {"initialize": HELLO, "shutdown": None}  # what is answered when an exchange does not speak of it


class NotAsked(Exception):
    """The client cannot do what the exchange is about, and says so."""


def unread(descriptor):
    """The bytes in a pipe or socket that its other end has not taken yet. BrokenPipeError: it never will."""
    gone = select.poll()
    gone.register(descriptor, 0)
    if gone.poll(0):
        raise BrokenPipeError
    ask = termios.TIOCOUTQ if stat.S_ISSOCK(os.fstat(descriptor).st_mode) else termios.FIONREAD
    return struct.unpack("i", fcntl.ioctl(descriptor, ask, b"\0" * 4))[0]


class Incoming(io.RawIOBase):
    """What the client writes, until its end or ours."""

    def __init__(self, descriptor):
        super().__init__()
        self._descriptor = descriptor
        self._over, self._stop = os.pipe()
        self._closed = threading.Event()

    def readable(self):
        return True

    def readinto(self, buffer):
        if self._over in select.select([self._descriptor, self._over], [], [])[0]:
            return 0
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close_descriptor(self):
        """By whoever reads, in the end."""
        os.close(self._descriptor)
        self._closed.set()

    def stop(self):
        """By another thread: returns when the client can write no more."""
        os.close(self._stop)
        self._closed.wait()
        os.close(self._over)


class Streams:
    """The server's two ends, which the stand-in gave away, and the word to it how to end. Owns all three."""

    def __init__(self, kit, descriptors):
        self._kit = kit
        self.incoming, self._outgoing = Incoming(descriptors[0]), descriptors[1]
        os.set_blocking(self._outgoing, False)

    def write(self, data, wait):
        """To a client that reads no more nothing is written; what it says of that is checked elsewhere.

        `wait`: until it has taken all. That polls, as no event tells of it.
        """
        until = time.monotonic() + DEADLINE
        try:
            while self._outgoing is not None and (data or (wait and unread(self._outgoing))):
                if data and select.select([], [self._outgoing], [], DEADLINE)[1]:
                    data = data[os.write(self._outgoing, data) :]
                    continue
                if time.monotonic() > until:
                    raise Deviation(f"the client has not read what was sent for {DEADLINE:g} s")
                time.sleep(0.0001)
        except (BrokenPipeError, ConnectionResetError):
            self.end_output()

    def end_output(self):
        descriptor, self._outgoing = self._outgoing, None
        if descriptor is not None:
            os.close(descriptor)

    def end(self, code):
        """Once more does nothing."""
        kit, self._kit = self._kit, None
        if kit is None:
            return
        self.end_output()
        self.incoming.stop()
        try:
            kit.sendall(b"%d" % code)
            kit.recv(1)  # its end
        except OSError:
            pass  # the client has ended it
        kit.close()


class Peer:
    """A driver, and the server that its client speaks with. One queue has what both say, in the order it came."""

    def __init__(self, command, folder, pieces):
        self._pieces = pieces
        self._said = queue.Queue()  # ("driver" or "client", message or Deviation or None), ("server", Streams)
        self._kept = {"driver": collections.deque(), "client": collections.deque()}
        self._held = []  # what is sent with what comes behind it
        self._streams = None
        self._started = threading.Event()
        self.framing = None
        self.greets = True  # answers GREETINGS by itself
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen()
        program = folder / "rex-rpc"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{HERE}/stand_in.py" "{folder}/socket"\n')
        program.chmod(0o755)
        self.driver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "REX_RPC": str(program)}
        )
        threading.Thread(target=self._hear_driver, daemon=True).start()
        threading.Thread(target=self._hear_client, daemon=True).start()

    # ------------------------------------------------------------ what is heard

    def _hear_driver(self):
        for line in self.driver.stdout:
            try:
                self._said.put(("driver", json.loads(line)))
            except ValueError:
                self._said.put(("driver", Deviation(f"the driver printed what is no JSON: {line!r}")))
        self._said.put(("driver", None))

    def _hear_client(self):
        try:
            kit, _ = self._listener.accept()
            self._streams = Streams(kit, socket.recv_fds(kit, 1, 2)[1])
        except (OSError, IndexError):
            return  # there was no client until the end
        self._started.set()
        incoming = self._streams.incoming
        stream = io.BufferedReader(incoming)
        try:
            if first := stream.peek(1)[:1]:
                self.framing = Framing("lines" if first in b"{[" else "headers")
                while (body := self.framing.take(stream)) is not None:
                    self._said.put(("client", well_formed(json.loads(body))))
        except (Deviation, ValueError, KeyError, OSError) as error:
            self._said.put(("client", Deviation(f"the client sent what is no message: {error}")))
        incoming.close_descriptor()
        self._said.put(("client", None))

    @property
    def streams(self):
        if not self._started.wait(DEADLINE):
            raise Deviation(f"the client has not started $REX_RPC within {DEADLINE:g} s")
        return self._streams

    def next(self, who="client"):
        """The next message of the client, or line of the driver; None at the end of it."""
        self.flush()
        while not self._kept[who]:
            try:
                speaker, message = self._said.get(timeout=DEADLINE)
            except queue.Empty:
                raise Deviation(f"nothing came from the {who} within {DEADLINE:g} s") from None
            if speaker == "driver" or not self._greet(message):
                self._kept[speaker].append(message)
        message = self._kept[who].popleft()
        if isinstance(message, Deviation):
            raise message
        if message is None:
            self._kept[who].append(None)  # the end is there for everyone who asks
        return message

    def _greet(self, message):
        """Whether the client's message is one of those that open and close a connection, and has been dealt with."""
        if message is None:
            self.streams.end(0)  # as a server does at the end of its input
        if not isinstance(message, dict):
            return False
        method = message.get("method")
        if method in GREETINGS and self.greets:
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": GREETINGS[method]})
            self.flush()
        elif method == "exit":
            self.streams.end(0)
        elif method != "initialized":
            return False
        return True

    # ------------------------------------------------------------ what is said

    def tell(self, line):
        self.driver.stdin.write(json.dumps(line).encode() + b"\n")
        self.driver.stdin.flush()

    def send(self, message):
        self.send_bytes(self.framing.put(json.dumps(message, ensure_ascii=False).encode()))

    def send_bytes(self, data):
        self._held.append(data)
        if self._pieces == "whole":
            self.flush()

    def flush(self):
        """Sends what is held, in pieces."""
        data, self._held = b"".join(self._held), []
        sizes = {"odd": itertools.cycle(ODD), "bytes": itertools.repeat(1)}.get(self._pieces)
        while data and sizes:
            size = next(sizes)
            self.streams.write(data[:size], wait=True)
            data = data[size:]
        if data:
            self.streams.write(data, wait=False)

    def end(self, how):
        """Of the server by a returncode, or with None of its output alone."""
        self.flush()
        if how is None:
            self.streams.end_output()
        else:
            self.streams.end(how)

    # ------------------------------------------------------------ the end

    def finish(self):
        """The driver is at the end of its input: it closes its client and ends, and so does what the client started."""
        self.greets = True
        self.driver.stdin.close()
        if (line := self.next("driver")) is not None:
            raise Deviation(f"the driver must print nothing more, not {json.dumps(line)[:300]}")
        try:
            code = self.driver.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            raise Deviation(f"the driver did not end within {DEADLINE:g} s of the end of its input") from None
        if code != 0:
            raise Deviation(f"the driver's exit code must be 0, not {code}")

    def kill(self):
        self.driver.kill()
        self.driver.wait()
        self._listener.shutdown(socket.SHUT_RDWR)  # which ends an `accept`
        self._listener.close()
        if self._streams:
            self._streams.end(1)


def well_formed(message):
    """A client's message as JSON-RPC and the protocol have it; no batches, which a client need not send. Deviation."""
    wrong = ""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        wrong = "it must be an object with jsonrpc 2.0"
    elif "id" in message and (not isinstance(message["id"], (int, str)) or isinstance(message["id"], bool)):
        wrong = "its id must be a number or a string"
    elif not isinstance(message.get("params", {}), dict):
        wrong = "its params must be an object"
    elif unknown := set(message) - {"jsonrpc", "id", "method", "params", "result", "error"}:
        wrong = f"there is no member {unknown.pop()}"
    if wrong:
        raise Deviation(f"{wrong}: {json.dumps(message)[:300]}")
    return message


def step_of(peer, kind, value, saved):
    if kind == "tell":
        peer.tell(filled(value, saved))
    elif kind == "send":
        peer.send(filled(value, saved))
    elif kind == "body":
        peer.send_bytes(peer.framing.put(value.encode("latin-1")))
    elif kind == "bytes":
        peer.send_bytes(value.encode("latin-1"))
    elif kind == "end":
        peer.end(value)
    elif kind in ("expect", "told"):
        who = "client" if kind == "expect" else "driver"
        if (message := peer.next(who)) is None:
            raise Deviation(f"the {who} has ended")
        check(value, message, saved)
    elif kind == "expectAll":
        expect_all(value, peer, saved)
    elif kind == "toldAll":
        expect_all(value, types.SimpleNamespace(next=lambda: peer.next("driver")), saved)
    else:
        raise ValueError(f"no step {kind}")


def play(exchange, command, pieces, folder):
    saved = {**LONG, "folder": str(folder)}
    peer = Peer(command, folder, pieces)
    peer.greets = exchange.get("greets", True)
    try:
        if peer.greets:
            if (opened := peer.next("driver")) is None:
                raise Deviation("the driver has ended before its first line")
            check({"opened": True}, opened, saved, "the driver's first line")
            if lacking := set(exchange.get("needs", [])) - set(opened.get("can", [])):
                raise NotAsked(f"the driver cannot {', '.join(sorted(lacking))}")
        for number, step in enumerate(exchange["steps"], 1):
            ((kind, value),) = step.items()
            try:
                if kind in ("body", "bytes") and peer.framing.name not in exchange.get("framings", peer.framing.name):
                    raise NotAsked(f"the client speaks in {peer.framing.name}")
                step_of(peer, kind, value, saved)
            except Deviation as error:
                raise Deviation(f"step {number}: {error}") from None
            except BrokenPipeError:
                raise Deviation(f"step {number}: the driver has ended") from None
        peer.finish()
    finally:
        peer.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="exchanges whose name has it")
    parser.add_argument("--pieces", choices=PIECES)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="DRIVER")
    options = parser.parse_args()
    files = [path for path in sorted((HERE / "client_exchanges").glob("*.json")) if options.only in path.stem]
    if not files or not options.command:
        parser.print_usage(sys.stderr)
        return 2
    failed = played = 0
    for path in files:
        exchange = json.loads(path.read_text(encoding="utf-8"))
        try:
            for pieces in exchange.get("pieces", PIECES):
                if pieces != (options.pieces or pieces):
                    continue
                with tempfile.TemporaryDirectory(prefix="rex-conformance-") as folder:
                    played += 1
                    try:
                        play(exchange, options.command, pieces, pathlib.Path(folder))
                    except Deviation as error:
                        failed += 1
                        print(f"not followed: {path.stem} ({pieces}): {error}\n  {exchange['promise']}")
        except NotAsked as reason:
            played -= 1
            print(f"not asked: {path.stem}: {reason}")
    print(f"{played - failed} of {played} exchanges followed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
