"""Hosts behind a real sshd, as `ssh://` names them: whatever the login shell and its files do, the host is reached and
given a rex-rpc, or a sentence says why not.

Must not know libssh. One sshd on a port for each kind of login; its files are below the test's folder.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import unittest

from far import AGENTS, FarCase, needs_agent
from relay_world import RelayCase, told
from rig import binary, needs, until
from ssh_server import SshServer, asking

SHELLS = ("bash", "dash", "zsh", "fish", "tcsh", "busybox sh")
# What a login may do before it runs the command that it was given.
LOGINS = {
    **{shell: f'exec {shell} -c "$SSH_ORIGINAL_COMMAND"' for shell in SHELLS},
    "motd": r"head -c 1000000 /dev/zero | tr '\0' n; printf 'rex-rpc-0 ready /x\r\n'; exec sh -c "
            '"$SSH_ORIGINAL_COMMAND"',
    "forced": "echo only git here; exit 1",
}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@needs_agent()
@unittest.skipUnless(os.getuid() == 0 and pathlib.Path("/usr/sbin/sshd").exists(), "cannot run here: sshd as root")
class SshHosts(FarCase):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.ports = dict(zip(LOGINS, free_ports(len(LOGINS))))
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        public = (self.folder / "host.pub").read_text()
        (self.folder / "known").write_text("".join(f"[127.0.0.1]:{port} {public}" for port in self.ports.values()))
        self.start_sshd()
        programs = self.folder / "bin"
        programs.mkdir()
        (self.folder / "config").write_text(
            f"Host *\n  HostName 127.0.0.1\n  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking yes\n")
        ssh = shutil.which("ssh")
        (programs / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {self.folder}/config "$@"\n')
        (programs / "ssh").chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        self.with_ssh = {**os.environ, "PATH": path, "REX_RPC_AGENTS": str(AGENTS)}
        self.ssh_rex = self.spawn(env=self.with_ssh)

    def start_sshd(self):
        config = self.folder / "sshd_config"
        lines = [f"Port {port}" for port in self.ports.values()]
        lines += ["ListenAddress 127.0.0.1", f"HostKey {self.folder}/host",
                  f"AuthorizedKeysFile {self.folder}/user.pub",
                  "PermitRootLogin yes", "UsePAM no", "StrictModes no", "PidFile none",
                  f"SetEnv XDG_CACHE_HOME={self.cache}",
                  "AllowTcpForwarding no", "PermitTTY no", "MaxSessions 1"]
        for login, port in self.ports.items():  # whoever runs the tests may have a rex-rpc at home
            lines += [f"Match LocalPort {port}", f"  ForceCommand export HOME={self.cache}; {LOGINS[login]}"]
        config.write_text("\n".join(lines) + "\n")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", config, "-E", self.folder / "log"])
        self.addCleanup(sshd.wait)
        self.addCleanup(sshd.terminate)

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.ports["forced"])) == 0
        self.assertTrue(until(listens))

    def reach(self, login, rex=None):
        rex = rex or self.ssh_rex
        self.hosts += 1
        name = f"far{self.hosts}"
        info = rex.call("host/connect", name=name, url=f"ssh://root@127.0.0.1:{self.ports[login]}")
        self.addCleanup(self.leave, rex, name)
        return info

    def test_a_host_by_ssh_is_reached_through_every_login_shell(self):
        for number, shell in enumerate(SHELLS):
            if shutil.which(shell.split()[0]) is None:
                print(f"not tried: {shell}, which is not installed")
                continue
            with self.subTest(shell=shell):
                info = self.reach(shell)
                self.assertIn("installed " if number == 0 else str(self.cache), info["took"])
                self.assertEqual(self.served(info, rex=self.ssh_rex), "here\n")

    def test_without_libssh_the_users_own_ssh_is_taken_and_that_is_said(self):
        libraries = self.folder / "libraries"
        libraries.mkdir()
        (libraries / "libssh.so.4").touch()
        rex = self.spawn(env={**self.with_ssh, "LD_LIBRARY_PATH": str(libraries)})
        info = self.reach("bash", rex)
        self.assertIn("the user's own ssh: there is no libssh to be had: ", info["took"])
        self.assertIn("libssh.so.4: file too short", info["took"])
        self.assertEqual(self.served(info, rex=rex), "here\n")
        doctor = subprocess.run([binary(), "doctor"], env={**self.with_ssh, "LD_LIBRARY_PATH": str(libraries)}, capture_output=True, text=True, timeout=60)
        self.assertIn("note hosts at ssh:// are left to your own ssh: there is no libssh to be had: ", doctor.stdout)

    def test_H8_T11_a_megabyte_of_motd_is_told_and_skipped(self):
        info = self.reach("motd")
        self.assertEqual(self.served(info, rex=self.ssh_rex), "here\n")
        self.assertTrue(info["noise"].startswith("nnnn"))

    def test_a_forced_command_that_is_no_shell_is_told_by_its_own_words(self):
        error = self.refused("HostUnreachable", self.reach, "forced")
        self.assertEqual(error.data["phase"], "shell", error)
        self.assertIn("only git here", error.message)


@needs("sshd", "unshare")
@unittest.skipUnless(os.getuid() == 0, "cannot run here: sshd with a PAM of its own needs root")
class OneTimePasswords(RelayCase):
    """A real sshd whose PAM, in an /etc/pam.d of its own, takes each code of a file once and in their order."""

    def setUp(self):
        super().setUp()
        self.codes = self.folder / "codes"
        check = self.folder / "check"
        check.write_text(f"""#!/bin/sh
