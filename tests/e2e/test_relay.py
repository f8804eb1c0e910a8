"""host/*: reaching neighbours and working behind them, whose the names are, and how everything is told from afar.

What hosts do that break the rules or die is in test_relay_faults.py.
"""

import json
import os
import signal
import subprocess
import unittest

from relay_world import RelayCase, everything_told, gone, pid_of, told
from rig import RpcError, alive, binary, until
from watching import Attached


class Connecting(RelayCase):
    def test_a_host_is_connected_listed_used_and_let_go(self):
        rex = self.near()
        info = self.hop(rex, "build7")
        self.result(info, name="build7", host="", argv=[binary()], state="ready", hops=1)
        self.assertGreaterEqual(info["rttMs"], 0)
        self.assertEqual(told(rex, state="ready"), {"host": "build7", "state": "ready"})
        mine = rex.call("initialize")["machine"]["instance"]
        self.assertNotEqual(info["machine"]["instance"], mine)
        self.assertEqual(rex.call("host/info", name="build7"), info)
        self.assertEqual(rex.call("host/list")["hosts"], [info])
        ran = rex.call("process/run", host="build7", command="echo $PPID")
        self.assertEqual(ran["exitCode"], 0)
        self.assertIn("time", rex.call("ping", host="build7"))
        ended = rex.call("host/disconnect", name="build7")
        self.result(ended, name="build7", state="closed")
        self.assertEqual(told(rex, state="closed")["host"], "build7")
        gone(self, pid_of(info))
        for call in (rex.call, lambda method, name: rex.call("ping", host=name)):
            self.refused("HostNotFound", call, "host/info", name="build7")
        self.refused("HostNotFound", rex.call, "host/disconnect", name="build7")
        self.assertEqual(rex.call("host/list")["hosts"], [])

    def test_the_same_name_and_target_is_the_same_host_and_another_target_is_refused(self):
        rex = self.near()
        pending = [rex.start("host/connect", name="one", argv=[binary()]) for _ in range(5)]
        instances = {each.result()["machine"]["instance"] for each in pending}
        self.assertEqual(len(instances), 1)
        self.assertEqual(self.hop(rex, "one")["machine"]["instance"], instances.pop())
        exists = self.refused("HostExists", rex.call, "host/connect", name="one", argv=[binary(), "serve", "--stdio"])
        self.assertEqual(exists.data["executed"], "no")
        self.assertNotEqual(self.hop(rex, "two")["machine"]["instance"], self.hop(rex, "one")["machine"]["instance"])

    def test_whoever_waits_for_the_same_dial_is_told_the_same_failure(self):
        rex = self.near()
        dead = self.script(f"until [ -e {self.folder}/go ]; do sleep 0.01; done; echo these words >&2; exit 3")
        dials = [rex.start("host/connect", name="dead", argv=dead) for _ in range(3)]
        rex.call("ping")
        (self.folder / "go").touch()
        errors = [self.refused("HostUnreachable", dial.result) for dial in dials]
        self.assertIn("these words", errors[0].message)
        for error in errors:
            self.assertEqual((error.message, error.data), (errors[0].message, errors[0].data))

    def test_a_connect_that_is_cancelled_leaves_nothing_and_holds_up_no_other(self):
        rex = self.near()
        slow = self.script(f"echo $$ >> {self.folder}/pids; [ -e {self.folder}/go ] && exec {binary()}; exec sleep 1000")
        first = rex.start("host/connect", name="slow", argv=slow)
        self.assertEqual(told(rex, host="slow", phase="handshake")["state"], "connecting")
        self.assertTrue(until(lambda: (self.folder / "pids").exists() and (self.folder / "pids").read_text()))
        second = rex.start("host/connect", name="slow", argv=slow)
        rex.call("ping")
        (self.folder / "go").touch()
        rex.notify("$/cancelRequest", id=first.id)
        self.refused("RequestCancelled", first.result)
        self.assertEqual(second.result()["state"], "ready")  # it dials anew
        asleep, other = map(int, (self.folder / "pids").read_text().split())
        gone(self, asleep)
        self.assertTrue(alive(other))
        self.assertEqual(rex.call("process/run", host="slow", command="echo here")["stdout"], "here\n")

    def test_a_host_that_is_let_go_while_it_is_dialled_is_not_dialled_to_the_end(self):
        rex = self.near()
        slow = self.script(f"echo $$ > {self.folder}/pid; exec sleep 1000")
        dial = rex.start("host/connect", name="slow", argv=slow)
        told(rex, host="slow", phase="handshake")
        self.assertTrue(until(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text()))
        rex.call("host/disconnect", name="slow")
        self.refused("RequestCancelled", dial.result)
        gone(self, int((self.folder / "pid").read_text()))
        self.refused("HostNotFound", rex.call, "ping", host="slow")
        self.assertEqual(self.hop(rex, "slow")["state"], "ready")

    def test_a_client_that_leaves_while_it_dials_takes_the_dials_along(self):
        peer = self.peer()
        slow = self.script(f"echo $$ >> {self.folder}/pids; exec sleep 1000")
        for name in ("x", "y", "x", "z"):
            peer.start("host/connect", name=name, argv=slow)
        pids = self.folder / "pids"
        self.assertTrue(until(lambda: pids.exists() and len(pids.read_text().split()) == 3))
        peer.close()
        gone(self, *map(int, pids.read_text().split()))
        self.assertEqual(self.rex.call("host/list")["hosts"], [])

    def test_M15_names_that_no_host_can_have_are_refused(self):
        for host in ("/", "a/", "/a", "a//b", "..", "é", "a%2fb", "x" * 300, "-o", "a b", 5, [], {}, True):
            with self.subTest(host=host):
                self.refused("InvalidParams", self.rex.call, "ping", host=host)
        for name in ("", "a/b", "-x", "é", "a b", "x" * 300):
            with self.subTest(name=name):
                self.refused("InvalidParams", self.rex.call, "host/connect", name=name, argv=[binary()])
        self.refused("HostLoop", self.rex.call, "ping", host="/".join("a" * 1000))
        self.refused("HostNotFound", self.rex.call, "ping", host="nowhere/x")
        for host in ("", None):
            self.rex.call("ping", host=host)

    def test_M05_whoever_comes_back_to_itself_is_told_and_so_is_the_ninth_hop(self):
        rex = self.near()
        self.hop(rex, "b")
        loop = self.refused("HostLoop", self.hop, rex, "b/a", url=self.place_of(rex))
        self.assertEqual((loop.data["host"], loop.data["hop"]), ("b", "b/a"))
        self.assertEqual(rex.call("process/run", host="b", command="echo fine")["stdout"], "fine\n")
        self.refused("HostLoop", self.hop, rex, "self", url=self.place_of(rex))
        names = [f"h{i}" for i in range(8)]
        _, path = self.chain(rex, *names)
        self.assertEqual(rex.call("process/run", host=path, command="echo deep")["stdout"], "deep\n")
        ninth = self.refused("HostLoop", rex.call, "host/connect", host=path, name="h8", argv=[binary()])
        self.assertEqual(ninth.data["host"], path)
        self.refused("HostLoop", rex.call, "ping", host=f"{path}/h8")


