"""Requests with a `key`: each takes place once, however often and over how many connections it is sent, and answers the
same each time. And `inputOffset`, by which what is typed comes once.

Must not know how answers are kept.
"""

import contextlib
import json
import os
import pathlib
import queue
import random
import secrets
import selectors
import signal
import socket
import stat
import subprocess
import threading
import unittest

from rig import Rex, RexCase, RpcError, amount, binary, kill_quietly, until
from test_daemon import DaemonCase


def key(seq, client="one", **members):
    return {"client": client, "seq": seq, **members}


class Keyed:
    """A command that leaves a line each time that it runs."""

    def counting(self, and_then="true"):
        return f"echo ran >>{self.folder}/count; {and_then}"

    def count(self):
        path = pathlib.Path(self.folder) / "count"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def unknown(self, reason, call, *args, **params):
        told = self.refused("OutcomeUnknown", call, *args, **params)
        self.assertEqual((told.data["reason"], told.data["executed"]), (reason, "unknown"), told)
        return told


class Connection(Keyed, RexCase):
    def test_F13_the_same_key_is_one_job_and_one_answer(self):
        session = self.fresh()
        first = session.run(self.counting("echo told; (exit 3)"), key=key(1))
        self.ended(first, 3, output="told\n")
        for _ in range(3):
            self.assertEqual(session.run(self.counting("echo told; (exit 3)"), key=key(1)), first)
        self.assertEqual(self.count(), 1)
        other = session.run(self.counting("echo told; (exit 3)"), key=key(2))
        self.assertEqual((other["output"], self.count()), ("told\n", 2))
        self.assertNotEqual(other["job"], first["job"])

    def test_one_that_still_runs_is_joined(self):
        session = self.fresh()
        gate = self.gate()
        pending = [session.start("run", command=self.counting(f"read x <{gate}; echo done"), key=key(1)) for _ in range(3)]
        job = session.run(self.counting(f"read x <{gate}; echo done"), key=key(1), waitMs=0)
        self.assertEqual(job["state"], "running")
        with open(gate, "w", encoding="utf-8") as opened:
            opened.write("go\n")
        answers = [each.result() for each in pending]
        self.assertEqual({answer["job"] for answer in answers}, {job["job"]})
        self.assertEqual([answer["output"] for answer in answers], ["done\n"] * 3)
        self.assertEqual(self.count(), 1)

    def test_what_only_says_how_to_wait_and_what_to_show_may_differ(self):
        session = self.fresh()
        first = session.run(self.counting("seq 5"), key=key(1))
        cut = session.run(self.counting("seq 5"), key=key(1, acked=0), waitMs=5000, maxOutputBytes=4, view="raw")
        self.assertEqual((cut["job"], cut["totalBytes"], cut["omitted"]["bytes"]), (first["job"], 10, 6))
        matched = session.run(self.counting("seq 5"), key=key(1), expect=["3"])
        self.assertEqual((matched["state"], matched["output"]), ("matched", "1\n2\n"))
        self.assertEqual(self.count(), 1)

    def test_for_another_request_it_is_refused(self):
        session = self.fresh()
        session.run("true", key=key(1))
        for params in ({"command": "false"}, {"command": "true", "isolate": True}, {"command": "true", "timeoutMs": 5}):
            with self.subTest(params=params):
                told = self.refused("KeyConflict", session.run, key=key(1), **params)
                self.assertEqual(told.data["executed"], "no")
        self.refused("KeyConflict", session.call, "signal", signal="WINCH", key=key(1))
        self.refused("KeyConflict", self.fresh().run, "true", key=key(1))
        self.ended(session.run("true", key=key(1, client="another")))

    def test_acknowledged_it_is_forgotten_and_never_runs_again(self):
        session = self.fresh()
        session.run(self.counting(), key=key(1))
        session.run(self.counting(), key=key(2))
        self.ended(session.run(self.counting(), key=key(5, acked=1)))
        self.unknown("forgotten", session.run, self.counting(), key=key(1))
        self.ended(session.run(self.counting(), key=key(2)))
        self.assertEqual(self.count(), 3)
        self.ended(session.run(self.counting(), key=key(4)))  # they need not come in order
        own = self.refused("InvalidParams", session.run, self.counting(), key=key(9, acked=9))
        self.assertEqual((own.data["member"], self.count()), ("key.acked", 4))

    def test_with_too_many_unacknowledged_a_new_one_is_refused_and_none_forgotten(self):
        session = self.fresh(shell="dash")
        first = session.run(self.counting("echo first"), key=key(1))
        for seq in range(2, 1001):
            session.run(":", key=key(seq))
        full = self.refused("LimitExceeded", session.run, self.counting(), key=key(1001))
        self.assertEqual((full.data["limit"], full.data["max"], full.data["executed"]), ("keys", 1000, "no"))
        self.assertEqual(session.run(self.counting("echo first"), key=key(1)), first)
        self.ended(session.run("true"))
        self.ended(session.run("true", key=key(1, client="another")))
        self.assertEqual(self.count(), 1)
        self.ended(session.run(self.counting(), key=key(1001, acked=1)))
        self.assertEqual(self.count(), 2)

    def test_what_was_refused_may_be_sent_again(self):
        session = self.fresh()
        gate = self.gate()
        job = session.start("run", command=f"read x <{gate}")
        self.assertTrue(until(lambda: session.call("info")["job"]))
        busy = self.refused("SessionBusy", session.run, self.counting(), key=key(1))
        self.assertEqual(busy.data["executed"], "no")
        with open(gate, "w", encoding="utf-8") as opened:
            opened.write("go\n")
        job.result()
        self.ended(session.run(self.counting(), key=key(1)))
        self.assertEqual(self.count(), 1)

    def test_typed_into_a_program_it_is_typed_once_and_has_its_own_answer(self):
        session = self.fresh()
        session.run("cat", key=key(1))
        first = session.run("hello", interactive=True, key=key(2))
        self.assertEqual((first["output"], first["state"]), ("hello\n", "waitingInput"))
        session.run("more", interactive=True, key=key(3))
        again = session.run("hello", interactive=True, key=key(2))
        self.assertEqual({**again, "durationMs": 0}, {**first, "durationMs": 0})
        self.assertEqual(session.read_all(), b"hello\nhello\nmore\nmore\n")
        session.call("interrupt")

    def test_its_live_output_is_its_own(self):
        session = self.fresh()
        session.run("seq 1000", key=key(1))
        session.run("echo not its own")
        result = session.run("seq 1000", key=key(1), progressToken="live")
        pieces = []
        while True:
            try:
                message = self.rex.notifications.get_nowait()
            except queue.Empty:
                break
            if message["method"] == "$/progress" and message["params"]["token"] == "live":
                pieces.append(message["params"]["value"]["data"])
        self.assertEqual("".join(pieces), "".join(f"{number}\n" for number in range(1, 1001)))
        self.assertEqual(result["output"], "".join(pieces))

    def test_whoever_has_the_key_may_stop_it(self):
        session = self.fresh()
        first = session.start("run", command=self.counting("sleep 1000"), key=key(1))
        again = session.start("run", command=self.counting("sleep 1000"), key=key(1))
        self.assertTrue(until(lambda: self.count() == 1))
        self.rex.notify("$/cancelRequest", id=again.id)
        self.assertEqual(self.refused("RequestCancelled", again.result).data["result"]["state"], "cancelled")
        self.assertEqual(first.result()["state"], "cancelled")
        self.assertEqual(session.run(self.counting("sleep 1000"), key=key(1))["state"], "cancelled")
        self.assertEqual(self.count(), 1)

    def test_a_signal_is_sent_once(self):
        program = f"trap 'echo ran >>{self.folder}/count' USR1; echo set; while :; do read x; done"
        session = self.fresh(shell=None, argv=["bash", "-c", program])
        session.call("wait", any=[{"match": "set"}])
        first = session.call("signal", signal="USR1", key=key(1))
        self.assertTrue(until(lambda: self.count() == 1))
        self.assertEqual(session.call("signal", signal="USR1", key=key(1)), first)
        session.call("write", data="x\n")  # when this has been read, a second signal would have come too
        session.call("wait", any=[{"input": True}])
        session.call("signal", signal="USR1", key=key(2))
        self.assertTrue(until(lambda: self.count() == 2))

    def test_a_session_is_made_once_and_closed_once(self):
        made = [self.rex.start("session/create", shell="dash", key=key(1, client="maker")) for _ in range(3)]
        infos = [each.result() for each in made]
        self.assertEqual(infos, [infos[0]] * 3)
        name = infos[0]["session"]
        self.assertEqual(self.rex.call("session/create", shell="dash", key=key(1, client="maker")), infos[0])
        self.rex.call("session/run", session=name, command="true", key=key(2, client="maker"))
        closed = [self.rex.start("session/close", session=name, graceMs=100, key=key(3, client="maker")) for _ in range(3)]
        answers = [each.result() for each in closed]
        self.assertEqual(answers, [answers[0]] * 3)
        self.assertEqual(self.rex.call("session/close", session=name, graceMs=100, key=key(3, client="maker")), answers[0])
        self.unknown("noSession", self.rex.call, "session/run", session=name, command="true", key=key(2, client="maker"))
        self.unknown("noSession", self.rex.call, "session/signal", session=name, signal="INT", key=key(4, client="maker"))
        self.refused("SessionNotFound", self.rex.call, "session/run", session=name, command="true")

    def test_what_could_not_be_known_stays_unknown(self):
        signal_it = lambda seq: self.rex.call(  # noqa: E731
            "session/signal", session="late", signal="WINCH", key=key(seq))
        self.unknown("noSession", signal_it, 1)
        session = self.rex.session("late", shell="dash")
        self.unknown("noSession", signal_it, 1)
        self.assertEqual(signal_it(2)["delivered"], [session.info["pid"]])

    def test_one_of_the_same_name_is_another_session(self):
        session = self.fresh()
        session.run(self.counting(), key=key(1))
        session.call("close", graceMs=100)
        self.rex.session(session.name, shell="bash")
        self.unknown("noSession", session.run, self.counting(), key=key(1))
        self.assertEqual(self.count(), 1)

    def gate(self):
        path = self.folder / "gate"
        os.mkfifo(path)
        return path

    def setUp(self):
        super().setUp()
        if self.rex.process.poll() is None:
            type(self).rex.close()
        type(self).start_rex()  # that keeps nothing


