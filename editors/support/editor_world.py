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
from ssh_server import SshServer
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

    def temporary(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-ed-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def start(self, argv, env=None):
        return Screen(self, argv, {**self.environment, **(env or {})})

    @staticmethod
    def hops():
        """Two hosts behind each other, each a program of the one before."""
        target = {"argv": [os.path.abspath(binary())]}
        return {"hop": target, "hop/hop": target}

    def agent(self):
        """A client of its own instance, with a session that the editor may find."""
        agent = Rex(env=self.environment, hops=0)
        self.addCleanup(agent.close)
        return agent, agent.session("agents-work")

    def kill_instance_of_session(self):
        """-9 for the instance, behind all hosts, that has the only session there is."""
        listed = subprocess.run([binary(), "sessions", "--json"], env=self.environment, capture_output=True, check=True)
        (session,) = json.loads(listed.stdout)
        os.kill(int(session["instance"].split("-")[0]), signal.SIGKILL)

    def host_with_password(self, password):
        """A real sshd whose PAM, in an /etc/pam.d of its own, takes this password; gives the environment of a client
        who knows it as `far`."""
        folder = self.temporary()
        check, pam, programs = folder / "check", folder / "pam.d", folder / "programs"
        check.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin; [ \"$(tr -d '\\0')\" = '{password}' ]\n")
        check.chmod(0o755)
        pam.mkdir()
        (pam / "sshd").write_text(
            f"auth requisite pam_exec.so expose_authtok quiet {check}\nauth required pam_permit.so\n"
            "account required pam_permit.so\nsession required pam_permit.so\n")
        programs.mkdir()
        shutil.copy(binary(), programs / "rex-rpc")
        inside = ["unshare", "-m", "sh", "-c", f'mount --bind {pam} /etc/pam.d && exec "$@"', "sh"]
        sshd = SshServer.of(self, inside=inside, more=(
            f"AuthenticationMethods keyboard-interactive\nKbdInteractiveAuthentication yes\n"
            f"SetEnv PATH={programs}:/usr/bin:/bin XDG_RUNTIME_DIR={folder}\n"))
        return sshd.client("far", environment=self.environment)


__all__ = ["EditorCase", "Screen"]
