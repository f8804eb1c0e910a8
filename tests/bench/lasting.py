"""Daemon sessions beside those that end with their client: what they cost, and how fast one is back. Part of bench.py."""

import contextlib
import glob
import os
import shutil
import signal
import statistics
import tempfile
import time


def keepers(runtime):
    """The processes that keep sessions there, with their nurseries and guardians, but not the shells."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        with contextlib.suppress(OSError):
            with open(path, "rb") as environ, open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                if f"XDG_RUNTIME_DIR={runtime}".encode() in environ.read().split(b"\0") and comm.read().startswith("rex-"):
                    found.append(pid)
    return found


def milliseconds(action):
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def keyed(table, server, folder):
    """What it costs to take place once: in the memory of a session's process, and for files on the disk."""
    seqs = iter(range(1, 1_000_000))
    key = lambda seq: {"client": "bench", "seq": seq, "acked": seq - 1}  # noqa: E731
    ways = {
        "session/run `true`": lambda **more: server.call("session/run", session="daemon0", command="true", **more),
        "file/write of 1 KB": lambda **more: server.call("file/write", path=f"{folder}/kept", data="x" * 1024, **more),
    }
    for what, way in ways.items():
        plain, once = [], []
        for _ in range(300):
            plain.append(milliseconds(way))
            once.append(milliseconds(lambda: way(key=key(next(seqs)))))
        table.row(f"{what} with a key, and without", f"{statistics.median(once):.2f} ms, {statistics.median(plain):.2f} ms")


def lasting(table, serve, memory_of, switches_of, count, turns):
    """`serve(environment)` makes an instance; memory_of(pids) gives RSS and PSS in MB."""
    table.title("Daemon sessions")
    runtime = tempfile.mkdtemp(prefix="rex-bench-")
    environment = {**os.environ, "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": runtime}
    server = serve(environment)
    made = {}
    for lifetime in ("connection", "daemon"):
        made[lifetime] = statistics.median(
            milliseconds(lambda n=n: server.call("session/create", session=f"{lifetime}{n}", shell="bash", lifetime=lifetime))
            for n in range(turns))
        table.row(f"session/create, lifetime {lifetime}", f"{made[lifetime]:.1f} ms")
    run = {lifetime: [] for lifetime in made}
    for _ in range(300):
        for lifetime, each in run.items():
            each.append(milliseconds(lambda: server.call("session/run", session=f"{lifetime}0", command="true")))
    medians = {lifetime: statistics.median(each) for lifetime, each in run.items()}
    table.target("session/run `true`: daemon / connection", medians["daemon"] / medians["connection"], 2, "×")
    keyed(table, server, runtime)
    back = []
    for _ in range(turns):
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        begin = time.perf_counter()
        server = serve(environment)
        server.call("session/run", session="daemon0", command="true")
        back.append((time.perf_counter() - begin) * 1e3)
    table.target("front killed, a new one, and a `true` in the session", statistics.median(back), 1000, " ms")
    for n in range(turns, count):
        server.call("session/create", session=f"daemon{n}", shell="dash", lifetime="daemon")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    time.sleep(1)
    processes = keepers(runtime)
    _, pss = memory_of(processes)
    woken = switches_of(processes)
    time.sleep(3)
    table.target(f"memory of each of {count}, without its shell (PSS)", pss / count / 1.048576, 0.5, " MiB")
    table.row("wake-ups of all their processes in 3 s", str(switches_of(processes) - woken))
    server = serve(environment)
    table.row(f"session/list of {count}", f"{milliseconds(lambda: server.call('session/list')):.0f} ms")
    for n in range(count):
        server.call("session/close", session=f"daemon{n}", graceMs=100)
    server.close()
    shutil.rmtree(runtime, ignore_errors=True)
