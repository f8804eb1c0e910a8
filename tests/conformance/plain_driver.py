#!/usr/bin/env python3
"""The least driver of tests/conformance/client.py, of a client as small as one can be. Argument: lines or headers.

No progress, no cancelling, no answers to questions. README.md has the form.
"""

import itertools
import json
import os
import subprocess
import sys
import threading

from run import Framing


class Lost(Exception):
    """No answer can come. Its argument: whether what was asked for was executed."""


class Client:
    """One rex-rpc of its own; any number of threads may call."""

    def __init__(self, framing):
        self._framing = framing
        self._numbers = itertools.count(1)
        self._waiting = {}  # of an id: what to call with the answer, or with None
        self._lock = threading.Lock()  # guards _waiting, and one message after the other
        self._server = subprocess.Popen([os.environ["REX_RPC"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _send(self, message):
        self._server.stdin.write(self._framing.put(json.dumps({"jsonrpc": "2.0", **message}).encode()))
        self._server.stdin.flush()

    def _read(self):
        try:
            while (body := self._framing.take(self._server.stdout)) is not None:
                self._take(json.loads(body))
        except Exception as error:
            print(f"not a rex-rpc: {error!r}", file=sys.stderr)
        with self._lock:
            waiting, self._waiting = self._waiting, None
        for answered in waiting.values():
            answered(None)

    def _take(self, message):
        if "method" in message:
            if "id" in message:
                with self._lock:
                    self._send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
            return
        with self._lock:
            answered = self._waiting.pop(message["id"], None)
        if answered:
            answered(message)

    def call(self, method, params, answered):
        """`answered` is called once, on another thread. Lost: it will not be."""
        with self._lock:
            if self._waiting is None:
                raise Lost("no")
            number = next(self._numbers)
            self._waiting[number] = answered
            self._send({"id": number, "method": method, "params": params})

    def close(self):
        self._server.stdin.close()
        self._server.wait()


def outcome(message):
    if message is None:
        return {"lost": "unknown"}
    if "error" not in message:
        return {"result": message["result"]}
    error, data = message["error"], message["error"].get("data", {})
    said = {"type": data.get("type", ""), "executed": data.get("executed", "unknown"), "retryable": data.get("retryable", False)}
    return {"error": {"code": error["code"], "message": error["message"], "data": data, **said}}


def main():
    said = threading.Lock()

    def say(line):
        with said:
            print(json.dumps(line), flush=True)

    client, opened = Client(Framing(sys.argv[1])), threading.Event()

    def greeted(message):
        what = outcome(message)
        say({"opened": True, "can": []} if "result" in what else {"opened": False, **what})
        opened.set()

    client.call("initialize", {"protocolVersion": "1.0"}, greeted)
    opened.wait()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            client.call(order["call"], order["params"], lambda message, tag=order["tag"]: say({"tag": tag, **outcome(message)}))
        except Lost as lost:
            say({"tag": order["tag"], "lost": str(lost)})
    client.close()


if __name__ == "__main__":
    main()
