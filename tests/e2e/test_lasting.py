"""What lasts: a session whose machine is started anew, one that is a month old, offsets beyond 2^32 and near 2^53, and
a stream whose instance in front dies again and again. By faults made from outside (support/faults.py).

Must not know how any of it is kept.
"""

import datetime
import itertools
import json
import os
import pathlib
import queue
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from rig import RpcError, alive, amount, binary, is_sanitized, kill_quietly, long_only, until
from test_daemon import DaemonCase
from watching import Attached, Feed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from faults import ClockAhead, library, with_faults  # noqa: E402
from rex import HOPS  # noqa: E402

MONTH = 30 * 24 * 3600


def is_static():
    with open(binary(), "rb") as program:
        return b"ld-linux" not in program.read(4096)


needs_faults = unittest.skipIf(is_sanitized() or is_static() or not library(),
                               "cannot run here: a library is put before the program's own, which takes cc, and a dynamic "
                               "program without a sanitizer")


class LastingCase(DaemonCase):
    """Its own state directory, too: what is told after a reboot is kept there."""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.environment["XDG_STATE_HOME"] = str(self.state)

    def records(self):
        return sorted(path.name for path in self.state.glob("rex-rpc/sessions/*"))

    def kill_keepers(self):
        for pid in self.keepers():
            kill_quietly(pid)
        self.assertTrue(until(lambda: not self.keepers()))

    def states(self, rex):
        return {each["session"]: (each["state"], each.get("lostBy")) for each in rex.call("session/list")["sessions"]}


