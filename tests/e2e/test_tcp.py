"""TCP: who comes in and who does not, what a crowd at the door costs, and several listeners at once.

Whoever has no token must have no effect, learn nothing and hold up nobody. G11, and faults F14, L07, T14, T15, T17, A02,
A04, A05, A11, A12, A13.
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import stat
import struct
import subprocess
import unittest

from rig import Rex, RpcError, alive, amount, binary, descriptors, family, is_sanitized, kill_quietly, memory, until
from watching import Peer, WatchCase

NOBODY = 65534
as_root = unittest.skipUnless(os.geteuid() == 0, "cannot run here: another user is needed, and only root can be one")
UNAUTHENTICATED = 1001
WRONG = "0123456789abcdef" * 4


def line(method, number=None, **params):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n"


def framed(body):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def read_all(connection):
    """Everything until the other end closes; a reset is an end too."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            data += piece
    return data


def code_of(data):
    """The code of the one answer there is, in either framing; None for no answer."""
    body = data.partition(b"\r\n\r\n")[2] or data
    return json.loads(body)["error"]["code"] if body.strip() else None


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class TcpCase(WatchCase):
    """One listening instance a class; its token is in the file that clients take by themselves."""

    rex = None

    @classmethod
    def start_rex(cls):
        cls.served = cls.start("tcp:127.0.0.1:0")
        cls.rex = cls.served  # what the rig asks about the instance of the class
        cls.place = cls.served.places[0]
        cls.token_file = cls.folder_of_sockets() / "token"

    @classmethod
    def tearDownClass(cls):
        cls.served.end()

    @classmethod
    def start(cls, *addresses, words=(), **options):
        return Served(cls.environment(), addresses, words, **options)

    def serve(self, *addresses, **options):
        served = self.start(*addresses, **options)
        self.addCleanup(served.end)
        return served

    def token(self):
        return self.token_file.read_text().strip()

    def connection(self, place=None):
        connection = socket.create_connection(place or self.place, timeout=20)
        self.addCleanup(connection.close)
        return connection

    def known(self, place=None, token=None):
        peer = Peer(place or self.place)
        self.addCleanup(peer.close)
        peer.call("initialize", token=token or self.token())
        return peer

    def refusal(self, place, token):
        """The code of the error that this token gets, which is the last that comes."""
        with self.connection(place) as connection:
            connection.sendall(line("initialize", 1, token=token))
            return code_of(read_all(connection))


class Served:
    """A `rex-rpc serve` and where it says that it listens."""

    def __init__(self, environment, addresses, words=(), flags=("--private",)):
        listen = [word for address in addresses for word in ("--listen", address)]
        self.process = subprocess.Popen([binary(), *flags, "serve", *listen, *words], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=environment, text=True)
        self.told = []
        for _ in addresses:
            self.told.append(self.process.stderr.readline())
        found = [re.search(r"tcp:\[?([\w.:]+?)\]?:(\d+),", told) for told in self.told]
        self.places = [(match[1], int(match[2])) for match in found if match]

    def end(self):
        """Ends it, and gives its exit code with what else it said."""
        if self.process.returncode is None:
            self.process.terminate()
            self.told.append(self.process.stderr.read())
            self.process.stderr.close()
        return self.process.wait(timeout=20), "".join(self.told)


