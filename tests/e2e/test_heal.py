"""Links that heal: a lost host is dialled again, and names, attachments, subscriptions and watches there go on.

The far instances are programs of this machine that share its daemon sessions; a gate says whether they can be reached.
"""

import json
import os
import random
import signal
import threading
import time
import unittest

from relay_world import RelayCase, everything_told, gone, pid_of, told
from rig import RpcError, amount, binary, kill_quietly, until
from test_daemon import DaemonCase
from watching import Attached

FIRST_PAUSE, LONGEST_PAUSE = 100, 5000  # ms, as src/relay/pause.h says
SLOW = 100  # ms: how soon a silent link is asked


class HealCase(RelayCase):
    """Hosts behind gates, and sessions that outlive the way to them."""

    keepers = DaemonCase.keepers
    end_all = DaemonCase.end_all

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_all)
        self.gates = 0
        self.sessions = 0

    def gated(self):
        """(argv, gate): a far instance that cannot be reached while the gate is there; each dial is noted in `.dials`."""
        self.gates += 1
        gate = self.own_folder / f"gate{self.gates}"
        dials = gate.with_suffix(".dials")
        dials.touch()
        return self.script(f"echo $$ >> {dials}; [ -e {gate} ] && echo it is shut >&2 && exit 3; exec {binary()}"), gate

    @staticmethod
    def dials(gate):
        return gate.with_suffix(".dials").read_text().split()

    def cut(self, rex, host, feed=None):
        """Kills the host, and waits until that is told; what a feed waits for stays its own."""
        os.kill(self.pid_at(rex, host), signal.SIGKILL)
        return self.status(feed, host, "lost") if feed else told(rex, host=host, state="lost")

    @staticmethod
    def status(feed, host, state):
        while True:
            params = feed.next(None)["params"]
            if (params.get("host"), params.get("state")) == (host, state):
                return params

    @staticmethod
    def pid_at(rex, host):
        """Of the far instance, once it is there."""
        before, _, name = host.rpartition("/")

        def ready():
            info = rex.call("host/info", host=before, name=name)
            return info if info["state"] == "ready" else None

        return pid_of(until(ready))

    def filed(self, **hosts):
        """(rex, path): an instance with a file of hosts; each is an argv."""
        config = self.own_folder / "config"
        (config / "rex-rpc").mkdir(parents=True)
        path = config / "rex-rpc" / "hosts.json"
        path.write_text(json.dumps({"hosts": {name: {"argv": argv} for name, argv in hosts.items()}}))
        return self.spawn(env=self.environment(XDG_CONFIG_HOME=str(config)), hops=0), path

    def kept(self, rex, host, **options):
        """A daemon session there."""
        self.sessions += 1
        name = f"{self._testMethodName[-20:]}-{self.sessions}-{os.getpid()}"
        rex.call("session/create", host=host, session=name, lifetime="daemon", shell="sh", **options)
        return name

    def ran(self, rex, host, session, command, **params):
        return rex.call("session/run", host=host, session=session, command=command, **params)


