"""What the tests of waiting need around them: an ordinary user, and servers that wait, on loopback only.

Must not know rex-rpc.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import struct
import threading

USER = pwd.getpwnam("nobody")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AS_USER = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups", "--"]


def program(name):
    """Where an ordinary user finds it."""
    return shutil.which(name, path=PATH)


def environment(home):
    passed = {name: os.environ[name] for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": "/tmp", "USER": "nobody", **passed}


def copy_for_all(path, folder):
    """The program at `path` where any user may execute it."""
    os.chmod(folder, 0o755)
    return shutil.copy(path, pathlib.Path(folder) / "rex-rpc")


class Server(threading.Thread):
    """Hands each connection to `serve`, which keeps it open for as long as the test runs."""

    def __init__(self, serve):
        super().__init__(daemon=True)
        self._serve = serve
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self._serve(connection)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()


def slow_download(connection):
    """Says that much will come, and sends a little of it."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100)


def database(connection):
    """Speaks as much PostgreSQL as a query needs that never gets its answer."""

    def message(kind, body):
        return kind + struct.pack(">i", len(body) + 4) + body

    size = struct.unpack(">i", connection.recv(4))[0]
    connection.recv(size - 4)
    settings = [b"server_version\x0015.0\0", b"client_encoding\0UTF8\0", b"standard_conforming_strings\0on\0"]
    connection.sendall(message(b"R", struct.pack(">i", 0)) + b"".join(message(b"S", each) for each in settings)
                       + message(b"Z", b"I"))