class Belonging(RelayCase):
    def test_names_are_their_clients_alone_also_behind_a_relay_that_is_shared(self):
        middle = self.near()
        here, there = self.peer(), self.near()
        for client in (here, there):
            self.hop(client, "middle", url=self.place_of(middle))
        self.hop(here, "middle/deep")
        self.refused("HostNotFound", there.call, "ping", host="middle/deep")
        self.assertEqual(there.call("host/list", host="middle")["hosts"], [])
        self.refused("HostNotFound", self.rex.call, "ping", host="middle")
        other = self.hop(there, "middle/deep")["machine"]["instance"]
        self.assertNotEqual(here.call("host/info", host="middle", name="deep")["machine"]["instance"], other)
        here.call("host/disconnect", host="middle", name="deep")
        self.assertEqual(there.call("process/run", host="middle/deep", command="echo mine")["stdout"], "mine\n")

    def test_M11_of_two_clients_of_a_hop_one_leaves_and_the_other_goes_on(self):
        middle = self.near()
        place = self.place_of(middle)
        leaving, staying, killed = self.peer(), self.near(), self.near()
        shells, far = {}, {}
        for name, client in (("leaving", leaving), ("staying", staying), ("killed", killed)):
            self.hop(client, "middle", url=place)
            far[name] = pid_of(self.hop(client, "middle/far"))
            shells[name] = client.call("session/create", host="middle/far", session=name)["pid"]
        shells["at middle"] = killed.call("session/create", host="middle", session="killed")["pid"]
        running = staying.start("session/run", host="middle/far", session="staying", command="read x; echo $x",
                                returnOnInput=False)
        self.assertTrue(until(lambda: staying.call("session/info", host="middle/far", session="staying")["job"]))
        waiting = leaving.start("session/run", host="middle/far", session="leaving", command="sleep 1000")
        leaving.notify("$/cancelRequest", id=waiting.id)
        self.refused("RequestCancelled", waiting.result)
        leaving.close()
        os.kill(killed.pid, signal.SIGKILL)
        gone(self, shells["leaving"], shells["killed"], shells["at middle"], far["leaving"], far["killed"])
        self.assertTrue(alive(shells["staying"]))
        staying.call("session/write", host="middle/far", session="staying", data="here", submit=True)
        self.assertIn("here\n", running.result()["output"])
        self.assertEqual([s["session"] for s in middle.call("session/list")["sessions"]], [])