class Reboot(LastingCase):
    def started_anew(self):
        """The machine: nothing of it runs any more, and its runtime directory is another one."""
        self.kill_keepers()
        shutil.rmtree(self.sockets)
        (self.folder / "boot").write_text("another\n")
        self.environment = with_faults(self.environment, boot=self.folder / "boot")

    @needs_faults
    def test_F8_a_session_that_the_machine_took_with_it_is_lost_until_it_is_closed(self):
        rex = self.instance()
        made = rex.session("main", shell="bash", lifetime="daemon", labels={"of": "mine"}).info
        self.assertIs(made["survives"]["reboot"], False)
        rex.session("other", shell="dash", lifetime="daemon")
        rex.call("session/close", session="other", graceMs=100)
        rex.kill()
        self.started_anew()
        rex = self.instance()
        self.assertEqual(rex.call("initialize")["machine"]["bootId"], "another")
        [listed] = rex.call("session/list")["sessions"]
        self.assertEqual(rex.call("session/info", session="main"), listed)
        changed = {"state": "lost", "lostBy": "reboot", "foreground": None, "job": None, "waiting": None, "writer": None}
        self.assertEqual(listed, {**made, **changed})
        for method, more in (("run", {"command": "true"}), ("read", {}), ("attach", {}), ("write", {"data": "x"}),
                             ("wait", {"any": [{"exit": True}]}), ("interrupt", {}), ("signal", {"signal": "INT"}),
                             ("resize", {"rows": 9, "cols": 9}), ("screen", {}), ("subscribe", {})):
            with self.subTest(method):
                error = self.refused("SessionEnded", rex.call, f"session/{method}", session="main", **more)
                self.assertEqual(error.data["executed"], "no")
                self.assertIn("this machine was started anew", error.message)
        for lifetime in ("daemon", "connection"):  # never another shell in its place
            self.refused("SessionExists", rex.call, "session/create", session="main", shell="dash", lifetime=lifetime)
        self.assertEqual(self.keepers(), [])
        self.assertEqual(rex.call("session/close", session="main"), {"exitCode": None, "signal": None, "survivors": []})
        self.assertEqual((self.states(rex), self.records()), ({}, []))
        self.refused("SessionNotFound", rex.call, "session/close", session="main")
        self.assertEqual(rex.session("main", shell="dash", lifetime="daemon").output("echo new"), "new\n")

    @needs_faults
    def test_F8_what_was_asked_with_a_key_before_nobody_knows_and_nothing_runs_again(self):
        key = lambda seq: {"client": "test", "seq": seq}  # noqa: E731
        count = self.folder / "count"
        made = {"session": "main", "shell": "bash", "lifetime": "daemon", "key": key(1)}
        command = {"session": "main", "command": f"echo ran >>{count}", "key": key(2)}
        rex = self.instance()
        rex.call("session/create", **made)
        rex.call("session/run", **command)
        rex.kill()
        self.started_anew()
        rex = self.instance()
        for method, params in (("run", command), ("create", made), ("signal", {"session": "main", "signal": "INT", "key": key(3)})):
            error = self.refused("OutcomeUnknown", rex.call, f"session/{method}", **params)
            self.assertEqual((error.data["reason"], error.data["executed"]), ("reboot", "unknown"), method)
        self.assertEqual(self.keepers(), [])
        new = {**made, "key": key(4)}
        self.refused("SessionExists", rex.call, "session/create", **new)
        closed = rex.call("session/close", session="main", key=key(5))
        self.assertEqual(rex.call("session/close", session="main", key=key(5)), closed)
        self.assertEqual(rex.call("session/create", **new)["state"], "ready")  # refused, it was not done
        self.assertEqual(count.read_text(), "ran\n")

    def test_its_process_killed_or_told_to_end_is_told_alike(self):
        rex = self.instance()
        for number in (signal.SIGKILL, signal.SIGTERM):  # SIGTERM is what a machine that shuts down sends
            with self.subTest(number):
                rex.session("main", shell="dash", lifetime="daemon")
                [keeper] = self.keepers()
                os.kill(keeper, number)
                self.assertTrue(until(lambda: not self.keepers()))
                self.assertEqual(self.states(rex), {"main": ("lost", "killed")})
                self.assertEqual(self.states(self.instance()), {"main": ("lost", "killed")})
                self.assertIn("its process was killed", self.refused("SessionEnded", rex.call, "session/run",
                                                                     session="main", command="true").message)
                rex.call("session/close", session="main")
                self.assertEqual(self.records(), [])

    def test_a_session_that_is_being_killed_is_in_every_list(self):
        rex = self.instance()
        for _ in range(20):
            rex.session("main", shell="dash", lifetime="daemon")
            [keeper] = self.keepers()
            os.kill(keeper, signal.SIGKILL)
            seen = [self.states(rex)]
            while seen[-1] != {"main": ("lost", "killed")}:
                self.assertEqual(seen[-1], {"main": ("ready", None)}, seen)
                seen.append(self.states(rex))
            rex.call("session/close", session="main")

    @needs_faults
    def test_people_see_it_and_can_take_it_away(self):
        rex = self.instance()
        rex.session("main", shell="dash", lifetime="daemon")
        rex.kill()
        self.started_anew()
        [row] = self.command("sessions").stdout.splitlines()[1:]
        self.assertEqual(row.split()[:2], ["daemon/main", "lost"])
        self.assertEqual([each["lostBy"] for each in json.loads(self.command("sessions", "--json").stdout)], ["reboot"])
        logs = self.command("logs", "main")
        self.assertEqual((logs.returncode, logs.stdout), (1, ""))
        self.assertIn("was lost: this machine was started anew", logs.stderr)
        self.assertEqual(self.command("kill", "main").returncode, 0)
        self.assertEqual((self.command("sessions").stdout, self.records()), ("", []))

    def test_where_its_record_cannot_be_kept_a_session_is_as_good(self):
        self.state.write_text("no directory")
        rex = self.instance()
        session = rex.session("main", shell="dash", lifetime="daemon")
        self.assertEqual(session.output("echo here"), "here\n")
        session.call("close")
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(rex.call("session/list")["sessions"], [])

    def test_C08_a_damaged_record_is_told_and_harms_no_other_session(self):
        rex = self.instance(argv=[binary(), "--log", "info"])
        rex.session("main", shell="dash", lifetime="daemon")
        [record] = (self.state / "rex-rpc" / "sessions").iterdir()
        rex.session("other", shell="dash", lifetime="daemon")
        [keeper] = [pid for pid in self.keepers() if b"main" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        os.kill(keeper, signal.SIGKILL)
        self.assertTrue(until(lambda: not alive(keeper)))
        whole = record.read_bytes()
        at = whole.index(b"main")
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:]
        of_tomorrow = json.dumps({"version": 2, "session": "main"}).encode()
        for data in (b"", b"{", b"[]", b'{"boot": 1}', b'{"boot": "x", "info": {"session": 1}}', whole[:-1], flipped,
                     bytes(len(whole)), b"\xff" + whole, of_tomorrow):
            with self.subTest(data[:40]):
                record.write_bytes(data)
                listed = rex.call("session/list")
                self.assertEqual([info["session"] for info in listed["sessions"]], ["other"])
                self.assertIn(f"its record {record} is damaged (", listed["detail"])
                self.assertTrue(until(lambda: any(str(record) in line for line in rex.stderr)), rex.stderr)
                rex.stderr.clear()
                shown = self.command("sessions")
                self.assertEqual((shown.returncode, shown.stdout.count("daemon/")), (1, 1))
                self.assertIn(str(record), shown.stderr)
                self.refused("SessionNotFound", rex.call, "session/run", session="main", command="true")
                self.ended(rex.call("session/run", session="other", command="echo here"), output="here\n")
        record.write_bytes(whole)
        self.assertEqual(self.states(rex), {"main": ("lost", "killed"), "other": ("ready", None)})
        self.assertNotIn("detail", rex.call("session/list"))
        without_digest = {name: value for name, value in json.loads(whole).items() if name != "digest"}
        record.write_text(json.dumps(without_digest))  # of a version before
        self.assertEqual(self.states(rex)["main"], ("lost", "killed"))
        record.write_text("")
        self.assertEqual(rex.session("main", shell="dash", lifetime="daemon").output("echo new"), "new\n")
        self.assertNotIn("detail", rex.call("session/list"))


