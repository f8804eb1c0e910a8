"""Works on another machine as on this one. Usage: remote.py [URL], for example ssh://me@gpu

The far end needs nothing but a shell. Without a URL the host is a second rex-rpc on this machine.
"""

import sys

from rex_rpc import Rex, RexError
from rex_rpc.opening import find_program


def ask(question):
    """A password, an unknown key: put to whoever started this, never decided by itself."""
    return input(f"{question['host']}: {question['text']} ")


with Rex(prompt=ask) as rex:
    target = {"url": sys.argv[1]} if len(sys.argv) > 1 else {"argv": [find_program()]}
    print("reached", rex.host_connect("far", **target)["machine"]["hostname"])
    far = rex.host("far")
    with far.session(cwd="/") as session:
        print(session.run("uname -s; pwd")["output"], end="")
    far.file_write("/tmp/rex-rpc-example", "carried over\n")
    print(far.file_read("/tmp/rex-rpc-example")["data"], end="")
    far.file_remove("/tmp/rex-rpc-example")
    try:
        far.file_read("/tmp/rex-rpc-example")
    except RexError as error:
        print(f"{error.type} at {error.host}, executed: {error.executed}")
