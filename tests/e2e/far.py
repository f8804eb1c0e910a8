"""Hosts for tests: shells in roots and homes of their own, that a rex-rpc has to be put to first.

Must not know what is tested. Everything is below the test's folder, or in mounts that end with the shell.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import unittest

from rig import RexCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
AGENTS = pathlib.Path(os.environ.get("REX_RPC_AGENTS", ROOT / "build" / "release"))


def agent(arch=os.uname().machine):
    return AGENTS / f"rex-rpc-{arch}"


def needs_agent(arch=os.uname().machine):
    preset = "static" if arch == os.uname().machine else f"static-{arch}"
    return unittest.skipUnless(agent(arch).exists(), f"cannot run here: no {agent(arch)}; ./dev build {preset} makes it")


def works(*argv):
    """Whether a way to make a world works here: containers often have no namespaces."""
    try:
        return subprocess.run(argv, capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


needs_roots = unittest.skipUnless(works("bwrap", "--bind", "/", "/", "true"), "cannot run here: bwrap does not work")
needs_mounts = unittest.skipUnless(
    works("unshare", "-Urm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"), "cannot run here: no mounts of one's own")

# What a shell finds nothing but itself without; a host that lacks one of these cannot be helped.
BARE = "cat chmod dd ls mkdir rm"
EVERYTHING = "[ basename cut date df env expr find grep head id ln mount mv printf ps sed sleep stat stty tail tee test " \
             "touch tr true uname wc " + BARE


class FarCase(RexCase):
    """A rex-rpc that knows where the agents are, and hosts it can name."""

    @classmethod
    def start_rex(cls):
        os.environ["REX_RPC_AGENTS"] = str(AGENTS)
        super().start_rex()

    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"
        self.home.mkdir()
        self.hosts = 0

    def at_home(self, *argv, home=None, **env):
        """`argv` with a home of the test's own."""
        words = ["env", "-u", "XDG_CACHE_HOME", f"HOME={home or self.home}"]
        return words + [f"{name}={value}" for name, value in env.items()] + list(argv)

    def connect(self, argv, rex=None, **params):
        self.hosts += 1
        name = f"far{self.hosts}"
        rex = rex or self.rex
        info = rex.call("host/connect", name=name, argv=argv, **params)
        self.addCleanup(self.leave, rex, name)
        return info

    @staticmethod
    def leave(rex, name):
        if rex.process.poll() is None and any(host["name"] == name for host in rex.call("host/list")["hosts"]):
            rex.call("host/disconnect", name=name)

    def unreachable(self, argv, phase, *sentences, **params):
        """The connect is refused, in this phase, and says all this."""
        error = self.refused("HostUnreachable", self.connect, argv, **params)
        self.assertEqual(error.data["phase"], phase, error)
        for sentence in sentences:
            self.assertIn(sentence, error.message)
        return error

    def served(self, info, command="echo here", rex=None):
        """What a shell session there prints: the host works."""
        session = (rex or self.rex).call("session/create", host=info["name"], shell="sh")["session"]
        result = (rex or self.rex).call("session/run", host=info["name"], session=session, command=command)
        self.assertEqual(result["exitCode"], 0, result)
        return result["output"]

    def installed_in(self, place):
        """What is in a directory that holds agents, but for the agents' own."""
        return sorted(path.name for path in pathlib.Path(place).iterdir())

    def root(self, programs=EVERYTHING):
        """A root file system with busybox and nothing else, as an argv to begin with."""
        root = self.folder / "root"
        for name in ("bin", "root", "tmp", "var/tmp", "proc", "dev"):
            (root / name).mkdir(parents=True)
        for name in ("tmp", "var/tmp"):
            (root / name).chmod(0o1777)
        shutil.copy(shutil.which("busybox"), root / "bin" / "sh")
        for program in programs.split():
            (root / "bin" / program).symlink_to("sh")
        return self.in_root(root)

    @staticmethod
    def in_root(root, path="/bin"):
        """The argv to begin with for what runs in a directory as its root."""
        return ["env", "-i", f"PATH={path}", "HOME=/root", shutil.which("bwrap"), "--die-with-parent", "--unshare-pid",
                "--bind", str(root), "/", "--dev", "/dev", "--proc", "/proc"]

    def mounted(self, places, home=None, then=":", shell="sh"):
        """A shell in mounts of its own: {directory: options of tmpfs}, and one on the home, which may be below one of
        them; then a line of sh. What is to be `ro` becomes that at last."""
        lines = [f"mount -t tmpfs -o {options.replace('ro,', '')} tmpfs {place}" for place, options in places.items()]
        if home:
            lines += [f"mkdir -p {self.home}", f"mount -t tmpfs -o {home} tmpfs {self.home}"]
        lines.append(f"{{ {then}; }}")
        lines += [f"mount -o remount,ro {place}" for place, options in places.items() if "ro," in options]
        return ["unshare", "-Urm", "sh", "-c", " && ".join([*lines, f"exec {shell}"])]
