"""Following a session: every byte once from any place, windows, gaps, events, and one who may type.

The instance runs over stdio for the one who drives it; watchers come in through its own socket.
"""

import os
import unittest

from rig import amount, is_sanitized, memory, until
from watching import Attached, Feed, WatchCase

PIECE = 32 * 1024


class Following(WatchCase):
    def test_S17_attachments_have_the_same_bytes_and_one_that_leaves_disturbs_no_other(self):
        session = self.fresh()
        own, feed = self.feed(self.rex), self.feed()
        a, b, c = Attached(own, session.name), Attached(feed, session.name), Attached(feed, session.name)
        session.run("seq 1000")
        for each in (a, b):
            each.until(lambda each=each: each.next == 3893)
        c.detach()
        leaving = Attached(self.feed(), session.name)
        leaving.feed.rex.close()
        session.run("seq 1000")
        for each in (a, b):
            each.until(lambda each=each: each.next == 2 * 3893)
            self.assertEqual(each.data, session.read_all())
        feed.idle(c.id)
        pieces = [message["params"] for message in feed.waiting[c.id] if message["method"] == "session/output"]
        self.assertTrue(all(piece["next"] <= 3893 for piece in pieces), pieces)

    def test_S18_places_that_cannot_be_read_are_refused(self):
        session = self.fresh(journalBytes=4096)
        session.run("seq 2000")
        info = session.call("info")
        self.assertGreater(info["oldest"], 0)
        self.refused("InvalidParams", session.call, "attach", offset=info["next"] + 1)
        self.refused("InvalidParams", session.call, "attach", offset=-1)
        gone = self.refused("OffsetGone", session.call, "attach", offset=0)
        self.assertEqual((gone.data["oldest"], gone.data["next"]), (info["oldest"], info["next"]))
        self.refused("InvalidParams", session.call, "attach", stream="stderr")
        self.refused("InvalidParams", session.call, "attach", takeover=True)
        self.refused("SessionNotFound", self.rex.call, "session/attach", session="nobody")
        self.refused("SessionNotFound", self.rex.call, "session/subscribe", session="nobody")

    def test_C17_from_any_offset_come_exactly_the_bytes_behind_it(self):
        session = self.fresh()
        session.run("seq 20000")
        whole = session.read_all()
        for offset in (0, 1, 777, PIECE, len(whole) - 1, len(whole)):
            with self.subTest(offset=offset):
                one = Attached(self.feed(), session.name, offset=offset)
                one.until(lambda: one.next == len(whole))
                self.assertEqual(one.data, whole[offset:])
                self.assertLessEqual(max(map(len, one.pieces), default=0), PIECE)
                one.feed.rex.close()

    def test_S22_no_character_is_cut_by_our_pieces_and_no_byte_changed(self):
        session = self.fresh()
        session.run("python3 -c 'print(\"x\" + \"äöü€😀\" * 20000)'")
        one = Attached(self.feed(), session.name, offset=0)
        one.until(lambda: one.next == one.info["next"])
        self.assertEqual(one.data, session.read_all())
        for piece in one.pieces:
            piece.decode()
        session.run("head -c 300000 /dev/urandom")
        one.until(lambda: one.next >= one.info["next"] + 300000)
        self.assertEqual(one.data, session.read_all())

    def test_a_reader_is_never_more_than_its_window_ahead(self):
        session = self.fresh()
        session.run("seq 100000")
        whole = session.read_all()
        window = 50_000
        feed = self.feed()
        one = Attached(feed, session.name, offset=0, window=window)
        while one.next < len(whole):
            one.until(lambda: one.next == min(one.start + window, len(whole)), acks=False)
            self.assertTrue(feed.idle(one.id), "sent beyond the window")
            one.ack(one.start - 1 if one.start else 0)  # what was acknowledged before opens nothing
            self.assertTrue(feed.idle(one.id), "an old acknowledgement opened the window")
            one.start = min(one.start + 33_333, len(whole))
            one.ack(one.start)
        self.assertEqual(one.data, whole)

    def test_an_acknowledgement_of_what_was_never_sent_opens_no_more_than_the_window(self):
        session = self.fresh()
        session.run("seq 100000")
        feed = self.feed()
        one = Attached(feed, session.name, offset=0, window=4096)
        one.until(lambda: one.next == 4096, acks=False)
        one.ack(1 << 40)
        one.until(lambda: one.next == 8192, acks=False)
        self.assertTrue(feed.idle(one.id))
        feed.rex.notify("session/ack", attachment="nobody's", offset=1)
        feed.rex.notify("session/ack", attachment=one.id)
        feed.rex.call("ping")

    def test_what_the_journal_lost_is_told_where_it_was(self):
        session = self.fresh(journalBytes=65536)
        one = Attached(self.feed(), session.name, window=4096)
        session.run("seq 1 60000")
        total = session.call("info")["next"]
        one.until(lambda: one.next == total)
        expected = "".join(f"{n}\n" for n in range(1, 60001)).encode()
        self.assertEqual(len(expected), total)
        self.assertTrue(one.gaps, "nothing was lost: the test shows nothing")
        rest, at = one.data, 0
        for gap in [*one.gaps, {"from": total, "to": total}]:
            self.assertEqual(rest[:gap["from"] - at], expected[at:gap["from"]])
            rest, at = rest[gap["from"] - at:], gap["to"]
        self.assertEqual(rest, b"")

    def test_a_journal_that_blocks_loses_nothing_and_holds_up_only_its_program(self):
        expected = "".join(f"{number}\n" for number in range(1, 600_001)).encode()
        for label, options, command in (("terminal", {"shell": "bash"}, "seq 600000"),
                                        ("pipes", {"shell": None, "argv": ["seq", "600000"], "tty": False}, None)):
            with self.subTest(label):
                session = self.fresh(journalBytes=1 << 20, onFull="block", **options)
                if command:
                    session.run(command, waitMs=0)
                full = session.call("wait", any=[{"bytes": (1 << 20) - (256 << 10)}], waitMs=20_000)
                self.assertEqual(full["met"], 0)
                info = session.call("info")
                self.assertEqual(info["oldest"], 0)
                self.assertLess(info["next"], 1 << 20)
                self.assertEqual(session.call("wait", any=[{"exit": True}], waitMs=50)["met"], None)
                first = session.call("read", offset=0, maxBytes=700_000)  # what is read makes room, too
                one = Attached(self.feed(), session.name, offset=first["next"])
                one.until(lambda one=one: one.next >= len(expected))
                self.assertEqual(first["data"].encode() + one.data, expected)
                self.assertEqual(one.gaps, [])
                self.assertEqual(session.call("wait", any=[{"exit": True}])["result"]["exitCode"], 0)

    def test_a_journal_that_blocks_holds_up_no_interrupt(self):
        session = self.fresh(journalBytes=1 << 20, onFull="block")
        session.run("yes", waitMs=0)
        self.assertEqual(session.call("wait", any=[{"bytes": (1 << 20) - (256 << 10)}], waitMs=20_000)["met"], 0)
        self.assertEqual(session.call("interrupt", graceMs=20_000)["state"], "ready")
        self.ended(session.run("echo on"), output="on\n")
        self.assertEqual(session.call("info")["oldest"], 0)
        self.refused("InvalidParams", self.fresh, journalBytes=4096, onFull="block")

    def test_the_end_of_a_program_is_told_before_the_end_of_its_output(self):
        for command, members in (("printf bye; exit 3", {"exitCode": 3}),
                                 ("printf bye; kill -9 $$", {"signal": "KILL"})):
            with self.subTest(command):
                session = self.fresh(None, argv=["sh", "-c", f"read x; {command}"], profile="human")
                one = Attached(self.feed(), session.name)
                session.call("write", data="go", submit=True)
                one.until(lambda: one.eof)
                self.assertTrue(one.data.endswith(b"bye"))
                one.event("shellExited", **members)
                self.assertEqual(one.events[-1]["state"], "exited")
                late = Attached(self.feed(), session.name, offset=0)
                self.assertEqual(late.until(lambda: late.eof).data, one.data)

    def test_streams_of_a_program_on_pipes_are_followed_apart(self):
        session = self.fresh(None, argv=["sh", "-c", "read x; echo out; echo err >&2"], tty=False)
        feed = self.feed()
        out, err = Attached(feed, session.name), Attached(feed, session.name, stream="stderr")
        session.call("write", data="go\n")
        self.assertEqual(out.until(lambda: out.eof).data, b"out\n")
        self.assertEqual(err.until(lambda: err.eof).data, b"err\n")

    def test_a_closed_session_ends_its_attachments_and_only_them(self):
        session, other = self.fresh(), self.fresh()
        feed = self.feed()
        one, still = Attached(feed, session.name), Attached(feed, other.name)
        session.call("close")
        one.until(lambda: one.eof)
        self.refused("InvalidParams", feed.rex.call, "session/detach", attachment=one.id)
        other.run("echo on")
        self.assertEqual(still.until(lambda: still.data).data, b"on\n")

    def test_an_attachment_belongs_to_its_connection(self):
        session = self.fresh()
        one = Attached(self.feed(), session.name)
        self.refused("InvalidParams", self.rex.call, "session/detach", attachment=one.id)
        self.rex.notify("session/ack", attachment=one.id, offset=0)
        session.run("echo still")
        self.assertEqual(one.until(lambda: one.data).data, b"still\n")

    def test_a_connection_has_so_many_attachments(self):
        session = self.fresh()
        peer = self.peer()
        most = peer.call("initialize")["limits"]["attachments"]
        pending = [peer.start("session/subscribe", session=session.name) for _ in range(most)]
        ids = [each.result()["attachment"] for each in pending]
        self.assertEqual(self.refused("LimitExceeded", peer.call, "session/attach", session=session.name).data["limit"],
                         "attachments")
        peer.call("session/unsubscribe", attachment=ids[0])
        peer.call("session/attach", session=session.name)

    def test_every_attachment_of_a_connection_gets_its_turn(self):
        feed = self.feed()
        sessions = [self.fresh(None, argv=["yes", str(i) * 60]) for i in range(12)]
        followed = {}
        for session in sessions:
            one = Attached(feed, session.name)
            followed[one.id] = one
        goal = amount(1, 20) << 20
        while min(one.next - one.start for one in followed.values()) < goal:
            message = feed.rex.notifications.get(timeout=60)
            one = followed[message["params"]["attachment"]]
            feed.waiting[one.id].append(message)
            one.take()
            one.data = b""
            if message["method"] == "session/output":
                one.ack()
        feed.rex.call("ping")


