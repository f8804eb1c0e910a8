"""Stands between an editor and its rex-rpc: notes the method of each request that passes, in its order, and nothing else.

    counting.py FILE PROGRAM [ARGUMENT...]

FILE gets one method a line, of requests and not of notifications or answers, before the request goes on. Reads both
framings. Must not change a byte.
"""

import json
import os
import subprocess
import sys
import threading


def messages(stream):
    """(bytes as they came, JSON) of each message."""
    while line := stream.readline():
        if not line.lower().startswith(b"content-"):
            yield line, line
            continue
        head, length = b"", 0
        while line.strip():
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            line = stream.readline()
        body = stream.read(length)
        yield head + line + body, body


def main():
    counts, *command = sys.argv[1:]
    with open(counts, "a", encoding="utf-8") as notes:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def questions():
            for whole, body in messages(sys.stdin.buffer):
                message = json.loads(body)
                if "method" in message and "id" in message:
                    notes.write(message["method"] + "\n")
                    notes.flush()
                child.stdin.write(whole)
                child.stdin.flush()
            child.stdin.close()

        threading.Thread(target=questions, daemon=True).start()
        while piece := os.read(child.stdout.fileno(), 65536):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        os._exit(abs(child.wait()))  # not by the thread, which waits for the editor


if __name__ == "__main__":
    main()