class InputOffset(RexCase):
    def test_what_was_taken_is_not_written_again(self):
        session = self.fresh(shell=None, argv=["sh", "-c", f"cat >{self.folder}/got"], tty=False)
        write = lambda data, at, **more: session.call("write", data=data, inputOffset=at, **more)  # noqa: E731
        for _ in range(3):
            self.assertEqual(write("abc", 0), {"accepted": 3, "inputOffset": 3})
        self.assertEqual(write("bcdef", 1), {"accepted": 5, "inputOffset": 6})
        gap = self.refused("InputRefused", write, "x", 7)
        self.assertEqual((gap.data["reason"], gap.data["at"], gap.data["executed"]), ("gap", 6, "no"))
        self.assertEqual(write("abc", 0), {"accepted": 3, "inputOffset": 6})
        for _ in range(2):  # the second one after its program has ended
            self.assertEqual(write("g", 6, eof=True), {"accepted": 1, "inputOffset": 7})
            session.call("wait", any=[{"exit": True}])
        self.assertEqual((self.folder / "got").read_text(), "abcdefg")

    def test_a_line_in_a_terminal_counts_its_enter_and_its_end(self):
        session = self.fresh()
        job = session.start("run", command=f"cat >{self.folder}/got", returnOnInput=False)
        session.call("wait", any=[{"input": True}])
        start = session.call("write", data="")["inputOffset"]
        for _ in range(2):
            self.assertEqual(session.call("write", data="one", submit=True, inputOffset=start)["accepted"], 4)
        both = session.call("write", data="one\r", keys=["t", "w", "o"], submit=True, inputOffset=start)
        self.assertEqual(both, {"accepted": 8, "inputOffset": start + 8})
        for _ in range(2):  # the second one to a shell that would take it for its own end
            self.assertEqual(session.call("write", eof=True, inputOffset=start + 8)["accepted"], 1)
            session.call("wait", any=[{"exit": True}])
        self.ended(job.result())
        self.assertEqual((self.folder / "got").read_text(), "one\ntwo\n")

    def test_pipelined_pieces_sent_twice_come_once_and_in_order(self):
        session = self.fresh(shell=None, argv=["sh", "-c", f"cat >{self.folder}/got"], tty=False)
        pieces = [f"{number}\n" * 50 for number in range(200)]
        offset, pending = 0, []
        for piece in pieces:
            pending += [session.start("write", data=piece, inputOffset=offset) for _ in range(2)]
            offset += len(piece)
        for each in pending:
            each.result()
        session.call("write", data="", eof=True)
        session.call("wait", any=[{"exit": True}])
        self.assertEqual((self.folder / "got").read_text(), "".join(pieces))


