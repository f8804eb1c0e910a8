"""Another machine by ssh, beside what ssh itself does; and what a copy puts on the wire. Part of bench.py.

The far machine is this one behind a real sshd, so both ends and the cipher share its CPUs: ratios are what to look at.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from ssh_server import SshServer  # noqa: E402

MEGABYTE = 1 << 20


def seconds_of(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def in_turns(turns, actions, before=lambda: None):
    """{name: median seconds}; what else the machine does slows all alike. Every other turn goes the other way round,
    as what one has done may make it easier or harder for the next."""
    samples = {name: [] for name in actions}
    for turn in range(turns):
        for name, action in list(actions.items())[:: -1 if turn % 2 else 1]:
            before()
            samples[name].append(seconds_of(action))
    return {name: statistics.median(each) for name, each in samples.items()}


def connecting(table, server, ssh, turns):
    def connect():
        server.call("host/connect", name="again", url="ssh://bench")

    connect()  # prepares it
    server.call("host/disconnect", name="again")
    spent = {"ssh": [], "rex-rpc": []}
    for _ in range(turns):
        spent["ssh"].append(seconds_of(lambda: subprocess.run([*ssh, "true"], check=True)))
        spent["rex-rpc"].append(seconds_of(connect))
        server.call("host/disconnect", name="again")
    ours, theirs = statistics.median(spent["rex-rpc"]), statistics.median(spent["ssh"])
    table.row("`ssh host true`", f"{theirs * 1e3:.0f} ms")
    table.row("host/connect to a prepared host", f"{ours * 1e3:.0f} ms")
    table.target("host/connect / `ssh host true`", ours / theirs, 1.3, "×")


def exchange(process, request, end):
    """A call that sends these bytes and waits for what ends with those: all that is timed of a round trip. JSON in
    Python takes longer behind a longer wait, by 10 µs and more, and would be taken for a part of the way."""
    to, back = process.stdin.fileno(), process.stdout.fileno()

    def send_and_wait():
        os.write(to, request)
        answer = b""
        while not answer.endswith(end):
            answer += os.read(back, 65536)
        return answer

    return send_and_wait


def round_trip(table, server, program, ssh, turns):
    """Beside a hop without ssh too: its two instances wake each other whatever carries their bytes."""
    server.call("host/connect", name="near", argv=[os.path.abspath(program)])
    echo = subprocess.Popen([*ssh, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    actions = {"echo": exchange(echo, b"x" * 255 + b"\n", b"\n")}
    for name, host in {"here": "", "near": "near", "there": "far"}.items():
        server.call("session/create", host=host, session="bench", shell="bash")
        params = {"host": host, "session": "bench", "command": "true"}
        request = {"jsonrpc": "2.0", "id": 1, "method": "session/run", "params": params}
        actions[name] = exchange(server.process, json.dumps(request).encode() + b"\n", b"\n")
        if b'"exitCode":0' not in actions[name]():
            raise RuntimeError("`true` failed")
    in_turns(20, actions)
    took = in_turns(turns, actions)
    echo.stdin.close()
    echo.wait()
    table.row("256 bytes through an ssh channel and back", f"{took['echo'] * 1e6:.0f} µs")
    table.row("session/run `true` here", f"{took['here'] * 1e6:.0f} µs")
    table.row("session/run `true` behind a hop that is a program", f"{took['near'] * 1e6:.0f} µs")
    table.row("session/run `true` there", f"{took['there'] * 1e6:.0f} µs")
    hop = (took["near"] - took["here"]) / took["echo"]
    table.row("what a hop that is a program adds / the channel's own echo", f"{hop:.2f} ×")
    table.target("what the way adds / the channel's own echo", (took["there"] - took["here"]) / took["echo"], 1.2, "×")


def random_file(path, megabytes):
    with open(path, "wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(MEGABYTE))
    return path


def bulk(table, server, ssh, folder, megabytes):
    source, target = random_file(f"{folder}/bulk", megabytes), f"{folder}/target"
    copy = {"from": {"host": "far", "path": source}, "to": {"path": target}, "overwrite": True}

    def cat():
        with open(target, "wb") as file:
            subprocess.run([*ssh, f"cat {source}"], check=True, stdout=file)

    # Each makes a new file, of memory that the same third one has just given back: how much a new page costs depends
    # on who had it before, and by more than the two differ.
    def nothing_there():
        pathlib.Path(target).unlink(missing_ok=True)
        subprocess.run(["dd", f"if={source}", f"of={target}", "bs=32k", "status=none"], check=True)
        os.unlink(target)

    took = in_turns(12, {"cat": cat, "copy": lambda: server.call("file/copy", **copy)}, nothing_there)
    for name, text in (("cat", "`ssh host cat` into a file"), ("copy", "file/copy, verified")):
        table.row(text, f"{megabytes / took[name]:.0f} MB/s")
    table.target("file/copy / `ssh host cat`", took["cat"] / took["copy"], 0.8, "×", at_least=True)
    os.unlink(target)


def on_the_wire(table, server, program, folder, megabytes):
    """A hop whose bytes are counted both ways."""
    source, target = random_file(f"{folder}/wire", megabytes), f"{folder}/target"
    counted = pathlib.Path(folder) / "bin" / "rex-rpc"  # by its name, what an argv runs is spoken to at once
    counted.write_text(f"#!/bin/bash\ntee >(wc -c >{folder}/up) | {os.path.abspath(program)} | tee >(wc -c >{folder}/down)\n")
    counted.chmod(0o755)
    server.call("host/connect", name="counted", argv=[str(counted)])
    server.call("file/copy", **{"from": {"path": source}, "to": {"host": "counted", "path": target}, "overwrite": True})
    server.call("host/disconnect", name="counted")
    counts = [pathlib.Path(folder) / name for name in ("up", "down")]
    while not all(each.exists() and each.read_text().strip() for each in counts):
        time.sleep(0.01)
    carried = sum(int(each.read_text()) for each in counts)
    table.target("bytes on the wire, both ways / bytes copied", carried / os.path.getsize(source), 1.02, "×")


def far(table, server_of, program, turns, megabytes):
    """`server_of(environment)` starts a rex-rpc."""
    table.title("Another machine by ssh (a real sshd on loopback)")
    if os.getuid() != 0 or not shutil.which("sshd", path="/usr/sbin:/usr/bin"):
        table.row("not measured", "", "needs root and sshd")
        return
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o700)
        machine = SshServer(folder, f"SetEnv XDG_CACHE_HOME={folder}\n")
        environment = machine.client("bench")
        ssh = [f"{folder}/bin/ssh", "bench"]
        server = server_of(environment)
        try:
            connecting(table, server, ssh, turns)
            server.call("host/connect", name="far", url="ssh://bench")
            round_trip(table, server, program, ssh, turns * 100)
            bulk(table, server, ssh, folder, megabytes * 2 // 5)
            on_the_wire(table, server, program, folder, megabytes)
        finally:
            server.close()
            machine.close()
