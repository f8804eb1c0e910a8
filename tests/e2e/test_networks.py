"""Another machine behind a real network: a wire between two network namespaces, a real sshd at its far end.

The wire is slow, loses packets, is cut, comes back. Must not know how a link is kept alive, only what it promises.
"""

import hashlib
import os
import shutil
import time
import unittest

from relay_world import RelayCase, everything_told, told
from rig import binary, needs, until
from network import ADDRESSES, Wire
from ssh_server import SshServer

PATIENT, SOON = 20_000, 200  # milliseconds of silence before a host is asked whether it is there


@needs("sshd", "nsenter", "ip")
@unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/net/tun"), "cannot run here: no network may be made")
class Networks(RelayCase):
    def setUp(self):
        super().setUp()
        self.wire = Wire()
        self.addCleanup(self.wire.close)
        self.sshd = SshServer.of(self, address=ADDRESSES[1], inside=self.wire.inside(1),
                                 more=f"SetEnv PATH={self.folder_of_program()}:/usr/bin:/bin\n")
        environment = {**self.environment(), **self.sshd.client("far", "  ConnectTimeout 3\n")}
        self.rex_here = self.spawn(argv=[*self.wire.inside(0), binary()], env=environment)

    def folder_of_program(self):
        """Where the far machine's PATH finds the program under its own name."""
        folder = self.folder / "programs"
        folder.mkdir(exist_ok=True)
        shutil.copy(binary(), folder / "rex-rpc")
        return folder

    def reach(self, keep_alive=PATIENT):
        return self.hop(self.rex_here, "far", url="ssh://far", install=False, options={"keepAliveMs": keep_alive})

    def far(self, command, **params):
        return self.rex_here.call("process/run", host="far", command=command, **params)

    def test_T16_a_long_way_that_loses_and_reorders_changes_no_answer(self):
        for order in ("delay 60", "jitter 40", "loss 5"):
            self.wire.order(order)
        self.reach()
        self.rex_here.call("session/create", host="far", session="s", shell="bash")
        for number in range(5):
            answer = self.rex_here.call("session/run", host="far", session="s", command=f"n={number}; echo $n; (exit $n)")
            self.ended(answer, output=f"{number}\n", code=number)
        data = os.urandom(200_000)
        source, target = self.folder / "source", self.folder / "target"
        source.write_bytes(data)
        self.rex_here.call("file/copy", **{"from": {"path": str(source)}, "to": {"host": "far", "path": str(target)}})
        self.assertEqual(self.far(f"sha256sum <{target}")["stdout"].split()[0], hashlib.sha256(data).hexdigest())

    def test_F4_a_bad_way_is_slower_and_no_less_true_and_deadlines_hold(self):
        self.reach()
        for order in ("loss 30", "delay 1000", "rate 1000"):
            with self.subTest(order):
                self.wire.order(order)
                run = self.far("echo here; exit 7")
                self.assertEqual((run["stdout"], run["exitCode"]), ("here\n", 7))
                self.assertEqual(self.far("echo begun; sleep 1000", timeoutMs=200)["state"], "timedOut")
                self.wire.order("mend")
        self.assertNotIn("lost", [m["params"].get("state") for m in everything_told(self.rex_here)])

    def test_F4_M14_a_way_that_is_cut_one_way_is_a_way_that_is_cut(self):
        for end in (0, 1):
            with self.subTest(end=end):
                self.reach(keep_alive=SOON)
                self.far("true")
                self.wire.order(f"cut {end}")
                self.refused("HostLost", self.far, "echo here")
                told(self.rex_here, host="far", state="lost")
                self.wire.order("mend")

    def test_a_way_that_is_cut_is_told_by_name_and_the_others_go_on(self):
        self.hop(self.rex_here, "near", options={"keepAliveMs": SOON})
        self.reach(keep_alive=SOON)
        run = self.rex_here.start("process/run", host="far", command="sleep 1000")
        self.far("true")
        self.wire.order("cut")
        self.assertIn("nothing was heard", told(self.rex_here, host="far", state="lost")["detail"])
        error = self.refused("HostLost", run.result)
        self.assertEqual((error.data["host"], error.data["executed"]), ("far", "unknown"))
        self.assertEqual(self.rex_here.call("process/run", host="near", command="echo on")["stdout"], "on\n")
        self.wire.order("mend")
        self.reach()
        self.assertEqual(self.far("echo again")["stdout"], "again\n")

    def test_a_way_that_comes_back_in_time_has_lost_nothing(self):
        self.reach(keep_alive=5000)
        go, done = self.folder / "go", self.folder / "done"
        run = self.rex_here.start(
            "process/run", host="far", command=f"until [ -e {go} ]; do sleep 0.1; done; seq 10000; touch {done}")
        self.far("true")
        self.wire.order("cut")
        go.touch()
        self.assertTrue(until(done.exists))
        self.wire.order("mend")
        self.assertEqual(run.result()["stdout"], "".join(f"{number}\n" for number in range(1, 10001)))
        states = [m["params"].get("state") for m in everything_told(self.rex_here)]
        self.assertEqual((states[-1], "lost" in states), ("ready", False))

    def test_a_black_hole_and_a_closed_port_are_told_by_their_phase(self):
        self.wire.order("cut")
        begun = time.monotonic()
        error = self.refused("HostUnreachable", self.reach)
        self.assertEqual((error.data["phase"], error.data["hop"]), ("tcp", "far"))
        self.assertLess(time.monotonic() - begun, 15)  # with its retries, far below the kernel's two minutes
        self.wire.order("mend")
        self.sshd.process.terminate()
        self.sshd.process.wait()
        error = self.refused("HostUnreachable", self.reach)
        self.assertEqual(error.data["phase"], "tcp")
        self.assertIn("refused", error.message.lower())


if __name__ == "__main__":
    unittest.main()