class Happenings(WatchCase):
    def test_A18_the_end_of_a_job_is_told_to_whoever_listens_after_its_call_has_returned(self):
        session = self.fresh()
        own = Attached(self.feed(self.rex), session.name)
        fifo = self.folder / "go"
        os.mkfifo(fifo)
        result = session.run(f"read x <{fifo}; echo late; exit_with() {{ return 4; }}; exit_with",
                             waitMs=50, timeoutMs=60_000)
        self.result(result, state="running", exitCode=None)
        fifo.write_text("\n")
        told = own.event("jobEnded", job=result["job"])
        self.assertEqual((told["result"], told["exitCode"], told["state"]), ("exited", 4, "ready"))
        own.until(lambda: own.next == told["offset"])
        self.assertEqual(own.data, b"late\n")

    def test_what_happens_is_told_in_its_order(self):
        session = self.fresh()
        feed = self.feed()
        one = Attached(feed, session.name)
        session.run("cd /")
        session.run("exit 7")
        session.run("true")
        one.event("jobEnded", job="3")
        one.event("stateChanged", state="ready")
        told = [(e["event"], e.get("job"), e.get("exitCode")) for e in one.events if e["event"] != "stateChanged"]
        self.assertEqual(told, [
            ("jobStarted", "1", None), ("cwd", None, None), ("jobEnded", "1", 0), ("jobStarted", "2", None),
            ("jobEnded", "2", 7), ("shellExited", None, 7), ("restarted", None, 7), ("jobStarted", "3", None),
            ("jobEnded", "3", 0)])
        self.assertEqual(next(e for e in one.events if e["event"] == "cwd")["cwd"], "/")
        states = [e["state"] for e in one.events if e["event"] == "stateChanged"]
        self.assertTrue(all(a != b for a, b in zip(states, states[1:])), states)

    def test_a_title_and_a_bell_are_told_when_they_come_and_what_is_none_is_not(self):
        session = self.fresh()
        one = Attached(self.feed(), session.name)
        for text in (r"a\033]0;build ä\007b", r"\033]2;done\033\\c", r"\033]1;icon\007\033]52;c;aGk=\007", r"\033P\007\033\\",
                     r"ring\007", r"\033]2;done\007", r"\033]2;\302\2332J\007"):
            session.run(f"printf '{text}'")
        one.event("jobEnded", job="7")
        told = [each for each in one.events if each["event"] in ("title", "bell")]
        self.assertEqual([(each["event"], each.get("title")) for each in told],
                         [("title", "build ä"), ("title", "done"), ("bell", None), ("title", "2J")])
        journal = session.read_all()
        for each, mark in zip(told, (b"\007b", b"\033\\c", b"ring\007", b"2J\007")):
            self.assertEqual(each["offset"], journal.index(mark) + len(mark))

    def test_a_subscription_to_all_has_no_output_and_knows_sessions_to_come(self):
        feed = self.feed()
        everything = feed.rex.call("session/subscribe")["attachment"]
        session = self.fresh()
        only = feed.rex.call("session/subscribe", session=session.name)["attachment"]
        other = self.fresh()
        other.run("echo other")
        session.run("echo mine")
        ended = []
        while {name for name, event in ended if event == "jobEnded"} != {session.name, other.name}:
            params = feed.next(everything)["params"]
            ended.append((params["session"], params["event"]))
        self.assertTrue(all(message["method"] == "session/event" for message in feed.waiting[everything]))
        self.assertEqual({feed.next(only)["params"]["session"] for _ in range(3)}, {session.name})
        feed.rex.call("session/unsubscribe", attachment=everything)
        feed.idle(everything)
        feed.waiting[everything].clear()
        session.run("true")
        self.assertTrue(feed.idle(everything))

    def test_B14_a_question_and_that_it_is_for_a_secret_is_told_to_whoever_watches(self):
        session = self.fresh()
        watching = Attached(self.feed(), session.name)
        command = "printf 'PIN: '; stty -echo; read -r pin; stty echo; echo; echo $pin | wc -c"
        pending = session.start("run", command=command, returnOnInput=False)
        told = watching.event("waitingInput")
        self.assertEqual((told["state"], told["job"]), ("waitingInput", "1"))
        self.assertEqual((told["waiting"]["kind"], told["waiting"]["text"]), ("secret", "PIN: "))
        watching.feed.rex.call("session/write", session=session.name, data="2718", submit=True, secret=True)
        self.assertTrue(pending.result()["output"].endswith("5\n"))
        self.assertNotIn(b"2718", session.read_all())

    def test_events_that_a_client_does_not_read_are_bounded_and_counted(self):
        session = self.fresh()
        deaf = self.peer(reads=False)
        most = self.rex.call("initialize")["limits"]["keptEvents"]
        attachment = "a"
        deaf.send({"jsonrpc": "2.0", "id": 1, "method": "session/subscribe", "params": {"session": session.name}})
        jobs = amount(1500, 10_000)
        self.assertIn(b'"id":1', deaf.process.stdout.readline())
        for _ in range(jobs):
            session.run("")
        session.run("true # last")
        deaf.read()
        told, lost, last = 0, 0, str(jobs + 1)
        while True:
            params = deaf.notifications.get(timeout=60)["params"]
            told += 1
            lost += params.get("lost", 0)
            if params["event"] == "stateChanged" and params["state"] == "ready" and attachment == last:
                break
            attachment = params.get("job", attachment)
        # jobStarted, stateChanged, jobEnded, stateChanged
        self.assertEqual(told + lost, 4 * (jobs + 1))
        self.assertGreaterEqual(most, 1)


