"""What the tests of the editors share: an editor in a tmux whose screen is read, agents beside it, hosts behind it.

Must not know any one editor. Whatever is expected is waited for; nothing here sleeps to let something happen.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from rig import Rex, RexCase, binary, until
from ssh_server import SshServer, asking
from terminal_world import Tmux

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "build" / "pictures"
PATIENCE = float(os.environ.get("REX_TEST_DEADLINE", "60"))


class Screen:
    """An editor in a tmux of its own."""

    def __init__(self, case, argv, env):
        self.case = case
        self.tmux = Tmux(case.folder, argv, env)
        case.addCleanup(self.tmux.close)

    def text(self):
        return "\n".join(self.tmux.screen()[0])

    def picture(self, name):
        """What is on the screen, kept as build/pictures/NAME.txt for people to look at."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.txt").write_text(self.text().rstrip() + "\n")

    def type(self, text):
        self.tmux.call("send-keys", "-l", "--", text)

    def keys(self, *names):
        self.tmux.call("send-keys", *names)

    def shows(self, what):
        """Waits until it stands on the screen."""
        if not until(lambda: what in self.text(), PATIENCE):
            self.case.fail(f"no {what!r} on this screen:\n{self.text()}")

    def loses(self, what):
        """Waits until it does not stand on the screen any more."""
        if not until(lambda: what not in self.text(), PATIENCE):
            self.case.fail(f"still {what!r} on this screen:\n{self.text()}")

    def comes_to_show(self, keys, what):
        """Types until it shows: the first keys may come before whoever is to read them."""
        def shown():
            self.type(keys)
            return until(lambda: what in self.text(), 3)

        if not until(shown, PATIENCE):
            self.case.fail(f"no {what!r} on this screen:\n{self.text()}")

    def command(self, text):
        """An Ex command of Neovim, from whatever mode."""
        self.keys("C-\\", "C-n")
        self.type(f":{text}\r")


class EditorCase(RexCase):
    """An editor sees the runtime directory and the home of its test, and no others."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        self.folder = self.own_folder = self.temporary()
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
            "SHELL": "/bin/bash",
        }
        self.addCleanup(self.end_sessions, self.folder)

    def check_terminal(self, host, hosts, term, size):
        """A shell on `host` in the editor, from its prompt until it is told to end with 3; gives the editor, which
        `terminal_on` starts. `term` is its $TERM, `size` what stty says in a terminal of 100 x 30."""
        editor = self.terminal_on(host, hosts)
        editor.type("echo $((6*7)) in $TERM\r")
        editor.shows(f"42 in {term}")
        editor.tmux.call("resize-window", "-x", "100", "-y", "30")
        editor.comes_to_show("stty size\r", size)
        editor.type("exit 3\r")
        return editor

    def check_link_heals(self, editor):
        """The link of the shell that the editor shows is cut in the middle: the editor says so, and the shell goes on."""
        editor.type("PLACE=kept$((1+1))\r")
        editor.comes_to_show("echo it is $PLACE\r", "it is kept2")
        self.cut_link()
        editor.shows("is lost")
        editor.shows("goes on]")  # nobody has done anything
        editor.comes_to_show("echo it was $PLACE\r", "it was kept2")

    def check_nothing_is_left(self):
        """Of the shells that the editor began, also of those on hosts."""
        if not until(lambda: not self.sessions(), PATIENCE):
            self.fail(f"left: {self.sessions()}")

    def temporary(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-ed-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def start(self, argv, env=None):
        return Screen(self, argv, {**self.environment, **(env or {})})

    def hops(self):
        """Two hosts behind each other, each a program of the one before; self.links has their ids as they begin."""
        target = {"argv": ["sh", "-c", f"echo $$ >>{self.links}; exec {os.path.abspath(binary())}"]}
        return {"hop": target, "hop/hop": target}

    @property
    def links(self):
        return self.folder / "links"

    def middle(self):
        """The instance between the editor and the last host: of those that are there, the one that began first."""
        return next(pid for pid in map(int, self.links.read_text().split()) if os.path.exists(f"/proc/{pid}"))

    def cut_link(self):
        """-9 for the instance in the middle: what is behind it loses its link, and is dialled again."""
        os.kill(self.middle(), signal.SIGKILL)

    def end_session_behind_a_cut_link(self):
        """The only daemon session there is has ended by the time that its host is dialled again."""
        os.kill(self.middle(), signal.SIGSTOP)
        (session,) = self.sessions()
        subprocess.run([binary(), "kill", f"{session['instance']}/{session['session']}"], env=self.environment, check=True)
        self.cut_link()

    def sessions(self, runtime=None):
        """All sessions of this test's user, else of one with another runtime directory."""
        environment = {**self.environment, "XDG_RUNTIME_DIR": str(runtime or self.folder)}
        listed = subprocess.run([binary(), "sessions", "--json"], env=environment, capture_output=True, check=False)
        return json.loads(listed.stdout or "[]")

    def end_sessions(self, runtime):
        """What outlives an editor that was killed, by its runtime directory."""
        if not (runtime / "rex-rpc").is_dir():
            return  # without one the sessions would be those of whoever runs the tests
        for session in self.sessions(runtime):
            subprocess.run([binary(), "kill", f"{session['instance']}/{session['session']}"], capture_output=True,
                           env={**self.environment, "XDG_RUNTIME_DIR": str(runtime)}, check=False)

    def agent(self):
        """A client of its own instance, with a session that the editor may find."""
        agent = Rex(env=self.environment, hops=0)
        self.addCleanup(agent.close)
        return agent, agent.session("agents-work")

    def host_with_password(self, password):
        """A real sshd whose PAM, in an /etc/pam.d of its own, takes this password; gives the environment of a client
        who knows it as `far`."""
        folder = self.temporary()
        self.addCleanup(self.end_sessions, folder)
        check, programs = folder / "check", folder / "programs"
        check.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin; [ \"$(tr -d '\\0')\" = '{password}' ]\n")
        programs.mkdir()
        shutil.copy(binary(), programs / "rex-rpc")
        sshd = SshServer.of(self, **asking(folder, check, f"SetEnv PATH={programs}:/usr/bin:/bin XDG_RUNTIME_DIR={folder}\n"))
        return sshd.client("far", environment=self.environment)


__all__ = ["EditorCase", "Screen"]
