"""A client for tests: spawns a rex-rpc and speaks JSON-RPC to it over stdio, one line a message.

Must not know any method beyond what is asked of it. Waiting is always on an answer or an event, with one deadline.
"""

import atexit
import base64
import contextlib
import functools
import itertools
import json
import os
import pathlib
import queue
import shlex
import shutil
import subprocess
import tempfile
import threading

DEADLINE = float(os.environ.get("REX_TEST_DEADLINE", "60"))
# How many instances further the sessions, processes and files of a test are: each is a program of the one before it.
HOPS = int(os.environ.get("REX_HOPS", "0"))
# What leads from one to the next: the program itself, or a real ssh server, `sshd` or `dropbear`, on this machine.
HOP_BY = os.environ.get("REX_HOP_BY", "")
UNROUTED = ("initialize", "initialized", "shutdown", "exit", "rpc.discover")


def binary():
    """The program under test: $REX_RPC, else the release build."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.environ.get("REX_RPC", os.path.join(root, "build", "release", "rex-rpc"))


@functools.cache
def hop_server(variables, cwd):
    """The environment that knows an ssh server as `hop`, where whoever logs in finds these variables and directory."""
    from ssh_server import Dropbear, SshServer  # pylint: disable=import-outside-toplevel

    folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-hops-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "bin").mkdir()
    # What is found there is told to be private; a test's second client looks for its socket.
    found = folder / "bin" / "rex-rpc"
    found.write_text(f'#!/bin/sh\n[ "$1" != --private ] || shift\nexec {shlex.quote(os.path.abspath(binary()))} "$@"\n')
    found.chmod(0o755)
    login = folder / "login"
    server = (Dropbear if HOP_BY == "dropbear" else SshServer)(folder, login=login)
    atexit.register(server.close)
    environment = server.client("hop", environment=dict(variables))
    names = [name for name in environment if name.isidentifier()]
    exports = [f"export {name}={shlex.quote(environment[name])}" for name in names]
    # What dropbear sees for a home is its own; the sessions see this machine's.
    here = [f'[ "$1" ] || exec nsenter --mount=/proc/{os.getpid()}/ns/mnt "$0" here'] if HOP_BY == "dropbear" else []
    lines = ["#!/bin/sh", *here, "unset HOME", f"cd {shlex.quote(cwd)}", *exports,
             'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"', ""]
    login.write_text("\n".join(lines))
    login.chmod(0o755)
    return environment


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

    host = ""  # where the work is done

    def __init__(self, argv=None, env=None, cwd=None, hops=None):
        """`hops` more instances behind this one, where every request goes that names no host; $REX_HOPS unless argv."""
        hops = hops if hops is not None else 0 if argv else HOPS
        next_hop = {"argv": argv or [binary()]}
        if hops and HOP_BY:
            env = hop_server(tuple((os.environ if env is None else env).items()), str(cwd or os.getcwd()))
            next_hop = {"url": "ssh://hop", "install": False}
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
        self.pid = self.process.pid  # of the instance that does the work
        for _ in range(hops):
            hop = self.call("host/connect", name="hop", host=self.host, **next_hop)
            self.host += "/hop" if self.host else "hop"
            self.pid = int(hop["machine"]["instance"].split("-")[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read_stdout(self):
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # killed in the middle of it
            message = json.loads(line, object_hook=self._seen_from_there)
            if "method" in message:
                self.notifications.put(message)
                continue
            with self._lock:
                pending = self._pending.pop(message.get("id"), None)
            if pending:
                pending.put(message)
        with self._lock:
            orphans, self._pending = self._pending, None  # from now on there is no answer
        for pending in orphans.values():
            pending.put(self._no_answer())

    def _no_answer(self):
        return {"error": {"code": 0, "message": "rex-rpc has ended; " + self.diagnosis()}}

    def _seen_from_there(self, value):
        """What says that it is of the last hop says so as it does there: tests are the same for any number of hops."""
        if self.host and value.get("host") == self.host:
            if "executed" in value:
                del value["host"]
            else:
                value["host"] = ""
        return value

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
            if self._pending is None:
                pending.put(self._no_answer())
                return pending
            self._pending[pending.id] = pending
        self.send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": self._routed(method, params)})
        return pending

    def _routed(self, method, params):
        if not self.host or "host" in params or method in UNROUTED or method.startswith("$/") or "attachment" in params:
            return params
        return {**params, "host": self.host}

    def call(self, method, **params):
        return self.start(method, **params).result()

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": self._routed(method, params)})

    def session(self, name="main", **options):
        return Session(self, name, self.call("session/create", session=name, **options))

    def close(self):
        """Half-closes; returns the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(timeout=DEADLINE)
        finally:
            self.kill()

    def kill(self):
        """Ends it, if it has not ended, and lets go of all there was of it."""
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(timeout=DEADLINE)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if not any(thread.is_alive() for thread in self._threads):  # else some child still holds an end
            self.process.stdout.close()
            self.process.stderr.close()


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