class Typing(WatchCase):
    def test_F9_one_writer_at_a_time_and_the_lease_ends_with_its_connection(self):
        session = self.fresh()
        ada, bob = self.peer(), self.peer()
        ada.call("initialize", clientInfo={"name": "ada"})
        held = Attached(self.feed(ada), session.name, role="writer")
        self.assertEqual(held.info["writer"], "ada")
        for call, params in (("session/write", {"data": "x"}), ("session/run", {"command": "true"}),
                             ("session/attach", {"role": "writer"})):
            with self.subTest(call):
                for client in (self.rex, bob):
                    error = self.refused("NotWriter", client.call, call, session=session.name, **params)
                    self.assertEqual((error.code, error.data["writer"], error.data["executed"]), (1109, "ada", "no"))
        self.assertEqual(ada.call("session/run", session=session.name, command="echo ada")["output"], "ada\n")
        # Control is everybody's.
        session.call("interrupt")
        session.call("info")
        watching = Attached(self.feed(bob), session.name)
        ada.close()
        self.assertNotIn("writer", watching.event("writerChanged"))
        self.assertEqual(session.output("echo free"), "free\n")
        self.assertIsNone(session.call("info")["writer"])

    def test_F9_a_takeover_is_announced_to_the_one_it_is_taken_from(self):
        session = self.fresh()
        ada, bob = self.peer(), self.peer()
        ada.call("initialize", clientInfo={"name": "ada"})
        bob.call("initialize", clientInfo={"name": "bob\x1b[2J"})
        hers = Attached(self.feed(ada), session.name, role="writer")
        his = Attached(self.feed(bob), session.name, role="writer", takeover=True)
        self.assertEqual(hers.event("writerChanged")["writer"], his.info["writer"])
        self.assertNotIn("\x1b", his.info["writer"])
        self.refused("NotWriter", ada.call, "session/write", session=session.name, data="x")
        hers.detach()  # a lease that was taken over is not given back by whom it was taken from
        self.assertEqual(session.call("info")["writer"], his.info["writer"])
        his.detach()
        self.assertIsNone(session.call("info")["writer"])
        self.assertEqual(session.output("echo free"), "free\n")

    def test_a_call_that_runs_is_answered_although_somebody_takes_over(self):
        session = self.fresh()
        pending = session.start("run", command="read -r x; echo got $x", returnOnInput=False)
        self.assertTrue(until(lambda: session.call("info")["foreground"]))
        writer = self.peer()
        Attached(self.feed(writer), session.name, role="writer")
        writer.call("session/write", session=session.name, data="it", submit=True)
        self.assertTrue(pending.result()["output"].endswith("got it\n"))


