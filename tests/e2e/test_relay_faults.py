"""Hosts that break the rules, fall silent or die: told by name, dropped alone, and nothing of it reaches the others.

What well-behaved hosts do is in test_relay.py.
"""

import json
import os
import signal
import subprocess
import time
import unittest

from relay_world import RelayCase, everything_told, gone, pid_of, told
from rig import RpcError, amount, binary, is_sanitized, memory, until

MIB = 1 << 20
SLOW = 100  # milliseconds: how soon a silent link is asked


class Dying(RelayCase):
    def test_whichever_hop_is_killed_is_named_and_what_was_under_way_is_unknown(self):
        for victim, lost in enumerate(("a", "a/b", "a/b/c")):
            with self.subTest(lost=lost):
                rex = self.near()
                pids, path = self.chain(rex, "a", "b", "c")
                self.hop(rex, "other")
                run = rex.start("process/run", host=path, command="sleep 1000 & echo $!; wait", timeoutMs=100_000)
                session = rex.call("session/create", host=path, session="s")["pid"]
                os.kill(pids[victim], signal.SIGKILL)
                error = self.refused("HostLost", run.result)
                self.assertEqual((error.data["host"], error.data["executed"]), (lost, "unknown"), error.data)
                self.assertIn("killed by signal 9", str(error))
                self.assertIn("killed by signal 9", told(rex, host=lost, state="lost")["detail"])
                again = rex.call("process/run", host=path, command="echo again")  # dialled anew, with the names behind it
                self.assertEqual(again["stdout"], "again\n")
                self.assertEqual(rex.call("process/run", host="other", command="echo on")["stdout"], "on\n")
                if victim:
                    self.assertEqual(rex.call("process/run", host="a", command="echo on")["stdout"], "on\n")
                gone(self, session, *pids[victim:])
                self.assertEqual(self.hop(rex, lost)["state"], "ready")  # the same name and target again is the same host
                self.assertEqual(rex.call("process/run", host=lost, command="echo new")["stdout"], "new\n")

    def test_a_host_that_falls_silent_is_degraded_then_lost_and_the_others_go_on(self):
        rex = self.near()
        silent = pid_of(self.hop(rex, "silent", options={"keepAliveMs": SLOW}))
        self.hop(rex, "other", options={"keepAliveMs": SLOW})
        run = rex.start("process/run", host="silent", command="true; sleep 1000")
        os.kill(silent, signal.SIGSTOP)
        self.assertEqual(told(rex, host="silent", state="degraded"), {"host": "silent", "state": "degraded"})
        lost = told(rex, host="silent", state="lost")
        self.assertIn("nothing was heard", lost["detail"])
        error = self.refused("HostLost", run.result)
        self.assertEqual((error.data["host"], error.data["executed"]), ("silent", "unknown"))
        self.assertEqual(rex.call("process/run", host="other", command="echo on")["stdout"], "on\n")
        gone(self, silent)
        self.assertEqual([m["params"] for m in everything_told(rex) if m["params"].get("host") == "other"
                          and m["params"]["state"] == "lost"], [])

    def test_a_host_that_comes_back_in_time_is_ready_again(self):
        rex = self.near()
        dozing = pid_of(self.hop(rex, "dozing", options={"keepAliveMs": 2000}))
        os.kill(dozing, signal.SIGSTOP)
        told(rex, host="dozing", state="degraded")
        os.kill(dozing, signal.SIGCONT)
        told(rex, host="dozing", state="ready")
        self.assertEqual(rex.call("process/run", host="dozing", command="echo up")["stdout"], "up\n")

    def test_T19_whoever_was_stopped_itself_raises_no_alarm(self):
        rex = self.near()
        self.hop(rex, "there", options={"keepAliveMs": SLOW})
        for pause in (0.15, 0.5, 1.0, 1.7):
            begun = time.monotonic()
            os.kill(rex.pid, signal.SIGSTOP)
            self.assertTrue(until(lambda pause=pause, begun=begun: time.monotonic() - begun > pause))
            os.kill(rex.pid, signal.SIGCONT)
            for _ in range(20):
                rex.call("ping", host="there")
        self.assertNotIn("lost", [m["params"]["state"] for m in everything_told(rex) if m["method"] == "host/status"])


