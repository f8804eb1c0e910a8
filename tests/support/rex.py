"""A client for tests: spawns a rex-rpc and speaks JSON-RPC to it over stdio, one line a message.

Must not know any method beyond what is asked of it. Waiting is always on an answer or an event, with one deadline.
"""

import base64
import itertools
import json
import os
import queue
import subprocess
import threading

DEADLINE = float(os.environ.get("REX_TEST_DEADLINE", "60"))


def binary():
    """The program under test: $REX_RPC, else the release build."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.environ.get("REX_RPC", os.path.join(root, "build", "release", "rex-rpc"))


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']} {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data", {})
        self.type = self.data.get("type")


class Pending:
    """An answer that has not come yet."""

    def __init__(self, client, request_id):
        self.id = request_id
        self._client = client
        self._answers = queue.Queue()

    def put(self, message):
        self._answers.put(message)

    def done(self):
        return not self._answers.empty()

    def result(self, timeout=DEADLINE):
        try:
            message = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no answer to request {self.id} within {timeout} s; {self._client.diagnosis()}") from None
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]


class Rex:
    """One rex-rpc process and one connection to it. Use it as a context manager."""

    def __init__(self, argv=None, env=None, cwd=None):
        self.process = subprocess.Popen(
            argv or [binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd
        )
        self.notifications = queue.Queue()
        self.stderr = []
        self._ids = itertools.count(1)
        self._pending = {}
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read_stdout(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message:
                self.notifications.put(message)
                continue
            with self._lock:
                pending = self._pending.pop(message.get("id"), None)
            if pending:
                pending.put(message)
        with self._lock:
            orphans, self._pending = self._pending, {}
        for pending in orphans.values():
            pending.put({"error": {"code": 0, "message": "rex-rpc has ended; " + self.diagnosis()}})

    def _read_stderr(self):
        for line in self.process.stderr:
            self.stderr.append(line.decode(errors="replace"))

    def diagnosis(self):
        return f"exit code {self.process.poll()}, stderr: {''.join(self.stderr)[-2000:]}"

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def start(self, method, **params):
        """Sends a request and returns at once."""
        pending = Pending(self, next(self._ids))
        with self._lock:
            self._pending[pending.id] = pending
        self.send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params})
        return pending

    def call(self, method, **params):
        return self.start(method, **params).result()

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def session(self, name="main", **options):
        return Session(self, name, self.call("session/create", session=name, **options))

    def close(self):
        """Half-closes; returns the exit code."""
        if self.process.stdin and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            code = self.process.wait(timeout=DEADLINE)
        finally:
            self.process.kill()
        for thread in self._threads:
            thread.join(timeout=DEADLINE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Session:
    """Calls with the session's name filled in."""

    def __init__(self, rex, name, info):
        self.rex = rex
        self.name = name
        self.info = info

    def start(self, method, **params):
        return self.rex.start("session/" + method, session=self.name, **params)

    def call(self, method, **params):
        return self.start(method, **params).result()

    def run(self, command, **params):
        return self.call("run", command=command, **params)

    def output(self, command, **params):
        return self.run(command, **params)["output"]

    def read_all(self, offset=0, **params):
        """Every byte from `offset` to the journal's end."""
        data = b""
        while True:
            piece = self.call("read", offset=offset, encoding="base64", **params)
            data += base64.b64decode(piece["data"])
            offset = piece["next"]
            if offset == piece["end"]:
                return data