class SharedHome(LastingCase):
    def elsewhere(self, name):
        """An instance on another machine that has the same home: a machine id and a runtime directory of its own."""
        machine = self.folder / name
        machine.write_text(f"{name}\n")
        script = f"mount --bind {machine} /etc/machine-id && mount -t tmpfs -o mode=700 none {self.runtime} && exec \"$@\""
        return self.instance(argv=["unshare", "--mount", "sh", "-c", script, "sh", os.path.realpath(binary())])

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/etc/machine-id"), "cannot run here: takes root and mounts")
    def test_F14_on_another_machine_of_the_same_home_there_is_another_session_of_the_name(self):
        here = self.instance()
        here.session("main", shell="dash", lifetime="daemon").run("here=yes")
        others = [self.elsewhere(f"machine{number}") for number in range(4)]
        for rex in others:
            self.assertEqual(self.states(rex), {})
            self.refused("SessionNotFound", rex.call, "session/run", session="main", command="true")
            self.assertEqual(rex.session("main", shell="dash", lifetime="daemon").output("echo ${here-no}"), "no\n")
        self.assertEqual((len(self.keepers()), len(self.records())), (5, 5))
        self.assertEqual(here.call("session/run", session="main", command="echo $here")["output"], "yes\n")
        others[0].call("session/close", session="main")
        self.kill_keepers()
        self.assertEqual(self.states(here), {"main": ("lost", "killed")})
        self.assertEqual([self.states(rex) for rex in others], [{}] + 3 * [{"main": ("lost", "killed")}])
        for rex in (here, *others[1:]):
            rex.call("session/close", session="main")
        self.assertEqual(self.records(), [])