class Hostile(RelayCase):
    def test_who_does_not_greet_as_a_rex_rpc_is_told_and_ended(self):
        rex = self.near()
        greetings = {
            "silence": ("import time", "time.sleep(1000)"),
            "an end": ("read()",),
            "garbage": ("raw(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n')", "read()", "read()"),
            "half a frame": ("read()", "raw(b'Content-Length: 100\\r\\n\\r\\n{')"),
            "a result of no kind": ("answer(read(), 5)", "read()"),
            "another version": ("hello(protocolVersion='2.0')", "read()"),
            "a version of no kind": ("hello(protocolVersion=1.0)", "read()"),
            "a machine of no kind": ("hello(machine=5)", "read()"),
            "a machine without end": ("hello(machine={'x': 'y' * 1000000})", "read()"),
            "an error": ("send(id=read()['id'], error={'code': 99999, 'message': 'no\\u001b[2J', 'data': 5})", "read()"),
            "no error": ("send(id=read()['id'], error='x')", "read()"),
            "both": ("send(id=read()['id'], error={'code': 1, 'message': ''}, result={})", "read()"),
            "a huge frame": ("read()", "raw(b'Content-Length: 999999999999\\r\\n\\r\\n' + b'x' * 20000000)", "read()"),
        }
        dials = {name: rex.start("host/connect", name=f"h{number}", argv=self.fake(*lines))
                 for number, (name, lines) in enumerate(greetings.items())}
        for number, (name, dial) in enumerate(dials.items()):
            with self.subTest(name):
                with self.assertRaises(RpcError) as caught:
                    dial.result()
                error = caught.exception
                self.assertIn(error.type, ("HostUnreachable", "HostProtocol"), error)
                self.assertEqual(error.data["hop"], f"h{number}", error.data)
                self.assertNotIn("\033", str(error))
                self.assertTrue(error.type == "HostProtocol" or error.data["phase"] == "handshake", error.data)
        self.assertEqual(len(rex.call("host/list")["hosts"]), 0)

    def test_members_of_the_wrong_type_are_taken_for_nothing(self):
        odd = self.fake(
            "hello(serverInfo=[], capabilities='all', limits=None)",
            "tell('$/progress', token=1)", "tell('host/status', host=7, state=[])",
            "tell('session/event', host={}, attachment=9)", "send(method='host/prompt', id='p', params=3)",
            "send(method='process/run', id='q', params={'command': 'echo owned'})",
            "send(method='$/stream/open', params={'stream': 2, 'kind': 'client'})",
            "send(id='77', result=1)", "send(id=None, error=3)",
            "request = read()",
            "while 'command' not in request.get('params', {}): request = read()",
            "answer(request, {'host': 5, 'attachment': [], 'sessions': [1, {'host': {}}], 'info': 3})",
            "while True: read()")
        rex = self.near()
        info = self.hop(rex, "odd", argv=odd)
        self.assertEqual((info["state"], info["version"]), ("ready", ""))
        result = rex.call("process/run", host="odd", command="x")
        self.assertEqual(result, {"host": "odd", "attachment": [], "sessions": [1, {"host": "odd"}], "info": 3})
        self.assertEqual(rex.call("process/run", command="echo on")["stdout"], "on\n")

    def test_R11_answers_that_nobody_asked_for_end_the_host_alone(self):
        strays = "for i in range(1000): send(id=str(i), result=1)"
        rex = self.near()
        self.hop(rex, "stray", argv=self.fake("hello()", "read()", strays, "read()"))
        self.refused("HostLost", rex.call, "process/run", host="stray", command="x")
        self.assertIn("answers", told(rex, host="stray", state="lost")["detail"])
        with self.subTest("right behind its greeting"):  # it is ready first, or never was
            try:
                self.hop(rex, "sooner", argv=self.fake("hello()", strays, "read()"))
            except RpcError as error:
                self.assertEqual((error.type, error.data["phase"]), ("HostUnreachable", "handshake"))
            self.assertIn("answers", told(rex, host="sooner", state="lost")["detail"])
        rex.call("ping")

    def test_an_answer_that_is_none_fails_its_request_alone(self):
        rex = self.near()
        self.hop(rex, "odd", argv=self.fake(
            "hello()", "send(id=read()['id'], result=1, error={'code': 1, 'message': 'x'})",
            "send(id=read()['id'], error={'code': 'x', 'message': 5})",
            "send(id=read()['id'], error={'code': 4711, 'message': 'own \\u001b[2J', 'data': {'executed': 'no', 'type': 'Own'}})",
            "answer(read(), None)", "read()"))
        for _ in range(2):
            error = self.refused("HostProtocol", rex.call, "process/run", host="odd", command="x")
            self.assertEqual((error.data["host"], error.data["executed"]), ("odd", "unknown"))
        with self.assertRaises(RpcError) as caught:
            rex.call("process/run", host="odd", command="x")
        self.assertEqual(caught.exception.data["host"], "odd")
        self.assertNotIn("\033", str(caught.exception))
        self.assertIsNone(rex.call("process/run", host="odd", command="x"))

    def test_M08_output_that_jumps_rewinds_or_comes_twice_ends_its_host_and_says_so(self):
        for wrong in ("output(20)", "output(3)", "output(0)", "output(9)", "output(10, -1)",
                      "output(30, 1, gap={'from': 5, 'to': 30})", "output(5, 1, gap={'from': 10, 'to': 5})",
                      "tell('session/output', attachment='a1')", "tell('session/output', attachment=1, offset=10, next=11)"):
            with self.subTest(wrong):
                rex = self.near()
                self.hop(rex, "other")
                self.hop(rex, "liar", argv=self.fake(
                    "hello()", "request = read()", "output(0, 10)", "output(0, 5, 'b')", "output(5, 1, 'b')", wrong,
                    "output(10, 7)", "answer(request, {})", "read()"))
                self.refused("HostLost", rex.call, "session/info", host="liar", session="s")
                messages = everything_told(rex)
                taken = [m["params"] for m in messages if m["method"] == "session/output"]
                self.assertEqual([(p["offset"], p["next"]) for p in taken], [(0, 10), (0, 5), (5, 6)])
                self.assertNotEqual(taken[0]["attachment"], taken[1]["attachment"])
                detail = [m["params"].get("detail", "") for m in messages if m["params"].get("state") == "lost"]
                self.assertIn("does not go on", detail[0])
                self.assertEqual(rex.call("process/run", host="other", command="echo on")["stdout"], "on\n")

    def test_a_gap_that_is_told_is_passed_on(self):
        rex = self.near()
        self.hop(rex, "gaps", argv=self.fake(
            "hello()", "request = read()", "output(0, 10)", "output(90, 10, gap={'from': 10, 'to': 90})", "output(100, 0)",
            "output(100, 1, eof=True)", "answer(request, {})", "read()"))
        rex.call("session/info", host="gaps", session="s")
        taken = [m["params"] for m in everything_told(rex) if m["method"] == "session/output"]
        self.assertEqual([p["offset"] for p in taken], [0, 90, 100, 100])

    def test_M09_a_host_that_floods_is_read_as_slowly_as_its_client_reads(self):
        flood = self.fake("hello()", "request = read()", "size = 50000",
                          "for i in range(1 << 40): output(i * size, size)")
        near = subprocess.Popen([binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment())
        self.addCleanup(lambda: (near.kill(), near.wait(), near.stdin.close(), near.stdout.close()))
        for number, (method, params) in enumerate((("host/connect", {"name": "f", "argv": flood}),
                                                   ("session/info", {"host": "f", "session": "s"}))):
            near.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        near.stdin.flush()
        while b'"id":0' not in near.stdout.readline():
            pass
        before = memory(near.pid, "VmRSS")
        for _ in range(amount(2, 50)):
            for _ in range(60):
                near.stdout.readline()
            if not is_sanitized():
                self.assertLess(memory(near.pid, "VmHWM") - before, 16 * MIB)


class Asking(RelayCase):
    """A fake host that asks a person, behind a real one."""

    ASKS = ("hello()", "late = None", "while True:",
            "    request = read()",
            "    if request.get('method') != 'process/run': continue",
            "    asked = [ask(f'q{i}', host='deep') for i in range(int(request['params']['command']))]",
            "    answer(request, {'asked': asked, 'late': late}, question('late', text='late'))",
            "    late = answer_to('late')")

    def asked(self, rex, count, answer):
        request = rex.start("process/run", host="a/fake", command=str(count))
        hosts = []
        while not request.done():
            message = until(lambda: not rex.notifications.empty() or request.done(), 30) and not request.done() \
                and rex.notifications.get()
            if message and message["method"] == "host/prompt":
                if message["params"]["text"] != "late":
                    hosts.append(message["params"]["host"])
                rex.send({"jsonrpc": "2.0", "id": message["id"], **answer})
        result = request.result()
        if result["late"]:  # asked when no request was pending
            self.assertEqual(result["late"]["error"]["data"]["type"], "NotPermitted")
        return hosts, result["asked"]

    def test_questions_come_back_through_every_hop_and_so_do_their_answers(self):
        rex = self.near()
        rex.call("initialize", capabilities={"prompt": True})
        self.chain(rex, "a")
        self.hop(rex, "a/fake", argv=self.fake(*self.ASKS))
        hosts, answers = self.asked(rex, 2, {"result": {"answer": "4711"}})
        self.assertEqual(hosts, ["a/fake/deep"] * 2)
        self.assertEqual([each["result"] for each in answers], [{"answer": "4711"}] * 2)
        hosts, answers = self.asked(rex, 2, {"error": {"code": -32800, "message": "not now"}})
        self.assertEqual([each["error"]["code"] for each in answers], [-32800] * 2)
        hosts, answers = self.asked(rex, 7, {"result": {"answer": ""}})
        self.assertEqual(len(hosts), 5)
        self.assertEqual([each["error"]["data"]["type"] for each in answers[5:]], ["NotPermitted"] * 2)
        for _ in range(3):
            hosts, answers = self.asked(rex, 1, {"result": {"answer": "again"}})
            self.assertEqual(len(hosts), 1)
        self.assertEqual([m for m in everything_told(rex) if m["method"] == "host/prompt"], [])

    def test_nobody_is_asked_who_has_not_said_that_it_can_ask(self):
        rex = self.near()
        self.chain(rex, "a")
        self.hop(rex, "a/fake", argv=self.fake(*self.ASKS))
        hosts, answers = self.asked(rex, 1, {})
        self.assertEqual(hosts, [])
        self.assertEqual(answers[0]["error"]["data"]["type"], "NotPermitted")


if __name__ == "__main__":
    unittest.main()
