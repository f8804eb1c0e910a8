#!/usr/bin/env python3
"""Sends every file of a JSON test suite through one live connection: what must be refused is a parse error, what must
be accepted is anything else, and the connection answers the next ping each time.

    json_suite.py FOLDER REX-RPC [ARGUMENT...]

FOLDER holds y_*.json (must be accepted), n_*.json (must be refused) and i_*.json (either), as test_parsing of
https://github.com/nst/JSONTestSuite does; its files are not part of this project.
"""
import json
import pathlib
import subprocess
import sys

PARSE_ERROR = -32700


class Server:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        """The next message, or None at the end of the stream."""
        length = None
        while True:
            line = self.process.stdout.readline()
            if not line:
                return None
            if line == b"\r\n":
                break
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length).decode("utf-8"))

    def ping(self, name):
        self.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": "ping"}).encode())


def codes(answers):
    """The error codes in what came before the answer to the ping."""
    flat = [one for answer in answers for one in (answer if isinstance(answer, list) else [answer])]
    return [answer.get("error", {}).get("code") for answer in flat]


def check(server, path):
    """None if the server did right by `path`, else what it did."""
    server.send(path.read_bytes())
    server.ping(path.name)
    answers = []
    while True:
        answer = server.receive()
        if answer is None:
            return "the connection ended"
        if isinstance(answer, dict) and answer.get("id") == path.name:
            break
        answers.append(answer)
    if "result" not in answer:
        return f"ping failed: {answer}"
    got = codes(answers)
    if path.name.startswith("n_") and got != [PARSE_ERROR]:
        return f"accepted: {got}"
    if path.name.startswith("y_") and PARSE_ERROR in got:
        return "refused"
    return None


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    files = sorted(path for path in pathlib.Path(sys.argv[1]).glob("*.json") if path.name[:2] in ("y_", "n_", "i_"))
    if not files:
        sys.exit(f"no y_, n_ or i_ files in {sys.argv[1]}")
    server = Server(sys.argv[2:])
    failures = 0
    for path in files:
        problem = check(server, path)
        if problem:
            failures += 1
            print(f"{path.name}: {problem}")
            if server.process.poll() is not None or problem == "the connection ended":
                break
    server.process.stdin.close()
    code = server.process.wait(10)
    print(f"{len(files)} files, {failures} failures, the server exited with {code}")
    sys.exit(1 if failures or code != 0 else 0)


if __name__ == "__main__":
    main()