PATH=/usr/bin:/bin; given=$(tr -d '\\0'); wanted=$(head -n 1 {self.codes}); sed -i 1d {self.codes}
[ -n "$wanted" ] && [ "$given" = "$wanted" ]
""")
        programs = self.folder / "programs"
        programs.mkdir()
        shutil.copy(binary(), programs / "rex-rpc")
        sshd = SshServer.of(self, **asking(self.folder, check, f"SetEnv PATH={programs}:/usr/bin:/bin\n"))
        self.client_environment = {**self.environment(), **sshd.client("far")}
        self.client = self.spawn(env=self.client_environment, hops=0)
        self.client.call("initialize", capabilities={"prompt": True})

    def dial(self, path, *answers):
        """Gives what was asked."""
        before, _, name = path.rpartition("/")
        request = self.client.start("host/connect", host=before, name=name, url="ssh://far", install=False)
        asked = []
        for answer in answers:
            question = told(self.client, method="host/prompt")
            asked.append((question["params"]["host"], question["params"]["kind"], question["params"]["secret"]))
            self.client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"answer": answer}})
        return request, asked

    def test_I2_a_one_time_password_of_the_second_hop_is_asked_of_the_client_and_works_once(self):
        self.hop(self.client, "a")
        self.codes.write_text("314159\n271828\n")
        request, asked = self.dial("a/far", "314159")
        self.assertEqual(request.result()["state"], "ready")
        self.assertEqual(asked, [("a/far", "password", True)])  # by its own word: "Password:"
        self.assertEqual(self.client.call("process/run", host="a/far", command="echo here")["stdout"], "here\n")
        self.client.call("host/disconnect", host="a", name="far")
        request, asked = self.dial("a/far", "314159", "314159", "314159")
        error = self.refused("HostUnreachable", request.result)
        self.assertEqual((error.data["phase"], error.data["hop"]), ("auth", "a/far"))
        self.assertNotIn("314159", str(error))

    def test_a_one_time_password_is_asked_of_nobody_who_cannot_answer(self):
        mute = self.spawn(env=self.client_environment, hops=0)
        error = self.refused("HostUnreachable", mute.call, "host/connect", name="far", url="ssh://far")
        self.assertEqual(error.data["phase"], "auth")
        self.assertIn("capabilities.prompt", error.message)


if __name__ == "__main__":
    unittest.main()