class Addresses(TcpCase):
    def test_T17_what_is_not_loopback_is_refused_and_so_is_what_is_no_address(self):
        for address, said in (
                ("tcp:0.0.0.0:0", "127.0.0.1"), ("tcp:[::]:0", "[::1]"), ("tcp:10.1.2.3:0", "ssh -L"),
                ("tcp:example.org:0", "127.0.0.1"), ("tcp:[::ffff:127.0.0.1]:0", "127.0.0.1"), ("tcp:127.1:0", "127.0.0.1"),
                ("tcp:127.0.0.1", "PORT"), ("tcp:127.0.0.1:65536", "65535"), ("tcp::1", "PORT"), ("tcp:::1:1", "[::1]"),
                ("tcp:", "PORT"), ("unix:", "unix:PATH"), ("7070", "tcp:127.0.0.1:PORT"), ("nonsense", "unix:PATH")):
            with self.subTest(address):
                done = self.command("serve", "--listen", address)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)
                self.assertNotIn("listening", done.stderr)
                if address.startswith("tcp:"):
                    done = self.command("call", "--connect", address, "ping")
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(said, done.stderr)
        done = self.command("serve", "--listen", f"unix:{self.folder}/sock", "--token-file", str(self.token_file))
        self.assertEqual(done.returncode, 2)
        self.assertIn("tcp:", done.stderr)

    def test_T17_a_port_in_use_exits_with_2_and_port_0_is_one_that_is_told(self):
        self.assertNotEqual(self.place[1], 0)
        self.known().call("ping")
        path = self.folder / "sock"
        done = self.command("serve", "--listen", f"unix:{path}", "--listen", "tcp:127.0.0.1:%d" % self.place[1])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Address already in use", done.stderr)
        self.assertFalse(path.exists(), "half of it was left")
        self.known().call("ping")
        again = self.serve("tcp:127.0.0.1:0")
        live = self.known(again.places[0])
        live.call("ping")
        again.end()
        third = Served(self.environment(), ["tcp:127.0.0.1:%d" % again.places[0][1]])
        self.addCleanup(third.end)
        self.assertEqual(third.places, again.places, "a port that was just let go of can be had again")

    def test_G11_nothing_listens_on_tcp_unless_it_is_told_to(self):
        with Rex(env=self.environment()) as rex:
            rex.session().run("true")
            inodes = {os.readlink(f"/proc/{rex.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{rex.process.pid}/fd")}
            for table in ("tcp", "tcp6", "udp", "udp6"):
                rows = pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]
                self.assertFalse(inodes & {f"socket:[{row.split()[9]}]" for row in rows})

    def test_several_listeners_and_stdio_are_one_instance(self):
        path = self.folder / "sock"
        addresses = ("tcp:127.0.0.1:0", f"unix:{path}", "tcp:[::1]:0")
        if not has_ipv6():
            addresses = addresses[:2]
        argv = [word for address in addresses for word in ("--listen", address)]
        with Rex(argv=[binary(), "--private", "serve", "--stdio", *argv], env=self.environment()) as rex:
            rex.session("shared").run("x=7")
            self.assertTrue(until(lambda: len(rex.stderr) == len(addresses)), rex.stderr)
            ports = [int(port) for told in rex.stderr for port in re.findall(r"]?:(\d+),", told)]
            places = list(zip(("127.0.0.1", "::1"), ports))
            for peer in [self.known(place) for place in places] + [Peer(path)]:
                with peer:
                    self.assertEqual(peer.call("session/run", session="shared", command="echo $x")["output"], "7\n")
            last = self.known(places[0])
            pid = last.session("its-own").info["pid"]
            self.assertEqual(rex.close(), 0)
        self.assertTrue(until(lambda: not alive(pid)))
        self.assertFalse(path.exists())
        self.assertRaises(OSError, socket.create_connection, places[0])


