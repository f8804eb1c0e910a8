"""What rex-rpc is for, on one screen: a client and a session talk, and every answer is checked.

Usage: demo.py PROGRAM. A client in thirty lines of the standard library; nothing here is special to this project.
Exits with 1 at the first answer that is not as promised.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile

# Members that matter to programs more than to readers; what is left out shows as "…".
QUIET = {"session", "host", "encoding", "from", "next", "totalBytes", "replaced", "completion", "durationMs", "machine",
         "capabilities", "limits", "createdAt", "lastOutputAt", "argv", "survives", "generation", "oldest", "startup",
         "rows", "cols", "tty", "lifetime", "writer", "uid", "gid", "mtime", "ctime", "etag", "protocolVersion"}
SENT, CAME, BOLD = "36", "32", "1"


class Broken(Exception):
    """An answer was not what the protocol promises."""


class Client:
    """Speaks JSON-RPC to a rex-rpc of its own, one message per line."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.last_id = 0

    def call(self, method, **params):
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        show(SENT, f"→ {self.last_id:>2} {method} {json.dumps(params, ensure_ascii=False)}")
        self.process.stdin.write(json.dumps(request) + "\n")
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last_id:
                kind = "result" if "result" in answer else "error"
                show(CAME, f"← {self.last_id:>2} {kind} {short(answer[kind])}")
                return answer[kind]
        raise Broken(f"no answer to {method}: the program has ended")

    def end(self):
        """Closes the input, which is how a client leaves, and returns the program's exit code."""
        self.process.stdin.close()
        return self.process.wait(10)


def show(style, text):
    print(f"\033[{style}m{text}\033[0m" if sys.stdout.isatty() else text, flush=True)


def short(value):
    """JSON for readers: without what is empty or QUIET, "…" telling that there is more."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    kept = {name: member for name, member in value.items() if name not in QUIET and member not in (None, [], {}, "")}
    members = [f"{json.dumps(name)}: {short(member)}" for name, member in kept.items()]
    return "{" + ", ".join(members + ["…"] * (len(kept) < len(value))) + "}"


def chapter(title):
    show(BOLD, f"\n# {title}")


def expect(what, seen, wanted):
    if seen != wanted:
        raise Broken(f"{what} is {seen!r} and should be {wanted!r}")


def demo(program, folder):
    client = Client(program)

    def run(command, **options):
        return client.call("session/run", session="demo", command=command, **options)

    chapter("A session is a real shell that stays")
    expect("protocolVersion", client.call("initialize", protocolVersion="1.0")["protocolVersion"].split(".")[0], "1")
    expect("state", client.call("session/create", session="demo", shell="bash")["state"], "ready")
    expect("exitCode", run(f"cd {folder} && export GREETING='hello, world!'")["exitCode"], 0)
    result = run('echo "$GREETING"; pwd')
    expect("output", result["output"], f"hello, world!\n{folder}\n")
    expect("cwd", result["cwd"], folder)

    chapter("A command that fails is a result, and its exit code is the true one")
    expect("exitCode", run("false")["exitCode"], 1)
    expect("exitCode", run("(exit 44)")["exitCode"], 44)
    expect("exitCode", run("echo $?")["output"], "44\n")
    expect("pipeStatus", run("false | true")["pipeStatus"], [1, 0])

    chapter("A slow command is given up on without being killed, and waited for later")
    slow = run("sleep 1; echo finished", waitMs=100)
    expect("state", slow["state"], "running")
    expect("error", run("echo too early").get("data", {}).get("type"), "SessionBusy")
    expect("ping", "time" in client.call("ping"), True)
    waited = client.call("session/wait", session="demo", job=slow["job"], any=[{"exit": True}], waitMs=10_000)
    expect("met", waited["met"], 0)
    expect("exitCode", waited["result"]["exitCode"], 0)
    expect("output", waited["result"]["output"], "finished\n")

    chapter("Files travel byte for byte, and the session sees them")
    expect("created", client.call("file/write", path=f"{folder}/note", data="one\ttwo\n")["created"], True)
    expect("output", run("cat note; echo three >> note")["output"], "one\ttwo\n")
    expect("data", client.call("file/read", path=f"{folder}/note")["data"], "one\ttwo\nthree\n")

    chapter("Nothing is left behind")
    expect("survivors", client.call("session/close", session="demo")["survivors"], [])
    expect("exit code of rex-rpc at the end of its input", client.end(), 0)
    return client.last_id


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: demo.py PROGRAM")
    signal.alarm(60)
    try:
        with tempfile.TemporaryDirectory() as folder:
            calls = demo(os.path.abspath(sys.argv[1]), os.path.realpath(folder))
    except (Broken, KeyError, json.JSONDecodeError, BrokenPipeError, subprocess.TimeoutExpired) as error:
        sys.exit(f"\nnot as promised: {error!r}")
    show(BOLD, f"\nShown and checked in {calls} calls: state that persists, true exit codes, a slow command that was "
               "given up on, lived and was waited for, exact files, nothing left behind.")


if __name__ == "__main__":
    main()
