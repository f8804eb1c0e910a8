"""A real sshd for tests and benchmarks, on loopback only.

Must not know rex-rpc.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


class SshServer:
    """A real sshd on a port of its own with keys of its own. Logs in whoever runs it, by `folder`/key.

    `more` are lines of its configuration that win over ours, `login` is a program that everybody who logs in runs
    instead of a command (which is in its $SSH_ORIGINAL_COMMAND), `inside` what is written before the
    server's command, for an `address` that is not here.
    """

    def __init__(self, folder, more="", address="127.0.0.1", inside=(), login=None):
        self.folder = pathlib.Path(folder)
        self.address = address
        self.port = free_port()
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        self.process = subprocess.Popen([*inside, *self.server(more, login)], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if self.LISTENS in line:
                break
        threading.Thread(target=self.hear, daemon=True).start()

    LISTENS = "listening on"

    def server(self, more, login):
        """Its command."""
        (self.folder / "sshd_config").write_text(
            f"{more}ListenAddress {self.address}:{self.port}\nHostKey {self.folder}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nUsePAM {'yes' if os.getuid() == 0 else 'no'}\n"
            "PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\n"
            f"SetEnv HOME={self.home()}\n"
            + (f"ForceCommand {login}\n" if login else ""))
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        return [shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin"), "-D", "-e", "-f", self.folder / "sshd_config"]

    def home(self):
        """An empty one, which they who log in have for $HOME: what a user's own files say is no part of a test."""
        home = self.folder / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return home

    @classmethod
    def of(cls, case, **options):
        """One for a test, which ends with it; its folder is in no home, as sshd asks of the way to its keys."""
        folder = tempfile.mkdtemp(prefix="rex-sshd-", dir="/tmp")
        case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        server = cls(folder, **options)
        case.addCleanup(server.close)
        return server

    def known_host(self):
        """A line for known_hosts."""
        return f"[{self.address}]:{self.port} " + (self.folder / "host_key.pub").read_text()

    def client(self, name, more="", environment=None):
        """`environment`, else ours, with an `ssh` that knows the host as `name`; `more` are further lines for it."""
        environment = dict(os.environ if environment is None else environment)
        (self.folder / "known").write_text(self.known_host())
        (self.folder / "config").write_text(
            f"Host {name}\n  HostName {self.address}\n  Port {self.port}\n  IdentityFile {self.folder}/key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking yes\n{more}")
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/config "$@"\n')
        (programs / "ssh").chmod(0o755)
        return {**environment, "PATH": f"{programs}:{environment.get('PATH', os.defpath)}"}

    def trusted(self):
        """The command of a client who knows the host."""
        known = self.folder / "known"
        known.write_text(self.known_host())
        return self.command(self.folder / "key", known)

    def command(self, key, known_hosts):
        login = pwd.getpwuid(os.getuid()).pw_name
        return (f"ssh -F none -p {self.port} -i {key} -o IdentitiesOnly=yes -o UserKnownHostsFile={known_hosts} "
                f"-o GlobalKnownHostsFile=/dev/null {login}@{self.address}")

    def close(self):
        self.process.terminate()
        self.process.wait()

    def hear(self):
        """What it says else, until the last has ended whom it let in: that may be later than itself."""
        with self.process.stderr as stderr:
            stderr.read()


def asking(folder, check, more=""):
    """Options of an SshServer, as root, whose PAM, in an /etc/pam.d of its own in `folder`, asks for a password and
    takes what the program `check` takes on its stdin; `more` as there."""
    check.chmod(0o755)
    pam = folder / "pam.d"
    pam.mkdir()
    (pam / "sshd").write_text(
        f"auth requisite pam_exec.so expose_authtok quiet {check}\nauth required pam_permit.so\n"
        "account required pam_permit.so\nsession required pam_permit.so\n")
    return {"inside": ["unshare", "-m", "sh", "-c", f'mount --bind {pam} /etc/pam.d && exec "$@"', "sh"],
            "more": "AuthenticationMethods keyboard-interactive\nKbdInteractiveAuthentication yes\n" + more}


class Dropbear(SshServer):
    """The same by dropbear. It looks for keys at home only, so it runs where another folder is there: as root."""

    LISTENS = "Not backgrounding"

    def server(self, more, login):
        assert not more
        key = self.folder / "host_key.dropbear"
        subprocess.run(["dropbearconvert", "openssh", "dropbear", self.folder / "host_key", key], check=True,
                       stderr=subprocess.DEVNULL)
        home = self.home()
        (home / ".ssh").mkdir(mode=0o700)
        shutil.copy(self.folder / "key.pub", home / ".ssh" / "authorized_keys")
        command = ["dropbear", "-F", "-E", "-m", "-s", "-r", str(key), "-p", f"{self.address}:{self.port}",
                   "-P", f"{self.folder}/pid", *(["-c", str(login)] if login else [])]
        at_home = f'mount --bind {home} {pwd.getpwuid(os.getuid()).pw_dir} && exec "$@"'
        return ["unshare", "-m", "--propagation", "slave", "sh", "-c", at_home, "sh", *command]