class Token(TcpCase):
    def test_the_right_token_gives_all_there_is_and_the_wrong_one_nothing(self):
        peer = self.known()
        session = peer.session("first")
        self.assertEqual(session.output("echo served"), "served\n")
        self.assertGreater(len(peer.call("session/run", session="first", command="head -c 99999 /dev/zero | tr '\\0' x",
                                         maxOutputBytes=200_000)["output"]), 64 << 10)
        big = peer.call("process/run", command=["wc", "-c"], stdin="x" * 1_000_000)
        self.assertEqual(big["stdout"].strip(), "1000000")
        for token in ("", WRONG, self.token()[:-1], self.token() + "0", self.token().upper(), " " + self.token(), "ñ" * 32):
            with self.subTest(token):
                self.assertEqual(self.refusal(self.place, token), UNAUTHENTICATED)
        self.assertEqual(self.refusal(self.place, None), UNAUTHENTICATED)
        self.assertEqual(session.output("echo still"), "still\n")
        self.assertEqual(stat.S_IMODE(self.token_file.stat().st_mode), 0o600)
        self.assertRegex(self.token(), r"\A[0-9a-f]{64}\Z")

    def test_a_token_is_ignored_where_the_transport_tells_who_it_is(self):
        with Rex(env=self.environment()) as rex:
            self.assertIn("machine", rex.call("initialize", token=WRONG))

    def test_A11_a_token_can_be_changed_while_it_is_in_use(self):
        token_file = self.folder / "token"
        served = self.serve("tcp:127.0.0.1:0", words=("--token-file", str(token_file)))
        old = token_file.read_text().strip()
        place = served.places[0]
        live = self.known(place, old)
        session = live.session()
        fresh = self.folder / "fresh"
        fresh.touch(mode=0o600)
        fresh.write_text(WRONG + "\n")
        fresh.rename(token_file)
        self.assertEqual(self.refusal(place, old), UNAUTHENTICATED)
        self.known(place, WRONG).call("ping")
        self.assertEqual(session.output("echo goes on"), "goes on\n")
        for what, spoil in (("open to others", lambda: token_file.chmod(0o640)),
                            ("gone", token_file.unlink)):
            with self.subTest(what):
                spoil()
                self.assertEqual(self.refusal(place, WRONG), UNAUTHENTICATED)
        self.assertEqual(session.output("echo goes on"), "goes on\n")
        code, said = served.end()
        self.assertEqual(code, 0)
        self.assertIn("nobody can come in by TCP", said)
        self.assertNotIn(WRONG, said)
        self.assertNotIn(old, said)

    def test_A13_a_token_of_another_instance_is_a_wrong_one(self):
        other = self.serve("tcp:127.0.0.1:0", words=("--token-file", str(self.folder / "other")))
        token = (self.folder / "other").read_text().strip()
        self.known(other.places[0], token).call("ping")
        self.assertEqual(self.refusal(self.place, token), UNAUTHENTICATED)
        self.assertEqual(self.refusal(other.places[0], self.token()), UNAUTHENTICATED)

    def test_A12_no_member_of_initialize_takes_the_tokens_place(self):
        for params in ({"auth": "none"}, {"token": None}, {"token": ""}, {"token": []}, {"token": {}},
                       {"token": self.token(), "auth": "none"}, {"token": True}, {"processId": os.getpid()}):
            with self.subTest(params), self.connection() as connection:
                connection.sendall(line("initialize", 1, **params) + line("session/list", 2))
                answer = read_all(connection)
                self.assertEqual(answer.count(b"\n"), 1, answer)
                self.assertIn(code_of(answer), (1001, -32602))

    def test_A04_a_token_file_that_is_not_ours_alone_is_refused(self):
        token_file = self.folder / "token"
        other = self.folder / "other"
        other.touch(mode=0o600)
        other.write_text(WRONG)

        def text(content, mode=0o600):
            token_file.touch(mode=0o600)
            token_file.write_text(content)
            token_file.chmod(mode)

        for what, prepare, said in (
                ("a link", lambda: token_file.symlink_to(other), "symbolic link"),
                ("a link to nothing", lambda: token_file.symlink_to(self.folder / "nothing"), "symbolic link"),
                ("read by a group", lambda: text(WRONG, 0o640), "chmod 600"),
                ("written by others", lambda: text(WRONG, 0o602), "chmod 600"),
                ("a directory", token_file.mkdir, "no regular file"),
                ("a pipe", lambda: os.mkfifo(token_file, 0o600), "no regular file"),
                ("another's", lambda: (text(WRONG), os.chown(token_file, NOBODY, NOBODY)), "somebody else"),
                ("empty", lambda: text(""), "no token"),
                ("too short", lambda: text("secret\n"), "no token"),
                ("two lines", lambda: text(WRONG + "\n" + WRONG), "no token"),
                ("too long", lambda: text("x" * 5000), "more than 4096 bytes")):
            with self.subTest(what):
                if what == "another's" and os.geteuid() != 0:
                    continue
                prepare()
                self.addCleanup(token_file.unlink, missing_ok=True)
                words = ("serve", "--listen", "tcp:127.0.0.1:0", "--token-file", str(token_file))
                done = self.command(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)
                self.assertNotIn(WRONG, done.stderr)
                if what != "a link to nothing":
                    address = "tcp:127.0.0.1:%d" % self.place[1]
                    done = self.command("call", "--connect", address, "--token-file", str(token_file), "ping")
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(said, done.stderr)
                if what == "a directory":
                    token_file.rmdir()
                else:
                    token_file.unlink()
        self.assertFalse((self.folder / "nothing").exists())
        run = self.folder / "run"
        (run / "rex-rpc").mkdir(parents=True)
        (run / "rex-rpc").chmod(0o777)
        done = subprocess.run([binary(), "serve", "--listen", "tcp:127.0.0.1:0"], capture_output=True, check=False,
                              env=self.environment(XDG_RUNTIME_DIR=str(run)), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"open to others", done.stderr)
        self.assertEqual(list((run / "rex-rpc").iterdir()), [])

    def test_many_that_start_at_once_make_one_token(self):
        token_file = self.folder / "token"
        many = [subprocess.Popen([binary(), "--private", "serve", "--listen", "tcp:127.0.0.1:0", "--token-file", token_file],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment())
                for _ in range(8)]
        try:
            told = [process.stderr.readline() for process in many]
            token = token_file.read_text().strip()
            for one in told:
                port = int(re.search(r":(\d+),", one)[1])
                self.known(("127.0.0.1", port), token).call("ping")
            self.assertEqual([path.name for path in self.folder.iterdir()], ["token"])
        finally:
            for process in many:
                process.kill()
                process.wait()
                process.stderr.close()

    def test_A08_no_secret_is_seen_outside_files_of_ours_alone(self):
        token_file = self.folder / "token"
        token_file.touch(mode=0o600)
        token, typed, given, guessed = (f"canary{number}" * 4 for number in range(4))
        token_file.write_text(token)
        served = self.serve("tcp:127.0.0.1:0", words=("--token-file", str(token_file)), flags=("--private", "--log", "debug"))
        pid, place = served.process.pid, served.places[0]
        with self.connection(place) as stranger:
            stranger.sendall(line("initialize", 1, token=guessed))
            self.assertNotIn(guessed, read_all(stranger).decode())
        peer = self.known(place, token)
        session = peer.session("main", env={"GIVEN": given})
        asked = session.run("read -rs -p 'Password: ' x; sleep 1000", waitMs=20_000)
        self.assertEqual(asked["state"], "waitingInput", asked)
        session.call("write", data=typed, submit=True, secret=True)
        with self.assertRaises(RpcError):
            peer.call("session/create", session="main", env={"GIVEN": given})
        peer.session("long").run("head -c 3000000 /dev/zero | tr '\\0' x")  # more than is kept in memory

        canaries = (token, typed, given, guessed)
        for process in (entry for entry in os.listdir("/proc") if entry.isdigit()):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
                self.assertFalse([canary for canary in canaries if canary in words], words)
        for process in {pid, *family(pid)} - {session.info["pid"]}:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{process}/exe") == os.path.realpath(binary()):
                    words = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")
                    self.assertFalse([canary for canary in canaries if canary in words], words)
        journals = [path for path in pathlib.Path(f"/proc/{pid}/fd").iterdir()
                    if os.readlink(path).endswith(" (deleted)") and not os.readlink(path).startswith("/memfd:")]
        self.assertEqual([oct(path.stat().st_mode & 0o077) for path in journals], ["0o0"] * len(journals))
        self.assertTrue(journals, "nothing that is written was looked at")
        peer.close()
        _, said = served.end()
        self.assertIn("listening", said)
        self.assertFalse([canary for canary in canaries if canary in said], said)

    @as_root
    def test_A05_another_user_reads_no_token_and_comes_in_without_none(self):
        script = ("import os, socket, sys\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
                  "try:\n print(open(sys.argv[2]).read())\nexcept PermissionError:\n print('no')\n"
                  "s = socket.socket()\ns.connect(('127.0.0.1', int(sys.argv[1])))\n"
                  "s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\\n')\nprint(s.recv(999).decode())")
        pathlib.Path(self.runtime).chmod(0o711)
        done = subprocess.run(["python3", "-c", script, str(self.place[1]), self.token_file], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "no")
        self.assertIn("Unauthenticated", done.stdout)


