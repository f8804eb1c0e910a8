"""The wire by itself, group G and faults F, J, R: what goes in by the byte, and what must come out of the live program.

Must not use the shared client: it speaks bytes. What needs no live process is promised in tests/unit/rpc_*.cc.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import time
import unittest

from rig import (
    Rex, RexCase, RpcError, alive, amount, binary, family, is_sanitized, kill_quietly, memory, status_of, until,
)

MIB = 1024 * 1024


def line(method, number=None, **params):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if number is None else {**message, "id": number}


def text(message):
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def frame(body, header=b"Content-Length: %d\r\n\r\n"):
    body = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return header % len(body) + body


def code_of(answer):
    return answer.get("error", {}).get("code")


def unframe(data):
    """The messages of base-protocol bytes, by a parser of our own."""
    messages = []
    while data:
        head, data = data.split(b"\r\n\r\n", 1)
        size = int(dict(field.split(b": ") for field in head.split(b"\r\n"))[b"Content-Length"])
        messages.append(json.loads(data[:size].decode("utf-8")))
        data = data[size:]
    return messages


def start(stderr=subprocess.DEVNULL):
    return subprocess.Popen([binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)


class Talk:
    """One process; everything is sent, then its output read to the end."""

    def __init__(self, data, wait=20):
        self.process = start(stderr=subprocess.PIPE)
        begun = time.monotonic()
        self.output, self.errors = self.process.communicate(data, timeout=wait)
        self.took = time.monotonic() - begun
        self.code = self.process.returncode

    def lines(self):
        return [json.loads(piece) for piece in self.output.splitlines()]


class Wire(unittest.TestCase):
    def test_F01_G6_the_protocols_own_example_prints_one_answer(self):
        talk = Talk(text(line("process/run", 1, command="uname -a")))
        (answer,) = talk.lines()
        self.assertEqual((answer["id"], answer["result"]["exitCode"], talk.code), (1, 0, 0))
        framed = Talk(frame(line("process/run", 1, command=["printf", "x"])))
        self.assertEqual(unframe(framed.output)[0]["result"]["stdout"], "x")

    def test_G1_F21_lengths_count_bytes_both_ways(self):
        word = "🎉 e\u0301 ñ \u2028 日本"
        messages = [line("process/run", number, command=["printf", "%s", word * number]) for number in (1, 2, 3)]
        answers = unframe(Talk(b"".join(frame(message) for message in messages)).output)
        shown = {answer["id"]: answer["result"]["stdout"] for answer in answers}
        self.assertEqual(shown, {number: word * number for number in (1, 2, 3)})

    def test_G2_broken_headers_close_the_stream_without_an_effect(self):
        """F05, F09, F10, F11, F16: each in turn, as bytes from outside."""
        mark = f"/tmp/rex-test-wire-{os.getpid()}"
        body = json.dumps(line("process/run", 1, command=["touch", mark])).encode()
        size = len(body)
        for head in (b"Content-Length: -1\r\n\r\n", b"Content-Length: 9999999999999999999\r\n\r\n",
                     b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (size, size),
                     b"Content-Length: %d\n\n" % size, b"Content-Type: x\r\n\r\n", b"Content-Length: 0x10\r\n\r\n",
                     b"Content-Length: %d\r\nX-A: 1\r\n\r\n" % size, b"Content-Length:\r\n\r\n", b"C" * 100_000):
            with self.subTest(head=head[:40]):
                talk = Talk(head + body)
                self.assertLessEqual(len(unframe(talk.output)), 1)
                for answer in unframe(talk.output):
                    self.assertIsNone(answer["id"])
                self.assertGreaterEqual(talk.code, 0, talk.errors)
                self.assertFalse(os.path.exists(mark))
        self.assertEqual(unframe(Talk(frame(line("ping", 1), b"content-length:%d\r\n\r\n")).output)[0]["id"], 1)
        empty = unframe(Talk(frame(b"") + frame(line("ping", 2))).output)
        self.assertEqual([(answer["id"], code_of(answer)) for answer in empty], [(None, -32700), (2, None)])
        cut = Talk(frame(line("process/run", 1, command=["touch", mark]))[:-3])
        self.assertEqual((cut.output, os.path.exists(mark)), (b"", False), "F16")

    def test_G2_a_header_without_end_and_a_length_without_body_cost_no_memory(self):
        for data in (b"Content-Length: 16777216\r\n\r\n", b"Content-Type: " + b"x" * 3000):
            process = start()
            try:
                process.stdin.write(frame(line("ping", 1)))
                process.stdin.flush()
                self.assertTrue(process.stdout.readline())
                before = memory(process.pid, "VmRSS")
                process.stdin.write(data)
                process.stdin.flush()
                time.sleep(0.1)  # nothing is to happen
                self.assertLess(memory(process.pid, "VmRSS") - before, MIB)
            finally:
                process.kill()
                process.communicate()

    def test_F14_other_protocols_are_turned_away_at_once(self):
        for hello in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                      b"\x16\x03\x01\x02\x00\x01\x00", b"SSH-2.0-x\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
                      b"*1\r\n$4\r\nPING\r\n", b"\0\0\0\x10", b"CONNECT x\r\n"):
            with self.subTest(hello=hello):
                process = start()
                process.stdin.write(hello)
                process.stdin.flush()
                begun = time.monotonic()
                output = process.stdout.read()
                self.assertLess(time.monotonic() - begun, 2)
                self.assertNotIn(b"HTTP/", output)
                process.communicate(timeout=5)

    def test_G3_either_framing_is_found_out_by_the_first_byte(self):
        self.assertEqual(Talk(text(line("ping", 1)) + b"\r\n\n" + text(line("ping", 2))).lines()[1]["id"], 2)
        self.assertEqual(unframe(Talk(frame(line("ping", 1))).output)[0]["id"], 1)
        mixed = Talk(text(line("ping", 1)) + frame(line("ping", 2)))
        self.assertEqual(mixed.lines()[0]["id"], 1)
        self.assertTrue(all(answer.get("id") in (1, 2, None) for answer in mixed.lines()))
        self.assertEqual(Talk(json.dumps(line("ping", 7)).encode()).lines()[0]["id"], 7, "a last line without its end")

    def test_G4_J03_J04_J07_J09_L09_R02_R03_R05_each_item_has_its_own_error(self):
        deep = b'{"jsonrpc":"2.0","id":5,"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
        cases = [
            (text(line("no/such", 1)), 1, -32601),
            (text({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": 5}), 2, -32602),
            (text(line("session/read", 3, session=5)), 3, -32602),
            (text(line("ping", 4, nosuch=1)), 4, -32602), (deep, None, 1201),
            (b'{"jsonrpc":"2.0","id":6,"method":"ping","id":6}\n', None, -32600),
            (b'{"jsonrpc":"2.0","id":7,"method":"p\\ud800"}\n', None, -32700),
            (text(line("session/read", 8, session="x", offset=2**53)), 8, -32602),
            (text({"id": 9, "method": "ping"}), 9, -32600),
            (b'{"jsonrpc":"2.0","id":10,"method":"ping",}\n', None, -32700),
            (text({"jsonrpc": "2.0", "id": 11}), 11, -32600),
            (text(line("session/read", 12, session="x", offset=5.5)), 12, -32602), (b"[]\n", None, -32600),
            (text(line("session/read", 13, session="x", offset=0)).replace(b": 0", b": 1e400"), None, None),
        ]
        for data, number, code in cases:
            with self.subTest(data=data[:60]):
                answers = Talk(data + text(line("ping", 99))).lines()
                self.assertEqual(len(answers), 2)
                wrong = next(answer for answer in answers if answer.get("id") != 99)
                self.assertIn(wrong["error"]["code"], (code,) if code else (-32700, -32602))
                if number is not None:
                    self.assertEqual(wrong["id"], number)
                self.assertTrue(any(answer["id"] == 99 and "result" in answer for answer in answers))
        batch = [line("ping", 1), 5, line("no/such", 2), line("nobody"), line("ping", 3)]
        mixed = Talk(text(batch)).lines()
        self.assertEqual(len(mixed), 1)
        self.assertEqual(sorted((answer["id"] or 0, code_of(answer) or 0) for answer in mixed[0]),
                         [(0, -32600), (1, 0), (2, -32601), (3, 0)])
        mark = f"/tmp/rex-test-batch-{os.getpid()}"
        big = Talk(text([line("process/run", number, command=["touch", mark]) for number in range(10_000)])).lines()
        self.assertEqual(len(big), 1)
        self.assertEqual((big[0]["id"], "error" in big[0], os.path.exists(mark)), (None, True, False))

    def test_K03_a_time_that_is_none_is_refused_and_the_longest_is_taken(self):
        """At most 10^12 ms; 0 is a time to wait, and none to live."""
        longest = 10**12
        times = {
            "session/run": {"waitMs": 0, "timeoutMs": 1, "quietMs": 1}, "session/wait": {"waitMs": 0},
            "session/read": {"waitMs": 0}, "session/interrupt": {"graceMs": 0}, "process/run": {"timeoutMs": 1},
            "session/create": {"startupTimeoutMs": 1},
        }
        others = {"session/run": {"command": "echo x"}, "session/wait": {"any": [{"bytes": 0}]},
                  "process/run": {"command": ["true"]}, "session/create": {"shell": "dash"}}
        asked = b""
        with Rex(hops=0) as rex:
            rex.session("s", shell="dash").run("echo x")
            for method, members in times.items():
                params = {} if method == "process/run" else {"session": "t" if method == "session/create" else "s"}
                params.update(others.get(method, {}))
                for member, least in members.items():
                    rex.call(method, **params, **{member: longest})
                    for value in (least - 1, -1, 0.5, longest + 1, 2**63, "1000"):
                        asked += text(line(method, asked.count(b"\n"), **params, **{member: value}))
                    asked += text(line(method, asked.count(b"\n"), **params, **{member: 77})).replace(b": 77", b": 1e400")
        answers = Talk(asked).lines()
        self.assertEqual(len(answers), asked.count(b"\n"))
        for answer in answers:
            self.assertIn(code_of(answer), (-32602,) if answer["id"] is not None else (-32700,), answer)

    def test_R16_C03_the_order_of_a_connections_life(self):
        twice = Talk(text(line("initialize", 1)) + text(line("initialize", 2)) + text(line("shutdown", 3)) +
                     text(line("ping", 4)) + text(line("shutdown", 5)) + text(line("exit"))).lines()
        codes = {answer["id"]: code_of(answer) for answer in twice}
        self.assertEqual(codes, {1: None, 2: -32600, 3: None, 4: -32600, 5: -32600})
        self.assertEqual(Talk(text(line("shutdown", 1)) + text(line("exit"))).code, 0)
        self.assertEqual(Talk(text(line("exit"))).code, 1)

    def test_R18_another_version_is_refused_with_the_ones_there_are(self):
        answer = Talk(text(line("initialize", 1, protocolVersion="2.0"))).lines()[0]
        self.assertIn("1.0", json.dumps(answer["error"]))
        newer = Talk(text(line("initialize", 1, protocolVersion="1.7"))).lines()[0]
        self.assertTrue(newer["result"]["protocolVersion"].startswith("1."), "members are only added within 1")

    def test_G5_standard_descriptors_may_be_missing_and_children_cannot_write_into_the_wire(self):
        request = text(line("process/run", 1, command="echo noise; echo more >&2; ls /proc/self/fd | wc -l"))
        (answer,) = Talk(request).lines()
        self.assertTrue(answer["result"]["stdout"].startswith("noise\n"))
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", "0<&- 1>&-"):
            with self.subTest(closed=closed):
                done = subprocess.run(["sh", "-c", f'exec "$0" {closed}', binary()], input=request, timeout=10,
                                      capture_output=True, check=False)
                self.assertGreaterEqual(done.returncode, 0)
                for piece in done.stdout.splitlines():
                    self.assertEqual(json.loads(piece)["id"], 1)
                if closed == "2>&-":
                    self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_G6_the_end_of_input_finishes_what_was_read(self):
        at_once = Talk(b"")
        self.assertEqual((at_once.output, at_once.code), (b"", 0))
        self.assertLess(at_once.took, 2)
        slow = Talk(text(line("process/run", 1, command="sleep 0.3; echo late")) + text(line("ping", 2)))
        answers = {answer["id"]: answer["result"] for answer in slow.lines()}
        self.assertEqual((answers[1]["stdout"], slow.code), ("late\n", 0))
        session = Talk(text(line("session/create", 1, session="s", shell="bash")) +
                       text(line("session/run", 2, session="s", command="sleep 0.2; echo x")))
        self.assertEqual({answer["id"]: answer["result"].get("output") for answer in session.lines()}[2], "x\n")

    def gone(self, leave):
        """Starts a session with hidden children, lets the client `leave`, and wants all ended in a second."""
        rex = Rex()
        self.addCleanup(rex.kill)
        session = rex.session("s", shell="bash")
        session.run("setsid sleep 60 & sleep 61 &")
        session.start("run", command="sleep 62")
        self.assertTrue(until(lambda: sum(status.get("Name") == "sleep"
                                          for status in family(rex.pid).values()) == 3))
        pids = list(family(rex.pid))
        begun = time.monotonic()
        leave(rex)
        self.assertTrue(until(lambda: rex.process.poll() is not None, 5))
        self.assertLess(time.monotonic() - begun, 1.5)
        self.assertTrue(until(lambda: not any(alive(pid) for pid in pids), 1))

    def test_G6_a_hang_up_ends_everything_within_a_second(self):
        self.gone(lambda rex: rex.process.send_signal(signal.SIGHUP))

    def test_G6_a_killed_program_leaves_no_process(self):
        self.gone(lambda rex: rex.process.kill())

    def test_G6_C02_a_client_that_dies_ends_everything(self):
        """processId: the client is dead although a grandchild holds the pipes open."""
        client = subprocess.Popen(["sleep", "100"])
        rex = Rex()
        self.addCleanup(rex.kill)
        rex.call("initialize", processId=client.pid)
        rex.session("s", shell="bash").run("setsid sleep 60 &")
        pids = list(family(rex.pid))
        client.kill()
        client.wait()
        self.assertTrue(until(lambda: rex.process.poll() is not None, 2), "processId is dead, and the process lives on")
        self.assertTrue(until(lambda: not any(alive(pid) for pid in pids), 1))

    def test_F22_limits_are_those_announced(self):
        limit = Talk(text(line("initialize", 1))).lines()[0]["result"]["limits"]["frameBytes"]
        base = len(json.dumps(line("process/run", 1, command="", stdin="")))
        for size, code in ((limit - 1, None), (limit, None), (limit + 1, 1201)):
            message = line("process/run", 1, command=":", stdin="x" * (size - base - 1))
            body = json.dumps(message).encode()
            self.assertEqual(len(body), size)
            answers = unframe(Talk(frame(body) + frame(line("ping", 2))).output)
            self.assertEqual(sorted(answer["id"] or 0 for answer in answers), [0, 2] if code else [1, 2])
            self.assertEqual([code_of(answer) for answer in answers if code_of(answer)], [code] if code else [])


def sleepers(rex):
    return [pid for pid, status in family(rex.pid).items() if status.get("Name") == "sleep"]


class Calls(RexCase):
    def test_G7_R13_a_cancel_at_any_time_is_one_answer(self):
        session = self.fresh()
        self.rex.notify("$/cancelRequest", id=987_654)
        self.rex.notify("$/cancelRequest", id="never")
        self.rex.notify("$/cancelRequest")
        done = session.start("run", command="true")
        done.result()
        self.rex.notify("$/cancelRequest", id=done.id, stop=True)
        for stop in (True, False):
            call = session.start("run", command="echo out; sleep 1; echo end", timeoutMs=20_000)
            session.call("wait", any=[{"match": "out"}], waitMs=5000)
            for _ in range(2):
                self.rex.notify("$/cancelRequest", id=call.id, stop=stop)
            with self.assertRaises(RpcError) as caught:
                call.result()
            error = caught.exception
            self.assertEqual((error.code, error.type), (-32800, "RequestCancelled"))
            partial = error.data["result"] if stop else None
            if stop:
                self.assertEqual((partial["state"], partial["output"].startswith("out\n")), ("cancelled", True))
            else:
                self.refused("SessionBusy", session.run, "true")
                over = session.call("wait", any=[{"exit": True}], waitMs=5000)["result"]
                self.ended(over)
                self.assertTrue(over["output"].endswith("end\n"), "only the waiting was cancelled")
        waiting = session.start("wait", any=[{"match": "never"}])
        self.rex.notify("$/cancelRequest", id=waiting.id, stop=True)
        with self.assertRaises(RpcError) as caught:
            waiting.result()
        self.assertEqual(caught.exception.code, -32800)
        for stop in (True, False):
            one_off = self.rex.start("process/run", command=["sleep", "67"])
            self.assertTrue(until(lambda: sleepers(self.rex)))
            (pid,) = sleepers(self.rex)
            self.addCleanup(kill_quietly, pid)
            self.rex.notify("$/cancelRequest", id=one_off.id, stop=stop)
            with self.assertRaises(RpcError) as caught:
                one_off.result()
            self.assertEqual(caught.exception.code, -32800)
            left = caught.exception.data["result"]["survivors"]
            self.assertEqual(([process["pid"] for process in left], alive(pid)), ([], False) if stop else ([pid], True))
        self.usable(session)

    def test_G7_a_start_that_is_cancelled_leaves_nothing(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        (self.folder / "rc").write_text(f"sleep 68 & read x <{gate}\n")
        call = self.rex.start("session/create", session="never", shell="bash", startupSource=[str(self.folder / "rc")],
                              startupTimeoutMs=60_000)
        self.assertTrue(until(lambda: sleepers(self.rex)))
        (pid,) = sleepers(self.rex)
        self.rex.notify("$/cancelRequest", id=call.id, stop=True)
        with self.assertRaises(RpcError) as caught:
            call.result(timeout=10)
        self.assertEqual(caught.exception.code, -32800)
        self.assertFalse(alive(pid))
        self.refused("SessionNotFound", self.rex.call, "session/info", session="never")

    def test_G7_a_waiter_cannot_stop_the_job_of_another_call(self):
        session = self.fresh()
        job = session.start("run", command="sleep 0.5; echo whole")
        waiter = session.start("wait", any=[{"exit": True}])
        self.rex.notify("$/cancelRequest", id=waiter.id, stop=True)
        with self.assertRaises(RpcError):
            waiter.result()
        self.ended(job.result(), output="whole\n")

    def test_J4_a_call_that_fails_stops_none_of_those_beside_it(self):
        """In one batch: each has its own answer, whatever became of the others."""
        calls = [("process/run", {"command": "sleep 0.3; echo late"}), ("process/run", {"command": ["/nosuch"]}),
                 ("session/run", {"session": "s", "command": "false"}),
                 ("session/run", {"session": "nobody", "command": "true"}), ("session/run", {"session": "s"}),
                 ("no/such", {}), ("process/run", {"command": "kill -9 $$"}), ("process/run", {"command": "echo good"})]
        answers = Talk(text(line("session/create", "first", session="s", shell="bash"))
                       + text([line(method, at, **params) for at, (method, params) in enumerate(calls)])).lines()
        batch = sorted(next(each for each in answers if isinstance(each, list)), key=lambda each: each["id"])
        self.assertEqual([code_of(each) for each in batch], [None, 1110, None, 1101, -32602, -32601, None, None])
        results = [batch[at]["result"] for at in (0, 2, 6, 7)]
        self.assertEqual([each["exitCode"] for each in results], [0, 1, None, 0])
        self.assertEqual([results[at]["stdout"] for at in (0, 3)], ["late\n", "good\n"])

    def test_G7_who_types_to_a_job_cannot_stop_it(self):
        session = self.fresh()
        job = session.start("run", command="read x; read y; echo $x$y")
        self.assertTrue(until(lambda: session.call("info")["job"]))
        typing = session.start("run", command="one", interactive=True)
        session.call("wait", any=[{"match": "one"}], waitMs=5000)
        self.rex.notify("$/cancelRequest", id=typing.id, stop=True)
        with self.assertRaises(RpcError) as caught:
            typing.result()
        self.assertEqual((caught.exception.code, caught.exception.data["result"]["state"]), (-32800, "running"))
        session.call("write", data="two", submit=True)
        self.assertTrue(self.ended(job.result())["output"].endswith("onetwo\n"))

    def test_live_output_is_all_of_it_and_comes_before_the_answer(self):
        session = self.fresh()
        self.rex.notifications.queue.clear()  # of hops
        for number in range(50):
            result = session.run(f"seq {number} 300", progressToken=f"t{number}", maxOutputBytes=0)
            at, data = result["from"], ""
            while not self.rex.notifications.empty():
                piece = self.rex.notifications.get()["params"]
                self.assertEqual((piece["token"], piece["value"]["from"]), (f"t{number}", at))
                at, data = piece["value"]["next"], data + piece["value"]["data"]
            self.assertEqual((at, data), (result["next"], "".join(f"{line}\n" for line in range(number, 301))))

    def test_G8_waiting_calls_hold_up_no_others(self):
        session = self.fresh()
        waiting = [session.start("wait", any=[{"match": "never"}]) for _ in range(amount(500, 990))]
        slow = self.rex.start("process/run", command=["sleep", "60"])
        spent = []
        for number in range(amount(300, 1000)):
            begun = time.perf_counter()
            if number % 3:
                self.rex.call("ping")
            else:
                self.rex.call("session/list")
            spent.append(time.perf_counter() - begun)
        self.assertLess(sorted(spent)[len(spent) * 9 // 10], 0.1)
        begun = time.perf_counter()
        self.rex.notify("$/cancelRequest", id=slow.id, stop=True)
        with self.assertRaises(RpcError):
            slow.result()
        self.assertLess(time.perf_counter() - begun, 1)
        self.assertFalse(any(call.done() for call in waiting))
        for call in waiting:
            self.rex.notify("$/cancelRequest", id=call.id)
        for call in waiting:
            with self.assertRaises(RpcError):
                call.result()
        self.usable(session)

    def test_R09_R15_pipelined_calls_keep_their_order_in_a_session_and_none_elsewhere(self):
        session = self.rex.session("pipeline", argv=["cat"], tty=False)
        self.addCleanup(self.close_quietly, session)
        others = [self.fresh() for _ in range(5)]
        runs = [other.start("run", command=f"echo {number}") for number, other in enumerate(others)]
        writes = [session.start("write", data=f"{number}\n") for number in range(900)]
        for call in writes:
            call.result()
        self.assertEqual([call.result()["output"] for call in runs], [f"{number}\n" for number in range(5)])
        session.call("write", data="", eof=True)
        session.call("wait", any=[{"exit": True}], waitMs=5000)
        self.assertEqual(session.read_all(), "".join(f"{number}\n" for number in range(900)).encode())

    def test_R15_a_write_that_waits_for_room_is_not_overtaken(self):
        """Held up by a signal, the program finds a second write there before the room that the first one waits for."""
        gate, part, read = (self.folder / name for name in ("gate", "part", "read"))
        os.mkfifo(gate)
        reader = f"read x <{gate}; dd bs=1M count=1 of={part} 2>/dev/null; : >{read}; cat"
        rex = self.spawn()
        session = rex.session("full", argv=["sh", "-c", reader], tty=False)
        first = session.start("write", data="a" * 200_000)
        rex.call("ping")  # the pipe is full
        os.kill(rex.pid, signal.SIGSTOP)
        self.assertTrue(until(lambda: status_of(rex.pid)["State"].startswith("T")))
        second = session.start("write", data="b" * 1000)
        gate.write_text("go\n")
        self.assertTrue(until(read.exists))
        os.kill(rex.pid, signal.SIGCONT)
        self.assertEqual((first.result()["accepted"], second.result()["accepted"]), (200_000, 1000))
        session.call("write", data="", eof=True)
        session.call("wait", any=[{"exit": True}], waitMs=5000)
        data = part.read_bytes() + session.read_all()
        self.assertEqual([(byte, len(list(run))) for byte, run in itertools.groupby(data.decode())],
                         [("a", 200_000), ("b", 1000)])

    def test_T02_whoever_shares_our_output_may_change_how_it_blocks(self):
        big = line("process/run", 1, command="head -c 60000 /dev/zero | tr '\\0' x", maxOutputBytes=60_000)
        for what, make in (("a pipe", os.pipe), ("a socket", lambda: [end.detach() for end in socket.socketpair()])):
            with self.subTest(what):
                ours, shared = make()
                with subprocess.Popen([binary(), "--private"], stdin=subprocess.PIPE, stdout=shared) as process:
                    process.stdin.write(b"".join(text({**big, "id": number}) for number in range(9)))
                    process.stdin.close()
                    data, blocks = b"", True
                    while data.count(b"\n") < 9:
                        blocks = not blocks
                        os.set_blocking(shared, blocks)
                        data += os.read(ours, 5000)
                os.close(ours)
                os.close(shared)
                answers = [json.loads(piece) for piece in data.splitlines()]
                self.assertEqual(sorted(answer["id"] for answer in answers), list(range(9)))
                self.assertEqual({answer["result"]["stdout"] for answer in answers}, {"x" * 60_000})

    def test_J13_a_string_of_escapes_costs_few_times_its_frame(self):
        rex = self.spawn()
        rex.call("ping")
        before = memory(rex.pid, "VmHWM")
        escapes = b"\\u0061" * (16 * MIB // 6 - 100)
        body = b'{"jsonrpc":"2.0","id":"J13","method":"ping","params":{"host":"' + escapes + b'"}}\n'
        rex.process.stdin.write(body)
        rex.process.stdin.flush()
        rex.call("ping")
        if not is_sanitized():  # whose memory is mostly the sanitizer's
            self.assertLess(memory(rex.pid, "VmHWM") - before, 4 * 16 * MIB)

    def test_R20_J15_whatever_a_program_prints_the_wire_is_json(self):
        result = self.rex.call("process/run", command="head -c 50000 /dev/urandom; printf '\\377\\0\\033]0;x\\007' >&2")
        self.assertEqual(result["encoding"], "base64")
        calls = [self.rex.start("process/run", command="head -c 9999 /dev/urandom") for _ in range(8)]
        self.assertEqual({call.result()["encoding"] for call in calls}, {"base64"})


if __name__ == "__main__":
    unittest.main()
