"""Two machines' networks with one wire between them, which can be slow, lossy, cut or whole again.

As a module: Wire. As a program it is the wire: two network namespaces, a TUN device in each, and packets carried
between them. Orders come on stdin, a line each: `delay MS`, `jitter MS` (which reorders), `loss PERCENT`, `rate
BYTES_A_SECOND`, `cut [END]` (what END sends, else all) and `mend`, which ends them all. Needs root and /dev/net/tun.
Must not know rex-rpc.
"""

import contextlib
import ctypes
import fcntl
import glob
import heapq
import itertools
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

ADDRESSES = ("10.213.57.1", "10.213.57.2")

MOST_QUEUED = 2.0  # seconds of packets before a slow wire
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000


class Wire:
    def __init__(self):
        self._program = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._spaces = json.loads(self._program.stdout.readline())

    def inside(self, end):
        """What to write before a command that is to run at that end, 0 or 1."""
        return ["nsenter", f"--net=/proc/{self._program.pid}/fd/{self._spaces[end]}", "--"]

    def order(self, text):
        """Holds for every packet that comes from now on."""
        self._program.stdin.write(text + "\n")
        self._program.stdin.flush()
        assert self._program.stdout.readline() == "done\n"

    def close(self):
        """Ends all who live at its ends too: behind a wire that is cut nobody hears that they are let go of."""
        spaces = {os.readlink(f"/proc/{self._program.pid}/fd/{space}") for space in self._spaces}
        for link in glob.glob("/proc/[0-9]*/ns/net"):
            pid = int(link.split("/")[2])
            with contextlib.suppress(OSError):
                if pid != self._program.pid and os.readlink(link) in spaces:
                    os.kill(pid, signal.SIGKILL)
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


def make_end(address, other):
    """A namespace of its own with a device in it: (device, namespace), both descriptors."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN | IFF_NO_PI))
    for words in ("link set lo up", f"addr add {address} peer {other} dev wire", "link set wire up"):
        subprocess.run(["ip", *words.split()], check=True)
    return device, os.open("/proc/self/ns/net", os.O_RDONLY)


class Direction:
    """What becomes of a packet that was read at one end."""

    def __init__(self, target, chance):
        self.target, self.chance = target, chance
        self.delay = self.jitter = self.loss = self.rate = 0.0
        self.cut = False
        self.busy = 0.0  # until when the packets before this one take the wire

    def arrival(self, packet):
        """When it comes out at the other end; None when it is lost."""
        now = time.monotonic()
        if self.cut or self.chance.random() * 100 < self.loss or self.busy - now > MOST_QUEUED:
            return None
        if self.rate:
            self.busy = max(self.busy, now) + len(packet) / self.rate
        return max(self.busy, now) + self.delay + self.chance.random() * self.jitter


def obey(directions, order):
    word, *numbers = order.split()
    if word == "cut":
        chosen = [directions[int(numbers[0])]] if numbers else directions
        for direction in chosen:
            direction.cut = True
    elif word == "mend":
        for direction in directions:
            direction.cut, direction.delay, direction.jitter, direction.loss, direction.rate = False, 0, 0, 0, 0
    else:
        for direction in directions:
            setattr(direction, word, float(numbers[0]) / (1000 if word in ("delay", "jitter") else 1))


def carry(devices):
    chance = random.Random(57)
    directions = [Direction(target, chance) for target in reversed(devices)]
    on_the_way, numbers = [], itertools.count()
    while True:
        wait = max(on_the_way[0][0] - time.monotonic(), 0) if on_the_way else None
        ready, _, _ = select.select([*devices, sys.stdin], [], [], wait)
        for device, direction in zip(devices, directions):
            if device in ready:
                packet = os.read(device, 65536)
                arrival = direction.arrival(packet)
                if arrival is not None:
                    heapq.heappush(on_the_way, (arrival, next(numbers), direction.target, packet))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(on_the_way)
            try:
                os.write(target, packet)
            except OSError:
                pass  # its queue is full: a packet is lost, as on any wire
        if sys.stdin in ready:
            order = sys.stdin.readline()
            if not order:
                return
            obey(directions, order)
            print("done", flush=True)


def main():
    ends = [make_end(*ADDRESSES), make_end(*reversed(ADDRESSES))]
    print(json.dumps([space for _, space in ends]), flush=True)
    carry([device for device, _ in ends])


if __name__ == "__main__":
    main()