class Afar(RelayCase):
    """One chain of three for what is told at each depth."""

    PATHS = ("a", "a/b", "a/b/c")

    @classmethod
    def start_rex(cls):
        super().start_rex()
        for path in cls.PATHS:
            before, _, name = path.rpartition("/")
            cls.rex.call("host/connect", host=before, name=name, argv=[binary()])

    def afar(self, path, **options):
        self.count_of = getattr(self, "count_of", 0) + 1
        name = f"{self.id().rsplit('.', 1)[1]}{self.count_of}"
        info = self.rex.call("session/create", host=path, session=name, **options)
        self.addCleanup(self.let_go, path, name)
        self.assertEqual(info["host"], path)
        return name

    def let_go(self, path, name):
        try:
            self.rex.call("session/close", host=path, session=name, graceMs=100)
        except RpcError:
            pass

    def test_errors_name_the_host_where_they_arose_at_every_depth(self):
        for path in self.PATHS:
            with self.subTest(path=path):
                missing = self.refused("SessionNotFound", self.rex.call, "session/info", host=path, session="nobody")
                self.assertEqual((missing.data["host"], missing.data["executed"]), (path, "no"))
                wrong = self.refused("InvalidParams", self.rex.call, "session/info", host=path, session="x", more=1)
                self.assertEqual((wrong.data["host"], wrong.data["member"]), (path, "more"))
                unknown = self.refused("MethodNotFound", self.rex.call, "no/such", host=path)
                self.assertEqual(unknown.data["host"], path)
                nowhere = self.refused("HostUnreachable", self.hop, self.rex, f"{path}/x", argv=["/no/rex-rpc"])
                self.assertEqual((nowhere.data["host"], nowhere.data["hop"]), (path, f"{path}/x"))
                self.assertTrue(nowhere.data["phase"] and nowhere.data["detail"], nowhere.data)
                lost = self.refused("HostNotFound", self.rex.call, "ping", host=f"{path}/y/z")
                self.assertEqual(lost.data["host"], path)

    def test_G7_a_cancel_reaches_the_work_at_every_depth_and_only_the_wait_where_that_is_said(self):
        for path in self.PATHS:
            with self.subTest(path=path):
                run = self.rex.start("process/run", host=path, command=f"echo $$ > {self.folder}/{len(path)}; exec sleep 1000")
                self.assertTrue(until(lambda: (self.folder / str(len(path))).exists()
                                      and (self.folder / str(len(path))).read_text()))
                pid = int((self.folder / str(len(path))).read_text())
                self.rex.notify("$/cancelRequest", id=run.id, stop=True)
                stopped = self.refused("RequestCancelled", run.result)
                self.assertEqual(stopped.data["host"], path)
                gone(self, pid)
                name = self.afar(path)
                job = self.rex.start("session/run", host=path, session=name, command="echo begun; sleep 1000")
                self.assertTrue(until(lambda: self.rex.call("session/info", host=path, session=name)["job"]))
                self.rex.notify("$/cancelRequest", id=job.id, stop=False)
                waited = self.refused("RequestCancelled", job.result)
                self.assertEqual((waited.data["result"]["host"], waited.data["result"]["state"]), (path, "running"))
                self.assertEqual(self.rex.call("session/info", host=path, session=name)["state"], "running")

    def test_output_comes_once_and_whole_from_hosts_that_use_the_same_ids(self):
        feed = self.feed(self.rex)
        size = len(b"".join(b"%d\n" % i for i in range(1, 50001)))
        following = []
        for path in self.PATHS:
            name = self.afar(path)
            one = Attached(feed, name, host=path, offset=0, window=50_000)
            following.append((path, name, one))
            subscribed = self.rex.call("session/subscribe", host=path)["attachment"]
            self.rex.call("session/unsubscribe", attachment=subscribed)
        self.assertEqual(len({one.id for _, _, one in following}), 3)
        runs = [self.rex.start("session/run", host=path, session=name, command="seq 50000", waitMs=0)
                for path, name, _ in following]
        for run in runs:
            run.result()
        for path, name, one in following:
            one.until(lambda one=one: one.next >= size)
            self.assertTrue(one.data.endswith(b"50000\n"), path)
            self.assertEqual(one.data.count(b"\n"), 50000)
            one.event("jobEnded", host=path)
            one.detach()
            feed.idle(one.id)  # what was told between the end of the job and the answer
            feed.waiting.pop(one.id, None)
            self.refused("InvalidParams", self.rex.call, "session/detach", attachment=one.id)
            self.assertEqual(self.rex.call("session/info", host=path, session=name)["host"], path)
        self.assertTrue(all(feed.idle(one.id) for _, _, one in following))

    def test_progress_is_told_from_where_it_is_made(self):
        for path in self.PATHS:
            with self.subTest(path=path):
                name = self.afar(path)
                run = self.rex.start("session/run", host=path, session=name, command="echo live", progressToken=path)
                self.assertEqual(run.result()["host"], path)
                live = told(self.rex, "$/progress", token=path)
                self.assertEqual(live["host"], path)
        dial = self.rex.call("host/connect", host="a/b", name="p", argv=[binary()], progressToken="dial")
        self.assertEqual((dial["host"], dial["name"]), ("a/b", "p"))
        self.assertEqual(told(self.rex, "$/progress", token="dial")["host"], "a/b")
        self.rex.call("host/disconnect", host="a/b", name="p")

    def test_what_is_told_before_an_answer_comes_before_it(self):
        hop = self.fake("hello()", "asked = [read() for _ in range(20)]",
                        "raw(b''.join(framed(method='$/progress', params={'token': i, 'value': {}}) + "
                        "framed(id=each['id'], result=i) for i, each in enumerate(asked)))", "read()")
        words = [("host/connect", {"name": "h", "argv": hop}), *[("process/run", {"host": "h", "command": "x"})] * 20]
        text = "".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}) + "\n"
                       for i, (method, params) in enumerate(words, -1))
        ran = subprocess.run([binary()], input=text.encode(), capture_output=True, timeout=60, check=True,
                             env=self.environment())
        messages = map(json.loads, ran.stdout.splitlines())
        came = [m["params"]["token"] if m.get("method") == "$/progress" else (m["id"], m.get("result"))
                for m in messages if m.get("method") == "$/progress" or m.get("id", -1) >= 0]
        self.assertEqual(came, [each for i in range(20) for each in (i, (i, i))])

    def test_a_batch_may_name_many_hosts_and_is_answered_as_one(self):
        words = [{"jsonrpc": "2.0", "id": "c", "method": "host/connect", "params": {"name": "h", "argv": [binary()]}}]
        batch = [{"jsonrpc": "2.0", "id": i, "method": "process/run", "params": {"command": f"echo {i}", **where}}
                 for i, where in enumerate(({}, {"host": "h"}, {"host": "none"}, {"host": "h"}, {"host": ""}))]
        ran = subprocess.run([binary()], input="".join(json.dumps(each) + "\n" for each in (*words, batch)).encode(),
                             capture_output=True, timeout=60, check=True, env=self.environment())
        answers = next(m for m in map(json.loads, ran.stdout.splitlines()) if isinstance(m, list))
        by_id = {answer["id"]: answer for answer in answers}
        self.assertEqual([by_id[i]["result"]["stdout"] for i in (0, 1, 3, 4)], ["0\n", "1\n", "3\n", "4\n"])
        self.assertEqual(by_id[2]["error"]["data"]["type"], "HostNotFound")
        self.assertEqual(len(answers), 5)

    def test_what_is_asked_before_the_input_ends_is_answered_from_afar(self):
        words = [("host/connect", {"name": "h", "argv": [binary()]}),
                 ("host/connect", {"host": "h", "name": "i", "argv": [binary()]}),
                 ("process/run", {"host": "h/i", "command": "sleep 0.2; echo last"})]
        text = "".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}) + "\n"
                       for i, (method, params) in enumerate(words))
        ran = subprocess.run([binary()], input=text.encode(), capture_output=True, timeout=60, check=True,
                             env=self.environment())
        answers = {m["id"]: m for m in map(json.loads, ran.stdout.splitlines()) if "id" in m}
        self.assertEqual(answers[2]["result"]["stdout"], "last\n", answers)

    def test_control_is_answered_while_a_far_host_floods(self):
        name = self.afar("a/b/c")
        flood = Attached(self.feed(self.rex), name, host="a/b/c")
        self.rex.call("session/run", host="a/b/c", session=name, command="yes", waitMs=0)
        flood.until(lambda: flood.next > 1 << 20)
        for path in self.PATHS:
            self.rex.call("ping", host=path)
        told_state = self.rex.call("session/interrupt", host="a/b/c", session=name)
        self.assertEqual(told_state["step"], "INT")
        self.assertEqual([m for m in everything_told(self.rex) if m["method"] == "host/status"
                          and m["params"]["state"] != "ready"], [])


if __name__ == "__main__":
    unittest.main()
