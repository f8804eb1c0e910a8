#!/usr/bin/env python3
"""Plays scripted exchanges to a rex-rpc server on its standard input and output, and says which it does not follow.

    run.py [--only WORD] [--framing lines|headers] SERVER [ARGUMENT...]

Each file of exchanges/ is one exchange with a server of its own, in both framings; README.md has the form. Exits with 0
when all are followed, 1 when one is not, 2 when there is none to play. Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = float(os.environ.get("REX_TEST_DEADLINE", "60"))  # seconds for each message


class Deviation(Exception):
    """The server did something else."""


class Framing:
    """How messages are told apart: one a line, or behind a Content-Length header."""

    def __init__(self, name):
        self.name = name

    def put(self, body):
        return body + b"\n" if self.name == "lines" else b"Content-Length: %d\r\n\r\n" % len(body) + body

    def take(self, stream):
        """The next body, or None at the end."""
        if self.name == "lines":
            return stream.readline() or None
        fields = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, colon, value = line.partition(b": ")
            if not colon or not line.endswith(b"\r\n"):
                raise Deviation(f"no header line: {line!r}")
            fields[name.lower()] = value.strip()
        if not fields:
            return None
        return stream.read(int(fields[b"content-length"]))


class Server:
    def __init__(self, command, framing, folder, ignored):
        self.framing = framing
        self.ignored = ignored  # notifications that may come or not
        self.messages = queue.Queue()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            while (body := self.framing.take(self.process.stdout)) is not None:
                self.messages.put(json.loads(body))
        except (Deviation, ValueError) as error:
            self.messages.put(Deviation(f"not a message: {error}"))
        self.messages.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def next(self):
        """The next message, or None at the end."""
        try:
            message = self.messages.get(timeout=DEADLINE)
        except queue.Empty:
            raise Deviation(f"nothing came within {DEADLINE:g} s") from None
        if isinstance(message, Deviation):
            raise message
        if message is None:
            self.messages.put(None)  # the end is there for everyone who asks
        elif isinstance(message, dict) and message.get("method") in self.ignored:
            return self.next()
        return message

    def close(self):
        self.process.stdin.close()
        try:
            return self.process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Deviation(f"it did not end within {DEADLINE:g} s of the end of its input") from None


def filled(value, saved):
    """`value` with {"$saved": name} and ${name} in strings as they were saved."""
    if isinstance(value, dict):
        if set(value) == {"$saved"}:
            return saved[value["$saved"]]
        return {name: filled(member, saved) for name, member in value.items()}
    if isinstance(value, list):
        return [filled(element, saved) for element in value]
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda found: str(saved[found[1]]), value)
    return value


TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def check(expected, got, saved, place=""):
    """Raises Deviation unless `got` is what is expected; objects may have more members, but for those of `$exact`."""

    def demand(holds, what):
        if not holds:
            raise Deviation(f"{place or 'the message'}: {what}, not {json.dumps(got)[:300]}")

    if isinstance(expected, dict) and len(expected) >= 1 and all(name.startswith("$") for name in expected):
        for name, value in expected.items():
            if name == "$type":
                right = isinstance(got, TYPES[value]) and (value != "integer" or not isinstance(got, bool))
                demand(right, f"must be of type {value}")
            elif name == "$match":
                demand(isinstance(got, str) and re.search(value, got), f"must match {value!r}")
            elif name == "$in":
                demand(got in filled(value, saved), f"must be one of {value}")
            elif name == "$least":
                demand(isinstance(got, int) and got >= value, f"must be at least {value}")
            elif name == "$absent":
                demand(False, "must not be there")
            elif name == "$exact":
                check(value, got, saved, place)
                demand(set(got) == set(value), f"must have the members {sorted(value)} only")
            elif name == "$save":
                saved[value] = got
            elif name == "$saved":
                demand(got == saved[value], f"must be {saved[value]!r}")
            else:
                raise ValueError(f"no matcher {name}")
    elif isinstance(expected, dict):
        demand(isinstance(got, dict), "must be an object")
        for name, value in expected.items():
            if isinstance(value, dict) and "$absent" in value:
                demand(name not in got, f"must have no {name}")
            else:
                demand(name in got, f"must have {name}")
                check(value, got[name], saved, f"{place}.{name}" if place else name)
    elif isinstance(expected, list):
        demand(isinstance(got, list) and len(got) == len(expected), f"must be an array of {len(expected)}")
        for index, value in enumerate(expected):
            check(value, got[index], saved, f"{place}[{index}]")
    else:
        value = filled(expected, saved)
        demand(type(got) is type(value) and got == value, f"must be {json.dumps(value)}")


def expect_all(expected, server, saved):
    """As many messages as there are, in any order."""
    left = list(expected)
    for _ in expected:
        message = server.next()
        if message is None:
            raise Deviation(f"the stream ended; still to come: {json.dumps(left)[:300]}")
        for each in left:
            attempt = dict(saved)
            try:
                check(each, message, attempt)
            except Deviation:
                continue
            saved.update(attempt)
            left.remove(each)
            break
        else:
            raise Deviation(f"none of those expected: {json.dumps(message)[:300]}")


def play(exchange, command, framing, folder):
    saved = {"folder": str(folder), "server": command}
    server = Server(command, framing, folder, exchange.get("ignore", []))
    try:
        for number, step in enumerate(exchange["steps"], 1):
            ((kind, value),) = step.items()
            try:
                if kind == "send":
                    server.write(framing.put(json.dumps(filled(value, saved)).encode()))
                elif kind == "body":  # of a frame, as it is
                    server.write(framing.put(value.encode("latin-1")))
                elif kind == "bytes":  # without a frame
                    server.write(value.encode("latin-1"))
                elif kind == "expect":
                    message = server.next()
                    if message is None:
                        raise Deviation("the stream ended")
                    check(value, message, saved)
                elif kind == "expectAll":
                    expect_all(value, server, saved)
                elif kind == "end":  # of our output, and what is left of the server's
                    server.process.stdin.close()
                elif kind == "closed":
                    if (message := server.next()) is not None:
                        raise Deviation(f"the stream must end, not go on with {json.dumps(message)[:300]}")
                else:
                    raise ValueError(f"no step {kind}")
            except BrokenPipeError:
                raise Deviation(f"step {number}: the server has closed its input") from None
            except Deviation as error:
                raise Deviation(f"step {number}: {error}") from None
        code = server.close()
        if code != exchange.get("exitCode", 0):
            raise Deviation(f"its exit code must be {exchange.get('exitCode', 0)}, not {code}")
        if (message := server.next()) is not None:
            raise Deviation(f"nothing more must come, not {json.dumps(message)[:300]}")
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="exchanges whose name has it")
    parser.add_argument("--framing", choices=["lines", "headers"])
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SERVER")
    options = parser.parse_args()
    files = [path for path in sorted((HERE / "exchanges").glob("*.json")) if options.only in path.stem]
    if not files or not options.command:
        parser.print_usage(sys.stderr)
        return 2
    if shutil.which(options.command[0]):
        options.command[0] = os.path.abspath(shutil.which(options.command[0]))
    failed = played = 0
    for path in files:
        exchange = json.loads(path.read_text(encoding="utf-8"))
        for name in [options.framing] if options.framing else ["lines", "headers"]:
            if name not in exchange.get("framings", ["lines", "headers"]):
                continue
            played += 1
            with tempfile.TemporaryDirectory(prefix="rex-conformance-") as folder:
                try:
                    play(exchange, options.command, Framing(name), folder)
                except Deviation as error:
                    failed += 1
                    print(f"not followed: {path.stem} ({name}): {error}\n  {exchange['promise']}")
    print(f"{played - failed} of {played} exchanges followed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
