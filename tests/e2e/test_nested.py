"""Shells inside a session's shell (D17): another user's, in other namespaces, on another machine.

They are not ours to manage: what is typed into them is typed, what they answer is told without a claim, and the session
is itself again behind them. `docker exec -it` and `kubectl exec -it` hold a terminal as `ssh -tt` does: raw, and for
somebody behind a socket.
"""

import os
import shutil
import unittest

import waiting_world as world
from rig import RexCase, needs, in_shells, subprocess, until
from ssh_server import SshServer

PATIENCE_MS = 60_000
INNER = "bash --norc --noprofile"


def can(*command):
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Nested(RexCase):
    def comes(self, session, command, how):
        """Waits until the inner shell reads; returns the job."""
        begun = session.run(command, waitMs=0)
        ready = {"input": True} if how == "reading" else {"match": r"[$#] $"}
        met = session.call("wait", any=[ready, {"exit": True}], waitMs=PATIENCE_MS, **{"from": begun["from"]})
        self.assertEqual(met["met"], 0, met)
        return begun["job"]

    def inside(self, session, command, how):
        """The inner shell is reached, spoken to, and left with its code; the outer one goes on with all it had."""
        session.run("kept=outer")
        job = self.comes(session, command, how)
        told = until(lambda: session.call("info")["waiting"], 30)
        self.assertEqual(told and told["how"], how, session.call("info"))
        self.assertEqual(session.call("info")["state"], "waitingInput" if how == "reading" else "running")
        typed = session.run("echo in $((6 * 7)) ${kept-nothing}", interactive=True)
        self.assertTrue(typed["output"].startswith("in 42 nothing\n"), typed)
        self.assertEqual((typed["job"], typed["exitCode"]), (job, None))
        self.ended(session.run("exit 4", interactive=True, waitMs=PATIENCE_MS), 4, job=job)
        self.ended(session.run("echo $kept; (exit 3)"), 3, output="outer\n")

    def replaces(self, session, command, how):
        """The shell has become the way to another one: that is said, and what is typed is no claim."""
        self.comes(session, f"exec {command}", how)
        self.assertTrue(until(lambda: session.call("info")["state"] == "unmanaged", 30), session.call("info"))
        typed = session.run("echo in $((6 * 7))")
        self.assertTrue(typed["output"].startswith("in 42\n"), typed)
        self.assertEqual((typed["completion"], typed["exitCode"]), ("heuristic", None))
        self.result(session.run("exit 4", waitMs=PATIENCE_MS), state="shellExited", exitCode=4)
        self.assertIsNotNone(self.ended(session.run("echo back"), output="back\n")["restarted"])

    @unittest.skipIf(os.getuid() != 0, "cannot run here: only root becomes another user unasked")
    @needs("su")
    @in_shells()
    def test_D17_E14_su_is_a_shell_in_a_shell(self, session):
        su = f"su -s {shutil.which('bash')} {world.USER.pw_name} -c 'exec {INNER}'"
        self.inside(session, su, "reading")
        self.ended(session.run(f"su -s /bin/sh {world.USER.pw_name} -c 'id -un; exit 6'"), 6,
                   output=f"{world.USER.pw_name}\n")
        self.replaces(session, su, "reading")

    @needs("nsenter", "unshare")
    @unittest.skipUnless(can("unshare", "-m", "true"), "cannot run here: no mount namespace may be made")
    @in_shells()
    def test_D17_nsenter_and_unshare_are_shells_in_a_shell(self, session):
        self.inside(session, f"nsenter -t $$ -m {INNER}", "reading")
        self.inside(session, f"unshare -m {INNER}", "reading")
        self.replaces(session, f"unshare -m --pid --fork --mount-proc {INNER}", "reading")

    @needs("ssh", "sshd")
    @in_shells("bash")
    def test_D17_A14_ssh_is_a_shell_elsewhere(self, session):
        ssh = f"{SshServer.of(self).trusted()} -tt {INNER}"
        self.inside(session, ssh, "listening")
        self.replaces(session, ssh, "listening")


if __name__ == "__main__":
    unittest.main()
