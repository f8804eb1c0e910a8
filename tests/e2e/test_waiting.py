"""Whether a program waits for its terminal is said when it does, and never else (B1, B2, B4, B5, B6, B9, B10, B13).

The matrix runs as root (where the tests do) and as an ordinary user. "Never" is a call that must run out its time: it
would come back the moment anything was claimed.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import waiting_world as world
from rig import RexCase, Rex, amount, binary, long_only, needs, until
from ssh_server import SshServer

PATIENCE_MS = 60_000  # for what must come
NEVER_MS = 700  # for what must not
ROUNDS = amount(1, 20)
DEBCONF = """Config: config
Templates: templates

Name: config
Driver: File
Filename: {0}/config.dat

Name: templates
Driver: File
Mode: 644
Filename: {0}/templates.dat
"""
QUESTION = "Template: demo/sure\nType: boolean\nDefault: false\nDescription: Sure?\n Think twice.\n"
ASKS = ". /usr/share/debconf/confmodule\ndb_x_loadtemplatefile {0}/demo.templates demo\ndb_input critical demo/sure\ndb_go\n"
MAKEFILE = "all: a b c d\na b c d:\n\tsleep 60\n"

# name: (command, programs it needs, what must be told beside `reading`)
READING = {
    "read": ("read -p 'name? ' x", [], {"kind": "line", "command": "bash", "text": "name? "}),
    "read after a silence": ("sleep 0.3; read x", [], {"kind": "line"}),
    "read -s": ("read -s -p 'password: ' x", [], {"kind": "secret", "text": "password: "}),
    "python input": ("python3 -c 'input(\"? \")'", [], {"kind": "line", "text": "? "}),
    "python getpass": ("python3 -c 'import getpass; getpass.getpass()'", [], {"kind": "secret", "text": "Password: "}),
    "sudo": ("{as_user}sudo -k true", ["sudo"], {"kind": "secret", "command": "sudo"}),
    "ssh to a new host": ("{ssh_new} true", ["ssh", "sshd"], {"kind": "line", "command": "ssh"}),
    "git commit": ("git -c init.defaultBranch=m init -q r && cd r && git -c user.name=n -c user.email=e commit --allow-empty", ["git", "vim.tiny"],
                   {"kind": "editor"}),
    "less": ("less /etc/passwd", ["less"], {"kind": "pager"}),
    "less of a pipe": ("seq 1000 | less", ["less"], {"kind": "pager"}),
    "vim": ("vim.tiny {home}/f", ["vim.tiny"], {"kind": "editor"}),
    "apt dialogue": ("debconf -fdialog sh {home}/asks", ["debconf", "whiptail"], {"kind": "fullscreen"}),
    "gdb": ("gdb -q -nx /bin/true", ["gdb"], {"kind": "line", "command": "gdb", "text": "(gdb) "}),
    "ipython": ("ipython3 --no-banner", ["ipython3"], {"kind": "line"}),
    "cat": ("cat", [], {"kind": "line", "command": "cat"}),
    "select in a pipeline": ("select a in x y; do echo $a; break; done | cat", [], {"kind": "line", "text": "#? "}),
    "rm -i": ("touch g; rm -i g", [], {"kind": "line", "command": "rm"}),
    "a shell in a shell": ("bash --norc", [], {"kind": "line", "command": "bash"}),
    "script": ("script -qc cat /dev/null", ["script"], {"kind": "line", "command": "cat"}),
    "setsid -w": ("setsid -w cat", ["setsid"], {"kind": "line", "command": "cat"}),
}
# A job that is over although the terminal is still its own: its shell has not come to that yet.
OVER = ("python3 -c 'import os, signal, time; signal.signal(signal.SIGTTOU, signal.SIG_IGN); child = os.fork(); "
        'child or (os.setpgid(0, 0), os.tcsetpgrp(0, os.getpid()), os.execvp("stty", ["stty", "-echo"])); %stime.sleep(60)\'')
NEITHER = {
    "sleep": ("sleep 60", []),
    "make -j": ("make -s -j4 -f {home}/Makefile", ["make"]),
    "busy loop": ("while :; do :; done", []),
    "busy python": ("python3 -c 'while True: pass'", []),
    "slow download": ("curl -sN http://127.0.0.1:{download}/", ["curl"]),
    "tail -f": ("tail -f /etc/passwd", []),
    "inotifywait": ("mkdir -p w; inotifywait -q w", ["inotifywait"]),
    "psql that sleeps": ("psql -X 'host=127.0.0.1 port={database} user=u dbname=d sslmode=disable' -c 'select pg_sleep(60)'",
                         ["psql"]),
    "a pipe that nobody writes": ("mkfifo p$$; cat p$$", []),
    "wait": ("sleep 60 & wait", []),
    "keys left unread": ("stty -echo; sleep 60; stty echo", []),
    "a job that is over, not waited for": (OVER % "", []),
    "a job that is over, its terminal not taken back": (OVER % "os.waitpid(child, 0); ", []),
    "progress": ("while sleep 0.05; do printf .; done", []),
}
EITHER = {
    "node -i": ("node -i", ["node"]),
    "node server with a stdin listener": (
        "node -e 'require(\"net\").createServer().listen(0, \"127.0.0.1\"); process.stdin.on(\"data\", () => {{}})'",
        ["node"]),
    "ssh host sleep": ("{ssh} sleep 60", ["ssh", "sshd"]),
}


class Matrix(RexCase):
    """As whoever runs the tests."""

    user = False

    @classmethod
    def start_rex(cls):
        world.copy_for_all(binary(), cls.home)
        prefix = world.AS_USER if cls.user else []
        cls.rex = Rex([*prefix, str(cls.home / "rex-rpc")], env=world.environment(cls.home), cwd=cls.home)

    @classmethod
    def setUpClass(cls):
        if cls.user and os.getuid() != 0:
            raise unittest.SkipTest("cannot run here: only root can become another user")
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="rex-waiting-", dir="/tmp"))
        (cls.home / "Makefile").write_text(MAKEFILE)
        (cls.home / "debconf.conf").write_text(DEBCONF.format(cls.home))
        (cls.home / "asks").write_text(ASKS.format(cls.home))
        (cls.home / "demo.templates").write_text(QUESTION)
        cls.servers = [world.Server(world.slow_download), world.Server(world.database)]
        cls.places = {"home": cls.home, "download": cls.servers[0].port, "database": cls.servers[1].port,
                      "as_user": " ".join(world.AS_USER) + " " if os.getuid() == 0 and not cls.user else ""}
        if world.program("sshd"):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-sshd-", dir="/tmp"))
            cls.ssh = SshServer(folder)
            cls.servers.append(cls.ssh)
            shutil.copy(folder / "key", cls.home / "key")
            (cls.home / "known").write_text(cls.ssh.known_host())
            cls.places["ssh_new"] = cls.ssh.command(cls.home / "key", cls.home / "none")
            cls.places["ssh"] = cls.ssh.command(cls.home / "key", cls.home / "known")
            cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        if cls.user:
            for path in (cls.home, *cls.home.iterdir()):
                shutil.chown(path, world.USER.pw_uid, world.USER.pw_gid)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for server in cls.servers:
            server.close()
        shutil.rmtree(cls.home, ignore_errors=True)

    def sessions(self, cases):
        """A session and its command for each case that can run here."""
        for name, (command, programs, *_) in cases.items():
            missing = [each for each in programs if world.program(each) is None]
            with self.subTest(name):
                if missing:
                    self.skipTest(f"cannot run here: no {', '.join(missing)}")
                session = self.fresh(cwd=str(self.home), profile="agent", env={
                    "TERM": "xterm-256color", "GIT_EDITOR": "vim.tiny", "DEBIAN_FRONTEND": None,
                    "DEBCONF_SYSTEMRC": f"{self.home}/debconf.conf"})
                yield name, session, command.format(**self.places)

    def test_B1_B2_B4_B5_B6_B9_B10_who_reads_the_terminal_is_told(self):
        for _ in range(ROUNDS):
            started = [(name, session, session.start("run", command=command, waitMs=PATIENCE_MS))
                       for name, session, command in self.sessions(READING)]
            for name, session, call in started:
                with self.subTest(name):
                    result = call.result(PATIENCE_MS / 1000)
                    self.assertEqual(result["state"], "waitingInput", result)
                    wanted = {"how": "reading", **READING[name][2]}
                    self.assertEqual({key: result["waiting"][key] for key in wanted}, wanted, result)
                    # Seen at one moment, and vim gets up now and then to save its swap file.
                    info = until(lambda: (now := session.call("info"))["state"] == "waitingInput" and now, 30)
                    self.assertTrue(info, session.call("info"))
                    self.assertEqual(info["waiting"]["kind"], wanted["kind"], info)
                self.close_quietly(session)

    def test_B13_who_sleeps_computes_or_waits_for_others_is_running(self):
        for _ in range(ROUNDS):
            started = [(name, session, session.start("run", command=command, waitMs=NEVER_MS))
                       for name, session, command in self.sessions(NEITHER)]
            for name, session, call in started:
                with self.subTest(name):
                    result = call.result()
                    self.assertEqual((result["state"], result["waiting"]), ("running", None), result)
                self.close_quietly(session)

    def test_B1_who_also_listens_to_others_is_listening_or_reading(self):
        for _ in range(ROUNDS):
            for name, session, command in self.sessions(EITHER):
                session.run(command, waitMs=0)
                told = until(lambda: session.call("info")["waiting"], 30)
                self.assertIn(told and told["how"], ("reading", "listening"), name)
                self.close_quietly(session)

    def test_B13_who_reads_keys_for_others_is_listening_and_a_daemon_of_before_is_not_what_waits(self):
        """A thread that reads keys beside one that waits for a socket (docker exec -it), and a reader left behind."""
        keys = ("import socket, threading, tty, select; tty.setraw(0); pair = socket.create_server(('127.0.0.1', 0)); "
                "threading.Thread(target=lambda: open(0, 'rb', 0).read(1), daemon=True).start(); "
                "select.select([pair], [], [])")
        for command, how in ((keys, "listening"), (keys.replace("tty.setraw(0); ", ""), "reading")):
            with self.subTest(how):
                session = self.fresh(cwd=str(self.home))
                session.run(f'python3 -c "{command}"', waitMs=0)
                self.assertEqual(until(lambda: session.call("info")["waiting"], 30)["how"], how)
                self.close_quietly(session)
        session = self.fresh(cwd=str(self.home))
        left = session.run("setsid cat & sleep 0.1", returnOnInput=False)["survivors"]
        self.assertEqual([each["command"] for each in left], ["cat"])
        session.run("sleep 60", waitMs=0)
        told = until(lambda: session.call("info")["waiting"], 30)
        self.assertEqual((told["how"], told["command"], session.call("info")["state"]), ("listening", "cat", "running"))


class MatrixAsUser(Matrix):
    """As somebody who may not look into other users' processes."""

    user = True

    def test_B2_B13_of_a_program_that_may_not_be_looked_into_nothing_is_guessed(self):
        """It may be executed and not read, so the kernel shows its memory and system calls to nobody but root."""
        for name in ("bash", "cat", "sleep"):
            closed = self.home / f"closed-{name}"
            shutil.copy(world.program(name), closed)
            closed.chmod(0o711)
        for command, claim in (("closed-cat", None), ("closed-sleep 60", None),
                               ("closed-bash --norc -c 'read -sp \"pass: \"'", ("reading", "secret", "termios"))):
            with self.subTest(command):
                session = self.fresh(cwd=str(self.home))
                result = session.run(f"{self.home}/{command}", waitMs=PATIENCE_MS if claim else NEVER_MS)
                told = result["waiting"] and tuple(result["waiting"][key] for key in ("how", "kind", "evidence"))
                self.assertEqual((result["state"], told), ("waitingInput" if claim else "running", claim), result)
                self.close_quietly(session)
        session = self.fresh(cwd=str(self.home))
        session.run(f"{self.home}/closed-cat", waitMs=0)
        self.assertEqual(session.run("silence ends this", interactive=True)["output"], "silence ends this\n")


@long_only
@needs("chrt", "taskset")
@unittest.skipUnless(os.getuid() == 0, "cannot run here: only root has real-time priorities")
class Starved(RexCase):
    """All CPUs work for others, and the kernel has next to no time to bring what is typed to its reader."""

    @classmethod
    def start_rex(cls):
        cls.rex = Rex(["chrt", "-f", "60", binary()])

    def test_B1_who_has_not_got_its_line_yet_does_not_wait_for_another(self):
        session = self.fresh()
        session.run("python3 -q", waitMs=PATIENCE_MS)
        work = "ulimit -t 5; while :; do :; done"
        busy = [subprocess.Popen(["chrt", "-f", "50", "taskset", "-c", str(cpu), "sh", "-c", work]) for cpu in os.sched_getaffinity(0)]
        try:
            outputs = [session.run("6 * 7", interactive=True)["output"] for _ in range(3)]
        finally:
            for each in busy:
                each.kill()
                each.wait()
        self.assertEqual(outputs, ["42\n>>> "] * 3)


if __name__ == "__main__":
    unittest.main()