class KeptCase(Keyed, DaemonCase):
    """With a directory of the test's own, where keys are kept."""

    def setUp(self):
        super().setUp()
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")

    def store(self):
        return self.folder / "state" / "rex-rpc" / "keys"


class Daemon(KeptCase):
    """Of a session that outlives its client."""

    def main(self, rex, **options):
        return rex.session("main", shell="bash", lifetime="daemon", **options)

    def far(self):
        """The socket of an instance that several connect to."""
        place = self.folder / "far.sock"
        far = subprocess.Popen([binary(), "--private", "serve", "--listen", f"unix:{place}"], env=self.environment,
                               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(far.wait)
        self.addCleanup(kill_quietly, far.pid)
        self.assertTrue(until(place.exists))
        return place

    def again(self, session, rex):
        return type(session)(rex, session.name, session.info)

    def test_M12_the_front_killed_between_request_and_answer(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        command = self.counting(f"read x <{gate}; echo done; (exit 4)")
        rex = self.instance()
        session = self.main(rex)
        session.start("run", command=command, key=key(1))
        self.assertTrue(until(lambda: self.count() == 1))
        rex.kill()
        session = self.again(session, self.instance())
        joined = session.start("run", command=command, key=key(1))
        self.pass_gate(gate)
        answer = joined.result()
        self.ended(answer, 4, output="done\n")
        self.assertEqual(self.again(session, self.instance()).run(command, key=key(1)), answer)
        self.assertEqual(self.count(), 1)

    def test_F13_two_clients_at_once(self):
        first = self.main(self.instance())
        second = self.again(first, self.instance())
        for seq in range(1, amount(20, 500)):
            pending = [each.start("run", command=self.counting(f"echo {seq}"), key=key(seq)) for each in (first, second)]
            answers = [each.result() for each in pending]
            self.assertEqual(answers[0], answers[1])
            self.ended(answers[0], output=f"{seq}\n")
            self.assertEqual(self.count(), seq)

    def test_the_front_killed_while_it_makes_a_session(self):
        gate, startup = self.folder / "gate", self.folder / "startup"
        for name in ({"session": "main"}, {}):
            with self.subTest(**name):
                gate.unlink(missing_ok=True)
                os.mkfifo(gate)
                before = self.count()
                startup.write_text(self.counting(f"read x <{gate}") + "\n")
                params = {"shell": "bash", "lifetime": "daemon", "startupSource": [str(startup)],
                          "startupTimeoutMs": 60000, "key": key(before + 1), **name}
                rex = self.instance()
                rex.start("session/create", **params)
                self.assertTrue(until(lambda before=before: self.count() > before))
                rex.kill()
                rex = self.instance()
                joined = rex.start("session/create", **params)
                self.pass_gate(gate)
                made = joined.result()
                self.assertEqual(self.instance().call("session/create", **params), made)
                self.assertEqual(rex.call("session/run", session=made["session"], command="echo in")["output"], "in\n")
                self.assertEqual((self.count() - before, len(self.keepers())), (1, before + 1))

    def test_closed_it_stays_closed_whoever_asks_again(self):
        rex = self.instance()
        session = self.main(rex, key=key(1))
        closed = session.call("close", graceMs=100, key=key(2))
        self.assertTrue(until(lambda: not self.keepers()))
        for each in (rex, self.instance()):
            self.assertEqual(each.call("session/close", session="main", graceMs=100, key=key(2)), closed)
            made = each.call("session/create", session="main", shell="bash", lifetime="daemon", key=key(1))
            self.assertEqual(made, session.info)
            self.unknown("noSession", each.call, "session/run", session="main", command="true", key=key(3))
        self.assertEqual(rex.call("session/list")["sessions"], [])

    def test_the_front_killed_while_it_closes_a_session(self):
        rex = self.instance()
        session = self.main(rex)
        stubborn = f"trap 'echo ran >>{self.folder}/count' HUP; trap '' TERM; echo set; while :; do sleep 0.05; done"
        session.run(f"({stubborn}) &")
        session.call("wait", any=[{"match": "set", "from": 0}])
        session.start("close", graceMs=1000, key=key(1))
        self.assertTrue(until(self.count), "the close has not begun")
        rex.kill()
        answer = self.instance().call("session/close", session="main", graceMs=1000, key=key(1))
        self.assertEqual(answer["survivors"], [])
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(self.instance().call("session/close", session="main", graceMs=1000, key=key(1)), answer)

    def test_M13_its_process_killed_nobody_knows(self):
        rex = self.instance()
        session = self.main(rex)
        session.run(self.counting(), key=key(1))
        [keeper] = self.keepers()
        os.kill(keeper, signal.SIGKILL)
        self.assertTrue(until(lambda: not self.keepers()))
        for each in (rex, self.instance()):
            self.unknown("noSession", each.call, "session/run", session="main", command=self.counting(), key=key(1))
        self.assertEqual(self.count(), 1)

    def test_M13_its_process_killed_with_requests_in_its_hands(self):
        rex = self.instance()
        for method, params in (("run", {"command": self.counting()}), ("close", {})):
            self.main(rex)
            [keeper] = self.keepers()
            os.kill(keeper, signal.SIGSTOP)
            keyed = rex.start(f"session/{method}", session="main", **params, key=key(7))
            plain = rex.start(f"session/{method}", session="main", **params)
            rex.call("ping")
            os.kill(keeper, signal.SIGKILL)
            self.assertEqual(self.refused("SessionEnded", plain.result).data["executed"], "unknown")
            if method == "run":
                self.unknown("noSession", keyed.result)
                rex.call("session/close", session="main", key=key(8))
            else:  # which is remembered elsewhere
                self.refused("SessionEnded", keyed.result)
                self.assertEqual(rex.call("session/close", session="main", key=key(7))["survivors"], [])
        self.assertEqual(self.count(), 0)

    def test_M13_its_process_killed_before_it_greeted(self):
        self.main(self.instance())
        [keeper] = self.keepers()
        os.kill(keeper, signal.SIGSTOP)
        rex = self.instance(hops=0)
        keyed = rex.start("session/run", session="main", command=self.counting(), key=key(1))
        plain = rex.start("session/run", session="main", command=self.counting())
        rex.call("ping")
        os.kill(keeper, signal.SIGKILL)
        self.unknown("noSession", keyed.result)
        self.assertEqual(self.refused("SessionEnded", plain.result).data["executed"], "no")

    def test_one_who_looks_at_many_that_others_make_may_still_connect_to_hosts(self):
        """The processes that were behind a name are no hosts of whoever asked for it."""
        place = self.far()
        one, other = self.instance(hops=0), self.instance(hops=0)
        for rex in (one, other):
            rex.call("host/connect", name="far", url=f"unix://{place}")
        for _ in range(262):
            other.call("session/create", host="far", session="main", shell="dash", lifetime="daemon")
            other.call("session/run", host="far", session="main", command="true")
            self.assertEqual(one.call("session/info", host="far", session="main")["state"], "ready")
            other.call("session/close", host="far", session="main", graceMs=100)
        self.assertEqual(one.call("host/connect", host="far", name="next", argv=[binary()])["state"], "ready")

    def test_a_session_made_where_one_was_just_closed(self):
        """Whoever has a link to the process of the first must not ask that one for the second."""
        rex, other = self.instance(), self.instance()
        for turn in range(10):
            session = self.main(rex)
            self.assertEqual(session.run(f"A={turn}; echo $A")["output"], f"{turn}\n")
            other.call("session/close", session="main", graceMs=100)
            other.call("session/create", session="main", shell="bash", lifetime="daemon")
            self.assertEqual(rex.call("session/run", session="main", command="echo [$A]")["output"], "[]\n")
            rex.call("session/close", session="main", graceMs=100)

    def test_M12_a_link_cut_at_random_points(self):
        seed = int(os.environ.get("REX_SEED", secrets.randbits(32)))
        print(f"seed {seed}", end=" ", flush=True)
        place = self.far()
        cutter = Cutter(self.folder / "cut.sock", place, random.Random(seed))
        self.addCleanup(cutter.close)
        rex = self.instance(hops=0)
        client = Stubborn(rex, f"unix://{cutter.path}")
        client.call("session/create", session="main", shell="bash", lifetime="daemon", key=key(1))
        total = amount(500, 5000)
        answers = {}
        for number in range(2, total + 2):
            acked = {"acked": number - 901} if number > 901 else {}
            command = f"echo {number} >>{self.folder}/count; wc -l <{self.folder}/count"
            answers[number] = client.call("session/run", session="main", command=command, key=key(number, **acked))
        lines = (self.folder / "count").read_text().splitlines()
        self.assertEqual(lines, [str(number) for number in range(2, total + 2)], f"seed {seed}")
        self.assertEqual([int(answer["output"]) for answer in answers.values()], list(range(1, total + 1)))
        self.assertGreater(cutter.cuts, total // 20)
        cutter.mend()
        for number in list(answers)[-500:]:
            command = f"echo {number} >>{self.folder}/count; wc -l <{self.folder}/count"
            self.assertEqual(client.call("session/run", session="main", command=command, key=key(number)), answers[number])
        self.assertEqual(self.count(), total)


class Files(KeptCase):
    """What one instance has done, the others of its user know."""

    def test_each_change_takes_place_once_whoever_is_asked(self):
        place = self.folder / "place"
        place.mkdir()
        (place / "old").write_text("one two\n")
        one, two = self.instance(), self.instance()
        changes = [
            ("file/write", {"path": str(place / "log"), "data": "line\n", "append": True}),
            ("file/edit", {"path": str(place / "old"), "edits": [{"old": "two", "new": "two two"}]}),
            ("file/mkdir", {"path": str(place / "made")}),
            ("file/symlink", {"path": str(place / "link"), "target": "old"}),
            ("file/rename", {"from": str(place / "made"), "to": str(place / "moved")}),
            ("file/setattr", {"path": str(place / "moved"), "mode": 0o700}),
            ("file/remove", {"path": str(place / "link")}),
        ]
        answers = [one.call(method, key=key(seq), **params) for seq, (method, params) in enumerate(changes, 1)]
        self.assertEqual([two.call(method, key=key(seq), **params) for seq, (method, params) in enumerate(changes, 1)],
                         answers)
        self.assertEqual((place / "log").read_text(), "line\n")
        self.assertEqual((place / "old").read_text(), "one two two\n")
        self.assertEqual(sorted(path.name for path in place.iterdir()), ["log", "moved", "old"])
        self.refused("KeyConflict", two.call, "file/write", path=str(place / "log"), data="other\n", append=True, key=key(1))
        self.refused("KeyConflict", two.call, "file/mkdir", path=str(place / "log"), key=key(1))

    def test_what_failed_without_an_effect_may_be_sent_again(self):
        rex = self.instance()
        path = self.folder / "there" / "deep"
        refused = self.refused("OsError", rex.call, "file/mkdir", path=str(path), key=key(1))
        self.assertEqual((refused.data["name"], refused.data["executed"]), ("ENOENT", "no"))
        path.parent.mkdir()
        rex.call("file/mkdir", path=str(path), key=key(1))
        rex.call("file/mkdir", path=str(path), key=key(1))
        self.assertTrue(path.is_dir())

    def test_acknowledged_they_are_forgotten_and_with_too_many_a_new_one_is_refused(self):
        rex = self.instance()
        log = self.folder / "log"
        append = lambda seq, **more: rex.call(  # noqa: E731
            "file/write", path=str(log), data=f"{seq}\n", append=True, key=key(seq, **more))
        first = append(1)
        for seq in range(2, 1001):
            append(seq)
        full = self.refused("LimitExceeded", append, 1001)
        self.assertEqual((full.data["limit"], full.data["executed"]), ("keys", "no"))
        self.assertEqual(append(1), first)
        append(1001, acked=900)
        self.unknown("forgotten", append, 900)
        self.assertEqual(append(901)["size"], len("".join(f"{seq}\n" for seq in range(1, 902))))
        self.assertEqual(log.read_text(), "".join(f"{seq}\n" for seq in range(1, 1002)))
        self.assertEqual(len([path for path in self.store().glob("*/*") if path.name.isdigit()]), 101)

    def test_killed_at_any_point_nothing_is_done_twice_and_what_was_answered_was_done(self):
        seed = int(os.environ.get("REX_SEED", secrets.randbits(32)))
        print(f"seed {seed}", end=" ", flush=True)
        chance = random.Random(seed)
        log = self.folder / "log"
        answered, unknown = {}, []
        rex = self.instance(hops=0)
        for seq in range(1, amount(60, 1000)):
            params = {"path": str(log), "data": f"{seq}\n", "append": True, "key": key(seq)}
            rex.start("file/write", **params)
            killer = threading.Timer(chance.random() * 0.004, rex.process.kill)
            killer.start()
            killer.join()
            rex.kill()
            rex = self.instance(hops=0)
            try:
                answered[seq] = rex.call("file/write", **params)
            except RpcError as error:
                self.assertEqual((error.type, error.data.get("reason")), ("OutcomeUnknown", "interrupted"), f"seed {seed}")
                unknown.append(seq)
        lines = [int(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(lines), len(set(lines)), f"seed {seed}: something was written twice")
        self.assertLessEqual(set(answered), set(lines), f"seed {seed}")
        self.assertGreater(len(answered), 5, f"seed {seed}: {unknown}")

    def test_two_processes_at_once_do_it_once(self):
        one, two = self.instance(), self.instance()
        for seq in range(1, amount(30, 500)):
            params = {"path": str(self.folder / "log"), "data": f"{seq}\n", "append": True, "key": key(seq)}
            pending = [each.start("file/write", **params) for each in (one, two, one)]
            answers = [each.result() for each in pending]
            self.assertEqual(answers, [answers[0]] * 3)
        self.assertEqual((self.folder / "log").read_text(), "".join(f"{seq}\n" for seq in range(1, amount(30, 500))))

    def test_M13_C08_what_began_before_the_machine_was_started_nobody_knows(self):
        rex = self.instance()
        params = {"path": str(self.folder / "log"), "data": "line\n", "append": True, "key": key(1)}
        answer = rex.call("file/write", **params)
        [kept] = self.store().glob("*/1")
        written = kept.read_text()
        begun, _ = written.splitlines()
        kept.write_text(begun.replace(json.loads(begun)["boot"], "another") + "\n")
        self.unknown("reboot", rex.call, "file/write", **params)
        kept.write_text(written[:-10])  # torn, or what a full disk left
        self.unknown("interrupted", rex.call, "file/write", **params)
        for lost in (b"", bytes(len(written)), f"{begun}\n".encode()):
            kept.write_bytes(lost)
            self.unknown("interrupted", rex.call, "file/write", **params)
        kept.write_text(written)
        self.assertEqual(rex.call("file/write", **params), answer)
        self.assertEqual((self.folder / "log").read_text(), "line\n")

    def test_C08_no_bit_of_a_kept_answer_turns_unseen(self):
        rex = self.instance()
        params = {"path": str(self.folder / "log"), "data": "line\n", "append": True, "key": key(1)}
        answer = rex.call("file/write", **params)
        [kept] = self.store().glob("*/1")
        written = kept.read_bytes()
        told = set()
        for at in range(len(written)):
            damaged = bytearray(written)
            damaged[at] ^= 1 << at % 8
            kept.write_bytes(damaged)
            try:
                self.assertEqual(rex.call("file/write", **params), answer, damaged)
                told.add("answer")  # the seal's own name: the answer is whole
            except RpcError as error:
                self.assertEqual(error.type, "OutcomeUnknown", damaged)
                told.add(error.data["reason"])
        self.assertLessEqual({"damaged"}, told)
        self.assertEqual((self.folder / "log").read_text(), "line\n")

    def test_where_nothing_can_be_kept_nothing_is_done(self):
        state = self.folder / "state"
        state.write_text("no directory")
        self.environment["XDG_STATE_HOME"] = str(state)
        rex = self.instance()
        refused = self.refused("OsError", rex.call, "file/write", path=str(self.folder / "log"), data="x", key=key(1))
        self.assertEqual((refused.data["name"], refused.data["executed"]), ("ENOTDIR", "no"))
        self.assertFalse((self.folder / "log").exists())
        rex.call("file/write", path=str(self.folder / "log"), data="x")

    def test_of_too_many_clients_those_that_ended_long_ago_are_forgotten(self):
        rex = self.instance()
        make = lambda client: rex.call(  # noqa: E731
            "file/mkdir", path=str(self.folder / client), key=key(1, client=client))
        make("first")
        for number in range(9999):
            (self.store() / f"{number:032}").mkdir(mode=0o700)
        full = self.refused("LimitExceeded", make, "second")
        self.assertEqual((full.data["limit"], full.data["max"], full.data["executed"]), ("keys", 10000, "no"))
        make("first")
        ended = self.store() / f"{7:032}"
        os.utime(ended, (0, 0))
        make("second")
        self.assertFalse(ended.exists())
        self.assertEqual(len(list(self.store().iterdir())), 10000)

    def test_what_is_kept_is_the_users_own(self):
        self.instance().call("file/mkdir", path=str(self.folder / "made"), key=key(1))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (self.store(), *self.store().glob("*"))}
        self.assertEqual(modes, {0o700})
        [kept] = self.store().glob("*/1")
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)


class Stubborn:
    """A client of host `far`, which sends what has no answer again, with the same key."""

    def __init__(self, rex, url):
        self.rex, self.url = rex, url

    def call(self, method, **params):
        while True:
            try:
                return self.rex.call(method, host="far", **params)
            except RpcError as error:
                if not error.type.startswith("Host"):
                    raise
            with contextlib.suppress(RpcError):
                self.rex.call("host/connect", name="far", url=self.url)


class Cutter:
    """Carries bytes between whoever connects and the socket behind, and hangs up after a random number of them."""

    def __init__(self, path, target, chance):
        self.path, self.target, self.chance = path, target, chance
        self.cuts, self.cutting = 0, True
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def mend(self):
        self.cutting = False

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near, self.chance.randrange(1, 20000)), daemon=True).start()

    def _carry(self, near, left):
        with near, socket.socket(socket.AF_UNIX) as far, selectors.DefaultSelector() as selector:
            far.connect(str(self.target))
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for ready, _ in selector.select():
                    try:
                        data = ready.fileobj.recv(65536)
                        if not data:
                            return
                        ready.data.sendall(data if not self.cutting else data[:left])
                    except OSError:
                        return
                    left -= len(data)
                    if self.cutting and left <= 0:
                        self.cuts += 1
                        return


if __name__ == "__main__":
    unittest.main()