class Unattended(LastingCase):
    def test_F16_what_ended_with_nobody_there_is_listed_and_read_in_ranges_with_the_oldest_gone(self):
        """The journal keeps its last 64 MiB."""
        width, first, lines = amount((9, 10**7, 10**7), (11, 10**9, 46 * 10**7))  # 90 MB, 5 GB
        rex = self.instance()
        over = self.folder / "over"
        session = rex.session("main", shell="dash", lifetime="daemon")
        job = session.run(f"seq {first} {first + lines - 1}; touch {over}; (exit 7)", waitMs=0)["job"]
        rex.kill()
        self.assertTrue(until(over.exists, 600))
        rex = self.instance()
        self.assertEqual(self.states(rex), {"main": ("ready", None)})
        total = width * lines
        waited = rex.call("session/wait", session="main", job=job, any=[{"exit": True}])["result"]
        self.ended(waited, 7, totalBytes=total)
        gone = self.refused("OffsetGone", rex.call, "session/read", session="main", offset=0)
        oldest = gone.data["oldest"]
        self.assertEqual(gone.data["next"], total)
        self.assertTrue(32 << 20 <= total - oldest <= 64 << 20, gone.data)
        for begin in (oldest, (oldest + total) // 2, total - 1000):
            read = rex.call("session/read", session="main", offset=begin, maxBytes=1000)
            number = begin // width
            text = "".join(f"{first + each}\n" for each in range(number, number + 1000 // width + 2))
            self.assertEqual(read["data"], text[begin % width:][:len(read["data"])])
            self.assertEqual((read["from"], len(read["data"])), (begin, 1000))


class Old(LastingCase):
    @needs_faults
    def test_F15_a_session_of_thirty_days_is_as_good_as_a_new_one(self):
        """Milliseconds of thirty days do not fit into 31 bits."""
        clock = ClockAhead(self.folder / "clock")
        self.environment = with_faults(self.environment, clock=clock.path)
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon", ttlMs=40 * 24 * 3600 * 1000)
        one = Attached(Feed(rex), "main", offset=0)
        session.run("cd /; kept=yes; echo first")
        gate = self.folder / "gate"
        os.mkfifo(gate)
        job = session.run(f"read x <{gate}; echo $x", waitMs=0)["job"]
        pending = session.start("wait", job=job, any=[{"exit": True}])
        clock.go(MONTH)
        self.pass_gate(gate)
        done = pending.result()["result"]
        self.assertEqual((done["state"], done["output"]), ("exited", "go\n"))
        self.assertGreaterEqual(done["durationMs"], MONTH * 1000)
        self.ended(session.run("echo $kept; pwd"), output="yes\n/\n")
        later = session.run("sleep 1000", waitMs=50)
        self.assertEqual(later["state"], "running")
        self.assertEqual(session.call("interrupt")["state"], "ready")
        self.assertEqual(session.run("sleep 1000", timeoutMs=50)["state"], "timedOut")
        one.until(lambda: one.data.endswith(b"yes\n/\n") or b"yes\n/\n" in one.data)
        new = self.instance()
        self.ended(new.call("session/run", session="main", command="echo still"), output="still\n")
        self.assertEqual(Attached(Feed(new), "main", offset=0).until(lambda: True).start, 0)
        info = new.call("session/info", session="main")
        self.assertEqual((info["state"], info["createdAt"]), ("ready", session.info["createdAt"]))
        [row] = self.command("sessions").stdout.splitlines()[1:]
        self.assertIn(" 30d ", row)

    @needs_faults
    def test_F15_its_ttl_of_thirty_days_passes(self):
        clock = ClockAhead(self.folder / "clock")
        self.environment = with_faults(self.environment, clock=clock.path)
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon", ttlMs=MONTH * 1000)
        gate = self.folder / "gate"
        os.mkfifo(gate)
        # Timers are the kernel's, whose clock is not ahead: a bell has the process look at its own.
        session.run(f"(while read x <{gate}; do printf '\\a'; done) &")
        rex.close()
        clock.go(MONTH - 60)
        self.pass_gate(gate)
        look = self.instance()
        self.assertEqual(look.call("session/run", session="main", command="echo there")["output"], "there\n")
        look.close()
        # Days pass, as nobody can say on which one it saw that the last client had gone.
        days = itertools.count(2 * MONTH, 24 * 3600)
        self.assertTrue(until(lambda: clock.go(next(days)) or self.ring(gate) or not self.keepers()), "it lives on")
        self.assertEqual(self.states(self.instance()), {})
        self.assertEqual(self.records(), [])


    def ring(self, gate):
        """For whoever reads there, if anybody does."""
        if opened := self.opened(gate):
            with opened:
                opened.write("go\n")


class Clocks(LastingCase):
    def setUp(self):
        super().setUp()
        self.clock = ClockAhead(self.folder / "clock")
        self.environment = with_faults(self.environment, clock=self.clock.path)

    @needs_faults
    def test_K01_whoever_sets_the_time_of_day_ends_and_delays_nothing(self):
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon", ttlMs=24 * 3600 * 1000)
        for days in (1, -1, 3650, -3650):
            with self.subTest(days=days):
                self.clock.set(0)
                gate = self.folder / f"gate{days}"
                os.mkfifo(gate)
                pending = session.start("run", command=f"read x <{gate}; echo $x", timeoutMs=3600 * 1000)
                self.assertTrue(until(lambda: session.call("info")["job"]))
                self.clock.set(days * 24 * 3600)
                self.assertEqual(session.call("wait", any=[{"exit": True}], waitMs=20)["met"], None)
                self.pass_gate(gate)
                done = pending.result()
                self.assertEqual((done["state"], done["output"]), ("exited", "go\n"))
                self.assertTrue(0 <= done["durationMs"] < 3600 * 1000, done["durationMs"])
                self.assertEqual(session.run("sleep 1000", timeoutMs=20)["state"], "timedOut")
        rex.close()
        rex = self.instance()
        self.assertEqual(self.states(rex), {"main": ("ready", None)})

    @needs_faults
    def test_K02_a_machine_that_sleeps_takes_nothing_from_the_ttl(self):
        rex = self.instance()
        rex.session("main", shell="dash", lifetime="daemon", ttlMs=1800 * 1000)
        rex.close()
        self.clock.sleep(3600)
        rex = self.instance()
        self.assertEqual(self.states(rex), {"main": ("ready", None)})
        self.assertEqual(rex.call("session/run", session="main", command="echo here")["output"], "here\n")


    @needs_faults
    def test_K05_times_are_utc_whatever_the_zone_and_events_are_in_order_whatever_the_clock(self):
        begun = datetime.datetime.now(datetime.timezone.utc)
        for zone in ("", "America/St_Johns", "XXX-13:45YYY,0,365", "right/UTC"):
            with self.subTest(zone):
                self.environment["TZ"] = zone
                rex = self.instance()
                session = rex.session(f"in {zone}", shell="bash")
                session.run(f"touch {self.folder}/now; echo x")
                info = session.call("info")
                stat = rex.call("file/stat", path=f"{self.folder}/now")
                for told in (rex.call("ping")["time"], info["createdAt"], info["lastOutputAt"], stat["mtime"]):
                    self.assertTrue(told.endswith("Z"), told)
                    moment = datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*Z|Z", r"\1+00:00", told))
                    self.assertLess(abs((moment - begun).total_seconds()), 600, told)
        one = Attached(Feed(rex), session.name, offset=info["next"])
        for day in (1, -1, 400, -400):
            self.clock.set(day * 24 * 3600)
            session.run("echo y")
        one.until(lambda: len([each for each in one.events if each["event"] == "jobEnded"]) == 4)
        offsets = [each["offset"] for each in one.events]
        self.assertEqual(offsets, sorted(offsets))
        first = one.events[0]["seq"]
        self.assertEqual([each["seq"] for each in one.events], list(range(first, first + len(one.events))))
        for each in one.events:
            self.assertRegex(each["time"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")
        self.assertEqual(len({each["time"][:10] for each in one.events}), 4, "by the machine's clock, which was set")


class Stopped(LastingCase):
    def test_K04_what_came_while_it_was_stopped_is_seen_before_what_is_due(self):
        rex = self.instance()
        rex.session("main", shell="bash", lifetime="daemon")
        patience = amount(2, 60)
        for name, method, params in (("lifetime", "session/run", {"session": "main", "timeoutMs": patience * 1000}),
                                     ("wait", "session/run", {"session": "main", "waitMs": patience * 1000}),
                                     ("program", "process/run", {"timeoutMs": patience * 1000})):
            with self.subTest(name):
                gate, begun, over = (self.folder / f"{name}-{what}" for what in ("gate", "begun", "over"))
                os.mkfifo(gate)
                asked = time.monotonic()
                pending = rex.start(method, command=f"touch {begun}; read x <{gate}; touch {over}", **params)
                self.assertTrue(until(begun.exists))
                stopped = [*self.keepers(), rex.pid]
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                self.assertLess(time.monotonic() - asked, patience, "too slow a machine to show anything")
                self.pass_gate(gate)
                self.assertTrue(until(over.exists))
                self.assertTrue(until(lambda asked=asked: time.monotonic() > asked + patience + 0.5, 2 * patience + 60))
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
                self.result(pending.result(), state="exited", exitCode=0)


class Expiry(LastingCase):
    def test_K07_of_the_ttl_and_an_attach_one_wins(self):
        """Attached it lives on, whatever its time; else it is gone, and said so."""
        chance = random.Random(int(os.environ.get("REX_SEED", secrets.randbits(32))))
        for number in range(amount(12, 10_000)):
            name = f"s{number}"
            maker = self.instance()
            maker.session(name, shell="dash", lifetime="daemon", ttlMs=20)
            rex = self.instance()
            rex.call("ping")
            threading.Event().wait(chance.uniform(0, 0.03))  # before, at and behind its end
            maker.kill()
            threading.Event().wait(chance.uniform(0, 0.03))
            try:
                rex.call("session/attach", session=name)
                self.assertEqual(rex.call("session/run", session=name, command="echo here")["output"], "here\n")
            except RpcError as error:
                self.assertIn(error.type, ("SessionNotFound", "SessionEnded"))
            rex.kill()
            del self._cleanups[-2:]
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual((self.left(), self.records()), ([], []))


class FarOffsets(LastingCase):
    """A session whose journal begins where nobody gets in the time of a test: $REX_TEST_FIRST_OFFSET."""

    def check(self, first, **options):
        self.environment["REX_TEST_FIRST_OFFSET"] = str(first)
        rex = self.instance()
        session = rex.session("main", shell="bash", lifetime="daemon", **options)
        self.assertEqual((session.info["oldest"], session.info["next"]), (first, first))
        text = "".join(f"{number}\n" for number in range(1, 3001))  # 13,893 bytes
        one = Attached(Feed(rex), "main", offset=first, window=4096)
        ran = session.run("seq 3000")
        end = first + len(text)
        self.assertEqual((ran["from"], ran["next"], ran["output"]), (first, end, text))
        one.until(lambda: one.next == end)
        self.assertEqual((one.data, one.gaps), (text.encode(), []))
        cut = session.run("seq 3000", maxOutputBytes=1000)
        self.assertEqual(cut["omitted"]["to"] - cut["omitted"]["from"], cut["omitted"]["bytes"])
        rest = session.call("read", offset=cut["omitted"]["from"], maxBytes=cut["omitted"]["bytes"])["data"]
        self.assertEqual(cut["output"][:cut["omitted"]["at"]] + rest + cut["output"][cut["omitted"]["at"]:], text)
        self.assertEqual(session.read_all(offset=first).decode(), text * 2)
        again = session.run("printf 'a\\033[31mb\\033[0mc\\r\\n'; echo found-it", expect=["found-.."])
        self.assertEqual(again["expect"]["from"], first + 2 * len(text) + len("a\033[31mb\033[0mc\r\n"))
        self.assertTrue(again["output"].startswith("abc"), again["output"])
        met = session.call("wait", any=[{"match": "3000\n", "from": end - 100}])
        self.assertEqual((met["met"], met["next"] <= end + len(text)), (0, True))
        self.assertEqual(session.call("wait", any=[{"bytes": end + 1}])["met"], 0)
        error = self.refused("OffsetGone", session.call, "read", offset=first - 1)
        self.assertEqual(error.data["oldest"], first)
        self.assertIn("found-it", "\n".join(line if isinstance(line, str) else json.dumps(line)
                                            for line in session.call("screen")["lines"]))
        rex.kill()
        rex = self.instance()
        late = Attached(Feed(rex), "main", offset=end - 7, window=4096)
        late.until(lambda: late.next >= end + len(text))
        self.assertEqual(late.data[:7 + len(text)], (text[-7:] + text).encode())
        self.assertEqual(self.command("logs", "--from", str(end), "main").stdout[:len(text)], text)

    def test_L14_across_2_to_the_32(self):
        self.check((1 << 32) - 5000)

    def test_L14_up_to_2_to_the_53(self):
        self.check((1 << 53) - 65536)

    def test_L14_a_small_journal_drops_across_2_to_the_32_and_says_what(self):
        first = (1 << 32) - 50_000
        self.environment["REX_TEST_FIRST_OFFSET"] = str(first)
        session = self.instance().session("main", shell="bash", lifetime="daemon", journalBytes=16384)
        session.run("seq 20000")
        text = "".join(f"{number}\n" for number in range(1, 20001)).encode()
        error = self.refused("OffsetGone", session.call, "read", offset=first)
        self.assertEqual(error.data["next"], first + len(text))
        self.assertLessEqual(error.data["next"] - error.data["oldest"], 16384)
        kept = session.read_all(offset=error.data["oldest"])
        self.assertEqual(kept, text[error.data["oldest"] - first:])

    @long_only
    def test_L14_four_gigabytes_for_real(self):
        """No hook: a program writes past 2^32."""
        rex = self.instance()
        argv = ["sh", "-c", f"head -c {(1 << 32) - 1000} /dev/zero; seq 1000; read x"]
        rex.call("session/create", session="main", argv=argv, tty=False, lifetime="daemon")
        text = "".join(f"{number}\n" for number in range(1, 1001))
        end = (1 << 32) - 1000 + len(text)
        waited = rex.call("session/wait", session="main", any=[{"bytes": end}])
        self.assertEqual(waited["met"], 0)
        self.assertEqual(rex.call("session/read", session="main", offset=end - len(text))["data"], text)


class Numbers:
    """A line for each number from 1 on, without end: compared as it comes, however much that is."""

    def __init__(self):
        self.next = 1
        self.text = b""

    def begins(self, data):
        while len(self.text) < len(data):
            self.text += b"".join(b"%d\n" % number for number in range(self.next, self.next + 10_000))
            self.next += 10_000
        same, self.text = self.text[:len(data)] == data, self.text[len(data):]
        return same


class FrontDies(LastingCase):
    """A stream that is read through one instance after the other, as each dies."""

    WINDOW = 16384

    def setUp(self):
        super().setUp()
        self.chance = random.Random(int(os.environ.get("REX_SEED", secrets.randbits(32))))
        self.healthy = dict(self.environment)
        rex = self.instance()
        rex.session("main", shell="dash", lifetime="daemon", journalBytes=1 << 20, onFull="block")
        rex.call("session/run", session="main", command="seq 1000000000", waitMs=0)
        rex.kill()
        self.numbers, self.offset = Numbers(), 0

    @staticmethod
    def way_on(rex):
        """Through $REX_HOPS more."""
        host = ""
        for _ in range(HOPS):
            rex.call("host/connect", name="hop", host=host, argv=[binary()])
            host = f"{host}/hop".lstrip("/")
        return host

    def read_until_it_dies(self, rex):
        """Takes what comes; how much that was."""
        begun = self.offset
        try:
            host = self.way_on(rex)
            one = Attached(Feed(rex), "main", host=host, offset=self.offset, window=self.WINDOW)
            while rex.process.poll() is None or not rex.notifications.empty():
                taken = len(one.data)
                try:
                    one.take(0.05)
                except queue.Empty:
                    continue
                self.assertEqual(one.gaps, [])
                self.assertTrue(self.numbers.begins(bytes(one.data[taken:])), f"another byte at {self.offset}")
                self.offset = one.next
                one.ack()
        except (RpcError, BrokenPipeError, ValueError):  # the front is gone
            pass
        rex.process.wait()
        for thread in rex._threads:  # pylint: disable=protected-access
            thread.join()
        rex.kill()
        return self.offset - begun

    def check_the_end(self, lives):
        self.environment = self.healthy
        rex = self.instance()
        one = Attached(Feed(rex), "main", offset=self.offset, window=self.WINDOW)
        one.until(lambda: len(one.data) > 1 << 20)
        self.assertTrue(self.numbers.begins(bytes(one.data)))
        self.assertGreater(sum(1 for life in lives if life), len(lives) // 4, "hardly any life has brought anything")
        [info] = rex.call("session/list")["sessions"]
        self.assertEqual((info["session"], info["state"]), ("main", "running"))
        rex.call("session/close", session="main", graceMs=100)

    @needs_faults
    def test_F12_at_numbered_writes_the_stream_is_whole(self):
        lives = []
        for _ in range(amount(20 if HOPS else 60, 10_000)):
            at = self.chance.randrange(1, 40 + 20 * HOPS)
            self.environment = with_faults(self.healthy, die_at=at)
            rex = self.instance(hops=0)
            lives.append(self.read_until_it_dies(rex))
            self.assertIn(rex.process.returncode, (98, 99), rex.diagnosis())
            self._cleanups.pop()  # of that instance: there are many
        self.check_the_end(lives)

    def test_F12_by_kill_9_the_stream_is_whole(self):
        lives = []
        for _ in range(amount(10, 300)):
            rex = self.instance(hops=0)
            killer = threading.Timer(self.chance.uniform(0.02, 0.2 + 0.1 * HOPS), rex.process.kill)
            killer.start()
            lives.append(self.read_until_it_dies(rex))
            killer.join()
            self._cleanups.pop()
        self.check_the_end(lives)


if __name__ == "__main__":
    unittest.main()