class OnATerminal(WatchCase):
    def test_line_feeds_get_the_carriage_return_that_an_agents_terminal_leaves_out(self):
        session = self.fresh()
        feed = self.feed()
        shown = Attached(feed, session.name, newline="terminal")
        raw = Attached(feed, session.name)
        session.run("seq 20000")
        for each in (shown, raw):
            each.until(lambda each=each: each.next == 108894)
        self.assertEqual(shown.data, raw.data.replace(b"\n", b"\r\n"))
        own = self.fresh(None, argv=["sh", "-c", "read x; echo done"], profile="human")
        cooked = Attached(feed, own.name, newline="terminal")
        own.call("write", data="go", submit=True)
        cooked.exact = True
        self.assertIn(b"done\r\n", cooked.until(lambda: cooked.eof).data)
        self.assertNotIn(b"\r\r", cooked.data)

    def test_who_types_at_a_terminal_answers_what_programs_ask_of_it(self):
        session = self.fresh()
        command = "stty raw -echo; printf '\\033[5n'; dd bs=1 count=4 2>/dev/null | od -An -c; stty sane -opost"
        self.assertIn("033   [   0   n", session.output(command))
        writer = self.peer()
        Attached(self.feed(writer), session.name, role="writer", newline="raw")
        asked = {"session": session.name, "command": command}
        self.assertIn("033   [   0   n", writer.call("session/run", **asked)["output"])
        terminal = Attached(self.feed(self.peer()), session.name, role="writer", takeover=True)
        pending = terminal.feed.rex.start("session/run", returnOnInput=False, **asked)
        terminal.until(lambda: b"\x1b[5n" in terminal.data)
        terminal.feed.rex.call("session/write", session=session.name, data="mine")
        self.assertIn("m   i   n   e", pending.result()["output"])
        terminal.detach()
        self.assertIn("033   [   0   n", session.output(command))


