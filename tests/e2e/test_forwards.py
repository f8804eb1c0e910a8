"""forward/*: callers on one host, served as another host sees it, with every byte and both half-closes.

Must not know how the bytes travel. Each test runs at 0, 1 and 2 hops, in both directions.
"""

import contextlib
import os
import queue
import socket
import struct
import threading

from rig import Rex, RexCase, RpcError, until

MEGABYTE = 1 << 20


class Echo:
    """A server on the loopback that gives back what it reads, and ends when its caller does."""

    def __init__(self, case):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp:127.0.0.1:%d" % self.listener.getsockname()[1]
        case.addCleanup(self.listener.close)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self.listener.accept()
                threading.Thread(target=self._echo, args=(caller,), daemon=True).start()

    @staticmethod
    def _echo(caller):
        with caller, contextlib.suppress(OSError):
            while data := caller.recv(65536):
                caller.sendall(data)


def call_at(address):
    kind, rest = address.split(":", 1)
    if kind == "unix":
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(30)
        caller.connect(rest)
        return caller
    host, port = rest.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=30)


def all_of(caller):
    data = b""
    while piece := caller.recv(MEGABYTE):
        data += piece
    return data


class Forwards(RexCase):
    def each_way(self):
        """(rex, host that listens, host that connects), near and far, for 0, 1 and 2 hops."""
        for hops in (0, 1, 2):
            rex = Rex(hops=hops)
            self.addCleanup(rex.close)
            for listens, connects in {("", rex.host), (rex.host, "")}:
                with self.subTest(hops=hops, listens=listens):
                    yield rex, listens, connects

    def open(self, rex, listens, connects, to, at="tcp:127.0.0.1:0"):
        return rex.call("forward/open", host="", listen={"host": listens, "address": at},
                        connect={"host": connects, "address": to})

    def test_every_byte_arrives_both_ways_and_so_do_both_ends(self):
        echo = Echo(self)
        sent = os.urandom(3 * MEGABYTE + 17)
        for rex, listens, connects in self.each_way():
            with call_at(self.open(rex, listens, connects, echo.address)["address"]) as caller:
                received = []
                reader = threading.Thread(target=lambda: received.append(all_of(caller)))
                reader.start()
                caller.sendall(sent)
                caller.shutdown(socket.SHUT_WR)
                reader.join(60)
                self.assertTrue(received == [sent], f"{len(received and received[0])} bytes of {len(sent)} came back")

    def test_callers_are_kept_apart_and_counted(self):
        echo = Echo(self)
        for rex, listens, connects in self.each_way():
            forward = self.open(rex, listens, connects, echo.address, f"unix:{self.folder}/{len(listens)}{len(rex.host)}")
            with contextlib.ExitStack() as stack:
                callers = [stack.enter_context(call_at(forward["address"])) for _ in range(20)]
                for number, caller in enumerate(callers):
                    caller.sendall(b"%d" % number)
                    caller.shutdown(socket.SHUT_WR)
                for number, caller in enumerate(callers):
                    self.assertEqual(all_of(caller), b"%d" % number)
            listed = [f for f in rex.call("forward/list", host="")["forwards"] if f["forward"] == forward["forward"]]
            self.assertEqual([f["connections"] for f in listed], [20])

    def test_a_closed_forward_takes_no_more_callers_and_ends_none(self):
        echo = Echo(self)
        for rex, listens, connects in self.each_way():
            forward = self.open(rex, listens, connects, echo.address)
            with call_at(forward["address"]) as caller:
                caller.sendall(b"before")
                self.assertEqual(caller.recv(6), b"before")
                rex.call("forward/close", host="", forward=forward["forward"])
                with self.assertRaises(ConnectionRefusedError):
                    call_at(forward["address"])
                caller.sendall(b"after")
                self.assertEqual(caller.recv(5), b"after")

    def test_a_forward_ends_with_its_client(self):
        echo = Echo(self)
        for hops in (0, 2):
            with self.subTest(hops=hops), Rex(hops=hops) as rex:
                address = self.open(rex, rex.host, "", echo.address)["address"]
                with call_at(address) as caller:
                    caller.sendall(b"x")
                    self.assertEqual(caller.recv(1), b"x")
                    rex.close()
                    self.assertEqual(caller.recv(1), b"")
                with self.assertRaises(ConnectionRefusedError):
                    call_at(address)

    def test_nobody_to_connect_to_ends_the_caller_alone(self):
        unused = socket.create_server(("127.0.0.1", 0))
        nobody = "tcp:127.0.0.1:%d" % unused.getsockname()[1]
        unused.close()
        for rex, listens, connects in self.each_way():
            forward = self.open(rex, listens, connects, nobody)
            for _ in range(2):
                with call_at(forward["address"]) as caller, contextlib.suppress(ConnectionResetError):
                    self.assertEqual(caller.recv(1), b"")

    def test_a_reset_of_either_side_reaches_the_other(self):
        for rex, listens, connects in self.each_way():
            served = queue.Queue()
            with socket.create_server(("127.0.0.1", 0)) as target:
                threading.Thread(target=lambda: [served.put(target.accept()[0]) for _ in range(2)], daemon=True).start()
                forward = self.open(rex, listens, connects, "tcp:127.0.0.1:%d" % target.getsockname()[1])
                for far_resets in (False, True):
                    caller = call_at(forward["address"])
                    caller.sendall(b"x")
                    far = served.get(timeout=30)
                    far.settimeout(30)
                    self.assertEqual(far.recv(1), b"x")
                    ends, told = (far, caller) if far_resets else (caller, far)
                    ends.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    ends.close()
                    with told, contextlib.suppress(ConnectionResetError):
                        self.assertEqual(told.recv(1), b"", far_resets)

    def test_only_this_machine_is_listened_to(self):
        for address, kind in {"tcp:0.0.0.0:0": "NotPermitted", "tcp:[::]:0": "NotPermitted", "tcp:1": "InvalidParams",
                              "unix:/no/such/folder/s": "OsError", "unix:/tmp/a\0b": "InvalidParams",
                              "http://x": "InvalidParams"}.items():
            with self.subTest(address=address):
                self.refused(kind, self.open, self.rex, self.rex.host, "", "tcp:127.0.0.1:1", address)
        self.assertEqual(self.rex.call("forward/list", host="")["forwards"], [])

    def test_a_ticket_that_nobody_gave_opens_nothing(self):
        echo = Echo(self)
        with self.assertRaises(RpcError):
            self.rex.call("forward/connect", address=echo.address, ticket="0" * 32)
        self.assertTrue(until(lambda: self.rex.call("ping")))