class Hosts(HealCase):
    def test_one_that_is_lost_is_dialled_again_and_its_name_goes_on(self):
        rex = self.near()
        first = pid_of(self.hop(rex, "a"))
        told(rex, host="a", state="ready")
        lost = self.cut(rex, "a")
        self.assertEqual(lost["retryMs"], FIRST_PAUSE)
        told(rex, host="a", state="connecting")
        told(rex, host="a", state="ready")
        self.assertNotEqual(self.pid_at(rex, "a"), first)
        self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")

    def test_it_is_tried_with_longer_and_longer_pauses_until_it_is_there(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        gate.touch()
        self.assertEqual(self.cut(rex, "a")["retryMs"], FIRST_PAUSE)
        pauses = []
        while len(pauses) < 4:
            status = told(rex, host="a", state="lost")
            self.assertIn("it is shut", status["detail"])
            pauses.append(status["retryMs"])
        self.assertEqual(pauses, sorted(pauses))
        self.assertLessEqual(pauses[-1], LONGEST_PAUSE)
        self.assertGreaterEqual(pauses[-1], 8 * FIRST_PAUSE)
        gate.unlink()
        told(rex, host="a", state="ready")
        self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")

    def test_a_request_does_not_wait_for_the_pause(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        gate.touch()
        self.cut(rex, "a")
        while told(rex, host="a", state="lost")["retryMs"] < LONGEST_PAUSE // 2:
            pass
        error = self.refused("HostUnreachable", rex.call, "process/run", host="a", command="true")
        self.assertEqual((error.data["hop"], error.data["executed"]), ("a", "no"))
        gate.unlink()
        begun = time.monotonic()
        self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")
        self.assertLess(time.monotonic() - begun, LONGEST_PAUSE / 2000)

    def test_whoever_lets_it_go_ends_the_dialling(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        gate.touch()
        self.cut(rex, "a")
        told(rex, host="a", state="lost")
        rex.call("host/disconnect", name="a")
        dials = self.dials(gate)
        self.hop(rex, "a")  # another target under the free name, which is the one that is dialled again from now on
        self.cut(rex, "a")
        told(rex, host="a", state="ready")
        self.assertLessEqual(len(self.dials(gate)), len(dials) + 1)  # one may have been under way
        self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")

    def test_a_client_that_leaves_ends_the_dialling(self):
        peer = self.peer()
        argv, gate = self.gated()
        self.hop(peer, "a", argv=argv)
        gate.touch()
        self.cut(peer, "a")
        self.assertTrue(until(lambda: len(self.dials(gate)) >= 2))
        peer.close()
        other = self.peer()
        self.refused("HostNotFound", other.call, "ping", host="a")
        for pid in self.dials(gate):
            gone(self, int(pid))

    def test_one_that_comes_and_goes_is_not_dialled_faster_and_faster(self):
        rex = self.near()
        argv = self.fake("hello()", "read()")  # it greets, and ends at the first request
        self.hop(rex, "a", argv=argv)
        pauses = []
        while len(pauses) < 4:
            with self.assertRaises(RpcError):
                rex.call("process/run", host="a", command="true")
            pauses.append(told(rex, host="a", state="lost")["retryMs"])
        self.assertGreater(pauses[-1], pauses[0])
        rex.call("host/disconnect", name="a")

    def test_names_behind_it_are_connected_again(self):
        rex = self.near()
        self.chain(rex, "a", "b", "c")
        argv, gate = self.gated()
        self.hop(rex, "a/b/d", argv=argv)
        rex.call("host/disconnect", host="a/b", name="c")
        for victim in ("a", "a/b"):
            with self.subTest(victim=victim):
                self.cut(rex, victim)
                self.assertEqual(rex.call("process/run", host="a/b/d", command="echo on")["stdout"], "on\n")
                self.refused("HostNotFound", rex.call, "ping", host="a/b/c")
        self.assertGreaterEqual(len(self.dials(gate)), 3)

    def test_a_name_behind_it_that_was_let_go_at_once_is_not_connected_again(self):
        rex = self.near()
        self.chain(rex, "a", "b")
        connect = rex.start("host/connect", host="a", name="b", argv=[binary()])  # it is there: answered at once
        rex.start("host/disconnect", host="a", name="b").result()
        connect.result()
        self.cut(rex, "a")
        told(rex, host="a", state="ready")
        self.refused("HostNotFound", rex.call, "ping", host="a/b")

    def test_a_name_behind_it_that_is_not_there_yet_holds_up_no_other(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a")
        self.hop(rex, "a/b", argv=argv)
        gate.touch()
        self.cut(rex, "a")
        self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")
        error = self.refused("HostLost", rex.call, "process/run", host="a/b", command="true")
        self.assertEqual((error.data["host"], error.data["executed"]), ("a/b", "no"))
        self.assertIn("it is shut", error.message)
        gate.unlink()
        told(rex, host="a/b", state="ready")
        self.assertTrue(until(lambda: self.answers(rex, "a/b")))

    def test_a_name_behind_it_whose_dial_takes_its_time_holds_up_no_other(self):
        rex = self.near()
        fifo = self.own_folder / "fifo"
        os.mkfifo(fifo)
        slow = self.own_folder / "slow"  # while it is there, a dial waits for somebody who writes into the FIFO
        self.hop(rex, "a")
        self.hop(rex, "a/b", argv=self.script(f"[ -e {slow} ] && read go < {fifo}; exec {binary()}"))
        self.hop(rex, "a/c")
        self.hop(rex, "a/c/d")
        feed = self.feed(rex)
        one = Attached(feed, self.kept(rex, "a/c/d"), host="a/c/d", offset=0)
        slow.touch()
        self.cut(rex, "a", feed)
        self.ran(rex, "a/c/d", one.info["session"], "echo on")
        one.until(lambda: one.data == b"on\n")
        pending = rex.start("ping", host="a/b")
        self.assertFalse(pending.done())
        fifo.write_text("go\n")
        pending.result()

    @staticmethod
    def answers(rex, host):
        try:
            return rex.call("process/run", host=host, command="echo on")["stdout"] == "on\n"
        except RpcError as error:
            assert error.type == "HostLost", error
            return False

    def test_one_that_falls_silent_is_dialled_again(self):
        rex = self.near()
        silent = pid_of(self.hop(rex, "a", options={"keepAliveMs": SLOW}))
        os.kill(silent, signal.SIGSTOP)
        self.assertIn("nothing was heard", told(rex, host="a", state="lost")["detail"])
        told(rex, host="a", state="ready")
        self.assertNotEqual(self.pid_at(rex, "a"), silent)
        kill_quietly(silent)


class Output(HealCase):
    LINES = 40_000

    def stream(self, rex, host, follow=None, **params):
        """A session that has a numbered stream to write when it is let, and an attachment to it: (session, go, all)."""
        session = self.kept(rex, host)
        fifo = self.own_folder / f"{session}.fifo"
        os.mkfifo(fifo)
        one = Attached(self.feed(rex), session, host=follow or host, offset=0, **params)
        self.ran(rex, host, session, f"read go < {fifo}; seq {self.LINES}", waitMs=0)
        whole = b"".join(b"%d\n" % i for i in range(1, self.LINES + 1))
        return one, lambda: fifo.write_text("go\n"), whole

    def test_an_attachment_goes_on_where_it_was(self):
        rex = self.near()
        self.hop(rex, "a")
        one, go, whole = self.stream(rex, "a", window=32 * 1024)
        go()
        for part in range(1, 6):
            one.until(lambda part=part: one.next >= len(whole) * part // 6)
            self.cut(rex, "a", one.feed)
        one.until(lambda: one.next >= len(whole))
        self.assertEqual(one.data, whole)
        self.assertEqual(one.gaps, [])

    def test_it_goes_on_through_every_hop_whichever_was_lost(self):
        rex = self.near()
        pids, path = self.chain(rex, "a", "b")
        one, go, whole = self.stream(rex, path, window=32 * 1024)
        go()
        for part, victim in enumerate(("a/b", "a", "a/b", "a"), 1):
            one.until(lambda part=part: one.next >= len(whole) * part // 5)
            self.cut(rex, victim, one.feed)
        one.until(lambda: one.next >= len(whole))
        self.assertEqual(one.data, whole)
        gone(self, *pids)

    def test_cut_at_random_places_it_is_whole(self):
        seed = int(os.environ.get("REX_SEED", random.randrange(1 << 32)))
        print(f"REX_SEED={seed}", flush=True)
        chance = random.Random(seed)
        rex = self.near()
        self.hop(rex, "a")
        one, go, whole = self.stream(rex, "a", window=16 * 1024)
        go()
        for place in sorted(chance.sample(range(len(whole)), amount(20, 1000))):
            one.until(lambda place=place: one.next >= place)
            kill_quietly(self.pid_at(rex, "a"))
        one.until(lambda: one.next >= len(whole))
        self.assertEqual(one.data, whole, f"REX_SEED={seed}")

    def test_what_was_not_acknowledged_still_takes_up_the_window(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        window = 8192
        one, go, whole = self.stream(rex, "a", window=window)
        go()
        one.until(lambda: one.next == window, acks=False)
        gate.touch()
        self.cut(rex, "a", one.feed)
        one.ack(3000)  # while nobody is there
        gate.unlink()
        one.until(lambda: one.next == window + 3000, acks=False)
        self.assertTrue(one.feed.idle(one.id))
        one.until(lambda: one.next >= len(whole) or one.ack())
        self.assertEqual(one.data, whole)

    def test_what_is_acknowledged_while_it_is_asked_for_is_passed_on(self):
        rex = self.near()
        before, fifo = self.own_folder / "before", self.own_folder / "fifo"
        os.mkfifo(fifo)
        argv = self.fake(
            "import pathlib",
            "def attach(far, **more):",
            "    answer(read(), {'attachment': far, 'offset': 0, 'info': {'createdAt': 'then'}, **more})",
            f"before = pathlib.Path({str(before)!r})",
            "hello()",
            "if not before.exists():",
            "    before.touch()",
            "    attach('a1')",
            "    output(0, 100)",
            "    read()  # the first ack: it is lost right behind it",
            "    sys.exit()",
            "kept.append(read())",
            "tell('session/event', attachment='none', event='asked', acked=kept[0]['params']['acked'])",
            f"open({str(fifo)!r}).read()",
            "attach('a2')",
            "ack = read()",
            "tell('session/event', attachment='a2', event=ack['method'], ack=ack['params'])",
            "read()")
        self.hop(rex, "a", argv=argv)
        attachment = rex.call("session/attach", host="a", session="s", offset=0)["attachment"]
        told(rex, "session/output", next=100)
        rex.notify("session/ack", attachment=attachment, offset=50)
        self.assertEqual(told(rex, "session/event", event="asked")["acked"], 50)
        rex.notify("session/ack", attachment=attachment, offset=80)
        rex.call("ping")  # it has been taken
        fifo.write_text("go")
        ack = told(rex, "session/event", attachment=attachment, event="session/ack")["ack"]
        self.assertEqual(ack, {"attachment": "a2", "offset": 80})

    def test_what_the_journal_lost_meanwhile_is_an_exact_gap(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a", journalBytes=65536)
        one = Attached(self.feed(rex), session, host="a", offset=0)
        self.ran(rex, "a", session, "echo before")
        one.until(lambda: one.data.endswith(b"before\n"))
        gate.touch()
        self.cut(rex, "a", one.feed)
        other = self.near()  # the same machine, by another way
        self.ran(other, "", session, "seq 100000", maxOutputBytes=4096)
        info = other.call("session/info", session=session)
        self.assertGreater(info["oldest"], one.next)
        before = one.next
        gate.unlink()
        one.until(lambda: one.next >= info["next"])
        self.assertEqual(one.gaps, [{"from": before, "to": info["oldest"]}])
        whole = b"".join(b"%d\n" % i for i in range(1, 100_001))
        self.assertEqual(one.data, b"before\n" + whole[-(info["next"] - info["oldest"]):])

    def test_one_that_had_no_output_yet_begins_where_it_was_made(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a")
        self.ran(rex, "a", session, "echo before")
        one = Attached(self.feed(rex), session, host="a")
        gate.touch()
        self.cut(rex, "a", one.feed)
        self.ran(self.near(), "", session, "echo meanwhile")
        gate.unlink()
        one.until(lambda: one.data.endswith(b"meanwhile\n"))
        self.assertEqual(one.data, b"meanwhile\n")
        one.event("stateChanged", state="ready")

    def test_the_end_of_the_session_meanwhile_is_told_with_the_rest_of_its_output(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a", restart=False)
        one = Attached(self.feed(rex), session, host="a", offset=0)
        gate.touch()
        self.cut(rex, "a", one.feed)
        self.ran(self.near(), "", session, "echo last; exit 3")
        gate.unlink()
        one.until(lambda: one.eof)
        self.assertEqual(one.data, b"last\n")

    def test_F3_a_job_that_ends_while_the_way_to_it_is_cut_is_told_once_with_its_result(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a")
        self.hop(rex, "a/b", argv=argv)
        session, feed = self.kept(rex, "a/b"), self.feed(rex)
        one = Attached(feed, session, host="a/b", offset=0)
        fifo = self.own_folder / "fifo"
        os.mkfifo(fifo)
        job = self.ran(rex, "a/b", session, f"read go < {fifo}; echo done; (exit 7)", waitMs=0)["job"]
        wait = rex.start("session/wait", host="a/b", session=session, job=job, any=[{"exit": True}])
        gate.touch()
        self.cut(rex, "a/b", feed)
        error = self.refused("HostLost", wait.result)
        self.assertEqual((error.data["host"], error.data["executed"]), ("a/b", "unknown"))
        threading.Event().wait(float(os.environ.get("REX_CUT_SECONDS", amount(0, 600))))  # how long it is cut
        fifo.write_text("go\n")
        self.near().call("session/wait", session=session, job=job, any=[{"exit": True}])
        gate.unlink()
        one.until(lambda: one.data == b"done\n")
        one.event("stateChanged", state="ready")
        result = rex.call("session/wait", host="a/b", session=session, job=job, any=[{"exit": True}])["result"]
        self.result(result, state="exited", exitCode=7)
        self.assertTrue(feed.idle(one.id))

    def test_M02_a_command_goes_on_without_the_far_instance_and_its_result_is_had_from_the_next(self):
        rex = self.near()
        self.hop(rex, "a")
        self.hop(rex, "a/b")
        session = self.kept(rex, "a/b")
        fifo = self.own_folder / "fifo"
        os.mkfifo(fifo)
        command = {"command": f"read go < {fifo}; echo done; (exit 7)", "key": {"client": "test", "seq": 1}}
        run = rex.start("session/run", host="a/b", session=session, **command)
        self.assertTrue(until(lambda: rex.call("session/info", host="a/b", session=session)["job"]))
        self.cut(rex, "a/b")
        error = self.refused("HostLost", run.result)
        self.assertEqual((error.data["host"], error.data["executed"]), ("a/b", "unknown"))
        fifo.write_text("go\n")
        self.ended(rex.call("session/run", host="a/b", session=session, **command), 7, output="done\n")

    def test_older_and_newer_attachments_are_told_apart(self):
        rex = self.near()
        self.hop(rex, "a")
        sessions = [self.kept(rex, "a") for _ in range(3)]
        feed = self.feed(rex)
        following = [Attached(feed, sessions[0], host="a", offset=0), Attached(feed, sessions[1], host="a", offset=0)]
        following[0].detach()
        for turn in range(3):
            self.cut(rex, "a", feed)
            self.status(feed, "a", "ready")
            following.append(Attached(feed, sessions[2], host="a", offset=0))
            for one in following[1:]:
                self.ran(rex, "a", one.info["session"], f"echo {turn}")
                one.until(lambda one=one: one.data.count(b"\n") >= turn + 1 and one.data.endswith(b"%d\n" % turn))
        self.assertEqual(len({one.id for one in following}), len(following))
        for one in following[1:]:
            one.detach()
            self.refused("InvalidParams", rex.call, "session/detach", attachment=one.id)

    def test_one_that_is_let_go_while_its_host_is_lost_does_not_go_on(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a")
        feed = self.feed(rex)
        one, other = (Attached(feed, session, host="a", offset=0) for _ in range(2))
        gate.touch()
        self.cut(rex, "a", one.feed)
        one.detach()
        gate.unlink()
        self.ran(rex, "a", session, "echo on")
        other.until(lambda: other.data == b"on\n")
        self.assertTrue(feed.idle(one.id))

    def test_M14_a_writer_types_on_unless_another_has_the_lease_by_now(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a")
        feed = self.feed(rex)
        one = Attached(feed, session, host="a", offset=0, role="writer", takeover=True, newline="raw")
        self.cut(rex, "a", one.feed)
        one.event("stateChanged")
        rex.call("session/write", host="a", session=session, data="echo typed\n")
        other = self.near()
        self.refused("NotWriter", other.call, "session/write", session=session, data="echo other\n")
        gate.touch()
        self.cut(rex, "a", one.feed)
        other.call("session/attach", session=session, role="writer", takeover=True)
        gate.unlink()
        one.event("writerChanged", writer=rex_name(other, session))
        self.refused("NotWriter", rex.call, "session/write", host="a", session=session, data="echo typed\n")


def rex_name(rex, session):
    return rex.call("session/info", session=session)["writer"]


class Ended(HealCase):
    """What cannot go on is told, once."""

    def end_of(self, rex, attachment):
        return told(rex, "attachment/ended", attachment=attachment)

    def test_a_session_that_went_with_its_host(self):
        rex = self.near()
        self.hop(rex, "a")
        rex.call("session/create", host="a", session="s", shell="sh")
        for method in ("session/attach", "session/subscribe"):
            attachment = rex.call(method, host="a", session="s")["attachment"]
            self.cut(rex, "a")
            end = self.end_of(rex, attachment)
            self.assertEqual((end["host"], end["type"]), ("a", "SessionNotFound"))
            self.refused("InvalidParams", rex.call, "session/detach", attachment=attachment)
            rex.call("session/create", host="a", session="s", shell="sh")

    def test_a_session_that_has_another_in_its_place(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a")
        one = Attached(self.feed(rex), session, host="a", offset=0)
        gate.touch()
        self.cut(rex, "a")
        other = self.near()
        other.call("session/close", session=session)
        other.call("session/create", session=session, lifetime="daemon", shell="sh")
        self.ran(other, "", session, "echo another")
        gate.unlink()
        end = self.end_of(rex, one.id)
        self.assertEqual((end["host"], end["type"]), ("a", "SessionEnded"))
        self.assertTrue(one.feed.idle(one.id))

    def test_a_session_whose_process_was_killed(self):
        for hops in (0, 1, 2):
            with self.subTest(hops=hops):
                rex = self.near()
                host = self.chain(rex, *"ab"[:hops])[1]
                session = self.kept(rex, host)
                attachment = rex.call("session/attach", host=host, session=session)["attachment"]
                for pid in self.keepers():
                    os.kill(pid, signal.SIGKILL)
                end = self.end_of(rex, attachment)
                self.assertEqual((end["host"], end["type"]), (host, "SessionEnded"))


class Events(HealCase):
    def test_a_subscription_says_what_is_now_and_goes_on(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        session = self.kept(rex, "a")
        fifo = self.own_folder / "fifo"
        os.mkfifo(fifo)
        subscribed = rex.call("session/subscribe", host="a", session=session)["attachment"]
        self.ran(rex, "a", session, f"read go < {fifo}", waitMs=0)
        told(rex, "session/event", attachment=subscribed, event="jobStarted")
        gate.touch()
        self.cut(rex, "a")
        gate.unlink()
        now = told(rex, "session/event", attachment=subscribed, event="stateChanged", state="running")
        self.assertEqual((now["host"], now["session"]), ("a", session))
        fifo.write_text("go\n")
        told(rex, "session/event", attachment=subscribed, event="jobEnded")
        rex.call("session/unsubscribe", attachment=subscribed)

    def test_a_watch_says_that_changes_may_have_been_missed_and_goes_on(self):
        rex = self.near()
        argv, gate = self.gated()
        self.hop(rex, "a", argv=argv)
        folder = self.own_folder / "watched"
        folder.mkdir()
        watched = rex.call("file/watch", host="a", path=str(folder))["attachment"]
        (folder / "one").touch()
        told(rex, "file/changed", attachment=watched)
        gate.touch()
        self.cut(rex, "a")
        (folder / "two").touch()
        gate.unlink()
        self.assertIs(told(rex, "file/changed", attachment=watched, overflow=True)["overflow"], True)
        (folder / "three").touch()
        news = told(rex, "file/changed", attachment=watched)
        self.assertEqual([change["path"] for change in news["changes"]], [str(folder / "three")])
        rex.call("file/unwatch", attachment=watched)
        self.assertEqual([m for m in everything_told(rex) if m["method"] == "attachment/ended"], [])

    def test_a_host_of_the_file_is_dialled_again_while_something_streams_from_there(self):
        argv, gate = self.gated()
        rex, _ = self.filed(filed=argv, idle=argv)
        session = self.kept(rex, "filed")
        one = Attached(self.feed(rex), session, host="filed", offset=0)
        rex.call("ping", host="idle")
        lost = self.cut(rex, "filed")
        self.assertEqual(lost["retryMs"], FIRST_PAUSE)
        told(rex, host="filed", state="ready")
        self.ran(self.near(), "", session, "echo on")
        one.until(lambda: one.data == b"on\n")
        self.assertNotIn("retryMs", self.cut(rex, "idle"))

    def test_every_client_of_a_host_of_the_file_hears_that_it_is_there_again(self):
        argv, gate = self.gated()
        rex, _ = self.filed(filed=argv)
        clients = [rex, self.peer(rex)]
        session = self.kept(rex, "filed")
        for client in clients:
            client.call("session/attach", host="filed", session=session)
        gate.touch()
        self.cut(rex, "filed")
        for client in clients[1:]:
            self.assertEqual(told(client, host="filed", state="lost")["retryMs"], FIRST_PAUSE)
        gate.unlink()
        for client in clients:
            told(client, host="filed", state="ready")

    def test_a_host_that_was_taken_out_of_the_file_is_given_up_and_told_so(self):
        argv, gate = self.gated()
        rex, path = self.filed(filed=argv)
        attachment = rex.call("session/attach", host="filed", session=self.kept(rex, "filed"), offset=0)["attachment"]
        gate.touch()
        self.cut(rex, "filed")
        path.write_text('{"hosts": {}}')
        while "retryMs" in told(rex, host="filed", state="lost"):
            pass
        end = told(rex, "attachment/ended", attachment=attachment)
        self.assertEqual((end["host"], end["type"]), ("filed", "HostNotFound"))
        self.refused("HostNotFound", rex.call, "ping", host="filed")

    def test_a_name_that_the_client_gives_to_another_stays_that_ones(self):
        block, fifo = self.own_folder / "block", self.own_folder / "fifo"
        os.mkfifo(fifo)
        rex, _ = self.filed(filed=self.script(f"[ -e {block} ] && cat {fifo} >/dev/null; exec {binary()}"))
        rex.call("session/attach", host="filed", session=self.kept(rex, "filed"))
        block.touch()
        self.cut(rex, "filed")
        told(rex, host="filed", state="connecting")
        self.hop(rex, "filed")
        told(rex, host="filed", state="ready")
        fifo.write_text("go\n")
        told(rex, host="filed", state="ready")  # of the file, which nobody needs by now
        self.assertEqual(rex.call("host/info", name="filed")["argv"], [binary()])


if __name__ == "__main__":
    unittest.main()