class Flooding(WatchCase):
    def test_C4_a_client_that_never_reads_costs_a_bounded_memory_and_slows_nobody(self):
        """`yes` for 30 s in the long run. What others' calls cost meanwhile is a row of the benchmark."""
        session, other = self.fresh(), self.fresh()
        other.run("true")
        deaf = [self.peer(reads=False) for _ in range(3)]
        seen = Attached(self.feed(), session.name, window=1 << 20)
        before = memory(self.rex.pid, "VmRSS")
        for i, client in enumerate(deaf):
            for _ in range(4):
                client.send({"jsonrpc": "2.0", "id": i, "method": "session/attach",
                             "params": {"session": session.name, "window": 64 << 20}})
        session.run("yes flood", waitMs=0)
        goal = amount(300, 30 * 100) << 20
        while session.call("info")["next"] < goal:
            self.assertEqual(other.output("echo on"), "on\n")
        self.result(session.call("interrupt")["result"], state="exited", exitCode=130)
        if not is_sanitized():
            grown = memory(self.rex.pid, "VmHWM") - before
            # Three connections with 256 KiB to send and a piece, one reader's window, and the journal's memory.
            self.assertLess(grown, 16 << 20)
        seen.until(lambda: seen.next - seen.start >= 1 << 20, acks=False)
        seen.feed.idle(seen.id)
        left = [message["method"] for message in seen.feed.waiting[seen.id]]
        self.assertEqual((seen.next - seen.start, left.count("session/output")), (1 << 20, 0))
        self.usable(session)

    def test_F10_of_fifty_who_watch_ten_never_read_which_costs_neither_the_job_nor_the_others_anything(self):
        """And when they read after all, they are told where the journal begins by then."""
        session = self.fresh(journalBytes=1 << 20)
        params = {"session": session.name, "offset": 0, "window": 65536}
        deaf = [self.peer(reads=False) for _ in range(10)]
        asked = [each.start("session/attach", **params) for each in deaf]
        watching = [Attached(self.feed(), **params) for _ in range(40)]
        count = amount(300_000, 3_000_000)
        job = session.start("run", command=f"seq {count}")
        whole = "".join(f"{number}\n" for number in range(1, count + 1)).encode()
        while not job.done():
            for each in watching:
                each.take()
                each.ack()
        self.ended(job.result(), totalBytes=len(whole))
        for peer, pending in zip(deaf, asked):
            peer.read()
            watching.append(Attached(Feed(peer), pending=pending, **params))
        for each in watching:
            each.until(lambda each=each: each.next == len(whole))
            at, kept = 0, b""
            for gap in each.gaps:
                kept += whole[at:gap["from"]]
                at = gap["to"]
            self.assertEqual(each.data, kept + whole[at:])
        self.assertTrue(all(each.gaps for each in watching[-10:]))

    def test_a_flood_that_is_followed_holds_up_no_control(self):
        session = self.fresh()
        feed = self.feed()
        one = Attached(feed, session.name, window=64 << 20)
        session.run("yes flood", waitMs=0)
        one.until(lambda: one.data)
        for _ in range(50):
            feed.rex.call("ping")
            one.ack(1 << 40)
        interrupted = feed.rex.call("session/interrupt", session=session.name)
        self.result(interrupted["result"], state="exited", exitCode=130)
        end = session.call("info")["next"]
        one.until(lambda: one.next == end)
        self.assertTrue(one.data.startswith(b"flood\nflood\n"))


if __name__ == "__main__":
    unittest.main()
