"""Processes that try to outlive what started them, one kind a word: runaways.py KIND MARK.

MARK is only there to be found in their command lines. Each kind prints `up` once it has run away, and its first
process then waits for ever, but for `headless`.
"""

import ctypes
import os
import pathlib
import platform
import signal
import sys
import threading
import time

CLONE = {"x86_64": 56, "aarch64": 220}
EXIT = {"x86_64": 60, "aarch64": 93}  # of one thread
LIBC = ctypes.CDLL(None, use_errno=True)


def forever():
    while True:
        time.sleep(0.05)


def in_child(work):
    if os.fork() == 0:
        work()
        os._exit(0)


def own_session():
    """A session of its own, so no signal of the terminal reaches it."""

    def work():
        os.setsid()
        forever()

    in_child(work)


def daemon():
    """Forked twice: its parent is gone before anybody looks."""

    def work():
        os.setsid()
        in_child(forever)

    in_child(work)


def deaf():
    def work():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        forever()

    in_child(work)


def stopped():
    def work():
        os.kill(os.getpid(), signal.SIGSTOP)
        forever()

    in_child(work)


def hopper():
    """Never the same process for long: it forks and ends, again and again."""

    def work():
        os.setsid()
        while os.fork() == 0:
            pass

    in_child(work)


def swarm():
    for _ in range(16):
        hopper()


def reborn():
    """Asked to end, it starts another one of itself and ends."""

    def work():
        def again(*_):
            in_child(work)
            os._exit(0)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, again)
        forever()

    in_child(work)


def odd():
    """A child that tells nobody of its end, and one whose parent the kernel holds until it ends."""
    if LIBC.syscall(CLONE[platform.machine()], 0, 0, 0, 0, 0) == 0:
        forever()
    in_child(lambda: signal.pause() if LIBC.vfork() == 0 else None)


def traced():
    """Stopped by its tracer, which never lets it go on."""

    def tracer():
        def tracee():
            LIBC.ptrace(0, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            forever()

        in_child(tracee)
        os.wait()  # a tracer is told of the stop
        forever()

    in_child(tracer)


def crowd():
    """Many, in groups of their own."""

    def work():
        os.setpgid(0, 0)
        for _ in range(4):
            in_child(forever)
        forever()

    for _ in range(6):
        in_child(work)


def headless():
    """Its first thread has ended, so it looks like a zombie, while another goes on."""
    told, tell = os.pipe()

    def rest():
        while pathlib.Path(f"/proc/{os.getpid()}/stat").read_text(encoding="utf-8").split()[2] != "Z":
            time.sleep(0.01)
        os.write(tell, b"x")
        forever()

    def work():
        threading.Thread(target=rest).start()
        LIBC.syscall(EXIT[platform.machine()], 0)

    in_child(work)
    os.read(told, 1)


KINDS = {each.__name__: each for each in (own_session, daemon, deaf, stopped, hopper, reborn, odd, traced, crowd)}

if __name__ == "__main__":
    {**KINDS, "swarm": swarm, "headless": headless}[sys.argv[1]]()
    print("up", flush=True)
    if sys.argv[1] != "headless":
        forever()
