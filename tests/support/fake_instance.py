"""What a neighbour that keeps no rules needs of them: messages in and out, and the greeting. Runs as the far program.

Must not know rex-rpc's own code. A test gives the rest as a line of Python (see relay_world.py).
"""

import json
import os
import sys


kept = []


def read():
    """The next message; ends the program at the end of input."""
    return kept.pop(0) if kept else receive()


def receive():
    length = None
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if length is None:
        os._exit(0)
    return json.loads(sys.stdin.buffer.read(length))


def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def framed(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def send(**message):
    raw(framed(**message))


def answer(request, result, behind=b""):
    raw(framed(id=request["id"], result=result) + behind)


def hello(**more):
    """Greets, as one that shares no streams."""
    answer(read(), {"protocolVersion": "1.0", "serverInfo": {"name": "fake"}, "machine": {"instance": "fake"}, **more})


def tell(method, **params):
    send(method=method, params=params)


def question(request_id, **params):
    return framed(id=request_id, method="host/prompt",
                  params={"host": "", "kind": "otp", "text": "code?", "secret": False, **params})


def answer_to(request_id):
    """What else comes meanwhile is kept for read()."""
    while (message := receive()).get("id") != request_id or "method" in message:
        kept.append(message)
    return message


def ask(request_id, **params):
    """Asks a person; gives the whole answer."""
    raw(question(request_id, **params))
    return answer_to(request_id)


def output(offset, size=1, attachment="a1", **more):
    tell("session/output", session="s", attachment=attachment, offset=offset, next=offset + size, data="x" * size,
         encoding="utf-8", host="", **more)
