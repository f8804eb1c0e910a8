"""Clients that start a server for next time and end (A6, A7, A8): the command is over when the client is.

What is started holds the terminal of the command for as long as it lives, as those of git, ssh and build tools do.
"""

import base64
import http.server
import os
import subprocess
import threading
import unittest

import waiting_world as world
from rig import RexCase, alive, in_shells, needs, until
from ssh_server import SshServer

# What gradle, bazel, vite and docker do: the first call starts a server that keeps its output, and every call is
# answered by it.
BUILD_TOOL = r"""
import os, socket, sys
path = sys.argv[1]
def ask():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        sys.stdout.write(client.makefile().readline())
def serve(server):
    os.setsid()
    while True:
        client, _ = server.accept()
        client.sendall(b"built by %d\n" % os.getpid())
        client.close()
try:
    ask()
except OSError:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    if os.fork() == 0:
        serve(server)
    server.close()
    ask()
"""


class Repository(http.server.ThreadingHTTPServer):
    """A git repository behind a password: u, p."""

    daemon_threads = True

    def __init__(self, folder):
        subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
        git = ["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e"]
        tree = subprocess.run([*git, "mktree"], check=True, capture_output=True, text=True, input="").stdout.strip()
        commit = subprocess.run([*git, "commit-tree", tree, "-m", "m"], check=True, capture_output=True, text=True)
        subprocess.run([*git, "update-ref", "HEAD", commit.stdout.strip()], check=True)
        subprocess.run([*git, "update-server-info"], check=True)
        super().__init__(("127.0.0.1", 0), lambda *args: Guarded(*args, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class Guarded(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers["Authorization"] == "Basic " + base64.b64encode(b"u:p").decode():
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="r"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_):
        pass


class LeftBehind(RexCase):
    def over(self, session, command, left, **members):
        """The command ends although a process called `left` goes on, which is named; returns its pid."""
        result = self.ended(session.run(command, timeoutMs=60_000), **members)
        named = [each["pid"] for each in result["survivors"] if each["command"].startswith(left)]
        self.assertEqual(len(named), 1, result)
        self.assertTrue(alive(named[0]))
        return named[0]

    def ends_with(self, session, pid):
        self.usable(session)
        self.assertEqual(session.call("close")["survivors"], [])
        self.assertTrue(until(lambda: not alive(pid), 2))

    @needs("git")
    @in_shells("bash", "dash")
    def test_A6_git_is_over_when_it_ends_although_its_helper_keeps_a_password(self, session):
        server = Repository(self.folder / "far.git")
        self.addCleanup(server.close)
        sockets = self.folder / "sockets"
        sockets.mkdir(mode=0o700)
        helper = f"cache --timeout=900 --socket={sockets}/s"
        asked = self.folder / "asked"
        asked.write_text("#!/bin/sh\ncase $1 in User*) echo u;; *) echo p;; esac\n")
        asked.chmod(0o755)
        session.run(f"git init -q {self.folder}/near; cd {self.folder}/near; export HOME={self.folder}; "
                    f"export GIT_ASKPASS={asked} no_proxy=127.0.0.1")
        fetch = f"git -c 'credential.helper={helper}' fetch http://127.0.0.1:{server.server_port}/"
        daemon = self.over(session, fetch, "git")
        again = self.ended(session.run(fetch.replace("git -c", "GIT_ASKPASS=false git -c")))
        self.assertEqual(again["survivors"], [])
        self.ends_with(session, daemon)

    @needs("ssh", "sshd")
    @in_shells("bash", "zsh")
    def test_A7_ssh_is_over_when_its_command_ends_although_its_master_stays(self, session):
        server = SshServer.of(self)
        ssh = f"{server.trusted()} -o ControlPath={server.folder}/master"
        master = self.over(session, f"{ssh} -o ControlMaster=auto -o ControlPersist=10m 'exit 3'", "ssh", code=3)
        self.assertTrue(self.ended(session.run(f"{ssh} echo again"))["output"].endswith("again\n"))
        self.assertTrue(alive(master), "left alone")
        self.ends_with(session, master)

    @in_shells()
    def test_A8_a_build_tools_client_is_over_although_its_server_keeps_the_terminal(self, session):
        tool = self.folder / "tool"
        tool.write_text(BUILD_TOOL)
        command = f"python3 {tool} {self.folder}/socket"
        server = self.over(session, command, "python3")
        again = self.ended(session.run(command), output=f"built by {server}\n")
        self.assertEqual(again["survivors"], [])
        self.ends_with(session, server)


if __name__ == "__main__":
    unittest.main()