class Strangers(TcpCase):
    def payloads(self):
        """What a stranger may send, and the code of the one answer to it; None for no answer."""
        run = line("process/run", 1, command=f"touch {self.folder}/effect")
        wrong = line("initialize", 1, token=WRONG)
        post = (b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s")
        upgrade = (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        return (
            ("HTTP POST", post % (b"127.0.0.1", len(run), run), None),
            ("DNS rebinding", post % (b"rebound.example.org", len(run), run), None),
            ("HTTP GET", b"GET /?x=%s HTTP/1.0\r\n\r\n" % run.strip(), None),
            ("CONNECT", b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n" + framed(run), None),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
            ("WebSocket", upgrade, None),
            ("TLS", bytes.fromhex("1603010200010001fc0303") + bytes(500), None),
            ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", None),
            ("PROXY v1", b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + run, None),
            ("PROXY v2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12) + run, None),
            ("Redis", b"*1\r\n$4\r\nPING\r\n", None),
            ("headers of a browser", b"Content-Length: %d\r\nHost: a\r\n\r\n%s" % (len(run), run), None),
            ("a request", run, -32002),
            ("a request in a frame", framed(run), -32002),
            ("a request before initialize", run + line("initialize", 2, token=self.token()), -32002),
            ("a batch", b"[" + run.strip() + b"," + wrong.strip() + b"]\n", None),
            ("a batch with the token behind", b"[%s,%s]\n" % (
                run.strip(), line("initialize", 2, token=self.token()).strip()), None),
            ("a notification", line("process/run", command=f"touch {self.folder}/effect") + run, None),
            ("exit", line("exit") + run, None),
            ("no JSON", b"{]\n" + run, -32700),
            ("no token", line("initialize", 1) + run, 1001),
            ("a wrong token", wrong + run, 1001),
            ("the token behind a wrong one", wrong + line("initialize", 2, token=self.token()) + run, 1001),
            ("a token in the wrong place", line("ping", 1, token=self.token()) + run, -32002),
            ("a large frame", b"Content-Length: 65537\r\n\r\n" + b" " * 65537 + framed(run), 1201),
            ("a huge frame", b"Content-Length: 9007199254740991\r\n\r\n" + run, 1201),
            ("a large line", b'{"x":"' + b"x" * 70_000 + b'"}\n' + run, 1201),
            ("an endless line", b'{"x":"' + b"x" * 70_000, 1201),
            ("an endless header", b"Content-Length: " + b" " * 5000, None),
            ("bytes of a stream", b"Content-Type: application/vnd.rex.data; stream=1\r\n" + framed(b"x"), -32600),
            ("a stream", line("$/stream/open", stream=1, kind="client") + run, None),
            ("nothing", b"", None),
        )

    def test_G11_F14_what_is_not_initialize_with_the_token_ends_without_an_effect(self):
        live = self.known()
        for what, data, code in self.payloads():
            with self.subTest(what), self.connection() as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(data)
                    if what == "nothing":
                        connection.shutdown(socket.SHUT_WR)
                answer = read_all(connection)
                self.assertNotIn(b"HTTP", answer)
                self.assertEqual(code_of(answer), code, answer)
                live.call("ping")
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_G11_who_says_too_little_is_shown_out_and_holds_up_nobody(self):
        silent = [self.connection() for _ in range(20)]
        slow = [self.connection() for _ in range(20)]
        begun = b"Content-Length: 60000\r\n\r\n" + b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
        for connection in slow:
            connection.setblocking(False)
        sent = 0

        def drip():
            nonlocal sent
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.send(begun[sent:sent + 1] or b" ")
            sent += 1
            return all(self.is_closed(connection) for connection in slow)

        peer = self.known()
        self.assertTrue(until(drip, 30), "a slow one was never shown out")
        for connection in silent:
            self.assertEqual(read_all(connection), b"")
        self.assertGreater(sent, 1)
        peer.call("ping")
        self.known().call("ping")

    @staticmethod
    def is_closed(connection):
        try:
            return connection.recv(65536) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def test_L07_G11_ten_thousand_who_only_connect_cost_little_and_keep_nobody_out(self):
        pid = self.served.process.pid
        live = self.known()
        before = memory(pid, "VmRSS")
        crowd = []
        for number in range(amount(1000, 10_000)):
            crowd.append(self.connection_without_a_cleanup())
            if number % 100 == 99:
                live.call("ping")
                self.known().close()
            if len(crowd) > 300:
                crowd.pop(0).close()
        self.assertLess(descriptors(pid), 3 * 64 + 40)
        if not is_sanitized():  # whose memory is mostly the sanitizer's
            self.assertLess(memory(pid) - before, 64 << 20)
        for connection in crowd:
            connection.close()
        self.assertTrue(until(lambda: descriptors(pid) < 40), "descriptors are left")
        self.known().call("ping")

    def connection_without_a_cleanup(self):
        return socket.create_connection(self.place, timeout=20)

    def test_A02_who_guesses_gets_one_slow_try_a_connection_and_keeps_nobody_out(self):
        live = self.known()
        tried = dict.fromkeys((1001, None), 0)
        guess = line("initialize", 1, token=WRONG)
        for _ in range(amount(5, 100)):
            guesses = [self.connection_without_a_cleanup() for _ in range(100)]
            for connection in guesses:
                with contextlib.suppress(ConnectionError):  # shown out already: others came after it
                    connection.sendall(guess + guess)
            self.known().close()
            live.call("ping")
            for connection in guesses:
                tried[code_of(read_all(connection))] += 1
                connection.close()
        self.assertGreater(tried[1001], 0, "those that had no place any more are not answered, all others are")
        self.known().call("ping")


class Streams(TcpCase):
    def test_T14_what_was_asked_before_the_input_ended_is_answered(self):
        for frame in (bytes, lambda body: framed(body.strip())):
            with self.connection() as connection:
                asked = line("process/run", 2, command="read x < /dev/null; sleep 0.3; echo late")
                connection.sendall(frame(line("initialize", 1, token=self.token())) + frame(asked))
                connection.shutdown(socket.SHUT_WR)
                self.assertIn(b'"stdout":"late\\n"', read_all(connection))

    def test_T14_half_a_request_before_a_reset_is_no_request(self):
        marker = self.folder / "effect"
        request = line("process/run", 2, command=f"touch {marker}").strip()
        connection = self.connection()
        connection.sendall(framed(line("initialize", 1, token=self.token()).strip()))
        connection.recv(65536)
        connection.sendall(framed(request)[:-1])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        whole = self.connection()
        whole.sendall(line("initialize", 1, token=self.token()) + line("process/run", 2, command=f"ls {self.folder}"))
        whole.shutdown(socket.SHUT_WR)
        self.assertIn(b'"stdout":""', read_all(whole))
        self.assertFalse(marker.exists())

    def test_T14_a_client_that_vanishes_takes_its_sessions_along(self):
        for what in ("closed", "reset"):
            with self.subTest(what):
                peer = self.known()
                session = peer.session(f"of-one-{what}")
                session.run("sleep 1000 & echo", waitMs=10_000)
                session.start("run", command="sleep 1000")
                self.assertTrue(until(lambda session=session: session.call("info")["state"] == "running"))
                if what == "reset":
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
                self.assertTrue(until(lambda session=session: not alive(session.info["pid"])), "its shell lives on")
        self.assertEqual(self.known().call("session/list")["sessions"], [])

    def test_T15_many_small_answers_are_not_held_together(self):
        """Looked at in the program's own sockets, copied to where they can be asked."""
        self.known().call("ping")
        script = ("import ctypes, os, socket, sys\npid = os.pidfd_open(int(sys.argv[1]))\nlibc = ctypes.CDLL(None)\n"
                  "for fd in range(3, 200):\n copy = libc.syscall(438, pid, fd, 0)\n if copy < 0: continue\n"
                  " try: its = socket.socket(fileno=copy); its.getpeername()\n except OSError: continue\n"
                  " if its.family == socket.AF_INET: print(its.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))\n")
        done = subprocess.run(["python3", "-c", script, str(self.served.process.pid)], capture_output=True, text=True,
                              check=False)
        if not done.stdout:
            self.skipTest("cannot run here: the descriptors of another process cannot be copied (pidfd_getfd)")
        self.assertEqual(set(done.stdout.split()), {"1"}, done.stderr)


class CommandLine(TcpCase):
    def address(self):
        return "tcp:127.0.0.1:%d" % self.place[1]

    def test_every_client_command_goes_by_tcp_too(self):
        peer = self.known()
        peer.session("watched").run("echo seen")
        at = ("--connect", self.address())
        done = self.command("run", *at, "echo out; exit 9")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (9, "out\n", ""))
        done = self.command("call", *at, "session/info", '{"session": "watched"}')
        self.assertEqual(json.loads(done.stdout)["session"], "watched")
        self.assertIn("/watched ", self.command("sessions", *at).stdout)
        self.assertEqual(self.command("logs", *at, "watched").stdout, "seen\n")
        self.assertEqual(self.command("call", "--connect", self.address().replace(":", "://", 1), "ping").returncode, 0)
        done = self.command("kill", *at, "watched")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(peer.call("session/list")["sessions"], [])

    def test_a_token_that_is_wrong_or_missing_is_said(self):
        wrong = self.folder / "wrong"
        wrong.touch(mode=0o600)
        wrong.write_text(WRONG)
        for token_file, said in ((wrong, "Unauthenticated"), (self.folder / "none", "No such file")):
            done = self.command("call", "--connect", self.address(), "--token-file", str(token_file), "ping")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(said, done.stderr)
        self.assertFalse((self.folder / "none").exists())
        free = self.serve("tcp:127.0.0.1:0")
        free.end()
        done = self.command("call", "--connect", "tcp:127.0.0.1:%d" % free.places[0][1], "ping")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Connection refused", done.stderr)

    def test_a_listener_that_says_nothing_is_told_as_that(self):
        deaf = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(deaf.close)
        process = subprocess.Popen([binary(), "call", "--connect", "tcp:127.0.0.1:%d" % deaf.getsockname()[1], "ping"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(), text=True)
        self.addCleanup(kill_quietly, process.pid)
        stranger, _ = deaf.accept()
        first = stranger.recv(65536)
        self.assertIn(b'"initialize"', first)
        stranger.close()
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertIn("HostLost", err)


if __name__ == "__main__":
    unittest.main()
