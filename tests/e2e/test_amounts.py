"""Large amounts: sessions, descriptors, terminals, output. Bounds hold, counters are exact, and all is given back.

Must not know how anything is stored. Amounts are small on a push and the issue's own with REX_LONG=1.
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import random
import selectors
import signal
import socket
import subprocess
import time
import unittest

from rig import (
    LONG, Rex, RexCase, RpcError, amount, binary, descriptors, family, in_shells, is_sanitized, memory, needs, status_of,
    until, zombies,
)

MIB = 1 << 20
OWN = 5  # descriptors that an instance opens a moment after its first answer: the socket it is found by


def can(*command):
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def ptys(pid):
    """The terminals a process holds."""
    held = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            held += os.readlink(f"/proc/{pid}/fd/{fd}").startswith(("/dev/ptmx", "/dev/pts/"))
    return held


def wakings(pids):
    """How often these processes have slept and been woken."""
    return sum(int(status_of(pid).get("voluntary_ctxt_switches", 0)) for pid in pids)


def share_of_memory(pid):
    """In bytes: its own pages, and its part of those it shares."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])


class Sessions(RexCase):
    @staticmethod
    def all_at_most(bounds, values):
        return all(value <= bound for value, bound in zip(values, bounds))

    def create(self, rex, names, **options):
        """In crowds of fifty, so that no start has to wait for all the others."""
        for at in range(0, len(names), 50):
            calls = [rex.start("session/create", session=name, **options) for name in names[at:at + 50]]
            for call in calls:
                call.result()

    def test_a_thousand_sessions_are_served_and_all_they_took_is_given_back(self):
        rex, fresh = self.spawn(), 0
        pid, names = rex.pid, [f"n{number}" for number in range(amount(100, 1000))]
        for _ in range(2):  # what is kept after the first time is kept for the next
            rex.session("warm", shell="dash").call("close")
            fresh = fresh or memory(pid, "VmRSS")
            before = (descriptors(pid) + OWN, ptys(pid), len(family(pid)))
            self.create(rex, names, shell="dash")
            if LONG:
                for options in ({"shell": "dash"}, {"argv": ["cat"], "tty": False}):
                    error = self.refused("LimitExceeded", rex.call, "session/create", session="one more", **options)
                    self.assertEqual([error.data[name] for name in ("limit", "value", "max", "executed")],
                                     ["sessions", 1001, 1000, "no"])
            runs = [rex.start("session/run", session=name, command=f"echo {name}") for name in names]
            self.assertEqual([run.result()["output"] for run in runs], [f"{name}\n" for name in names])
            self.assertEqual(len(rex.call("session/list")["sessions"]), len(names))
            full = memory(pid, "VmRSS")
            closes = [rex.start("session/close", session=name) for name in names]
            self.assertEqual([close.result()["survivors"] for close in closes], [[]] * len(names))
            after = until(lambda: self.all_at_most(before, (descriptors(pid), ptys(pid), len(family(pid)))))
            self.assertTrue(after, (descriptors(pid), ptys(pid), len(family(pid)), before))
            self.assertEqual(zombies(pid), [])
        if not is_sanitized():
            self.assertLessEqual(memory(pid, "VmRSS"), full)
            self.assertLess(memory(pid, "VmRSS") - fresh, amount(4, 16) * MIB)

    def test_J1_many_sessions_on_one_connection_mix_nothing_up_while_one_floods(self):
        rex = self.spawn()
        names = [f"n{number}" for number in range(amount(20, 200))]
        self.create(rex, names, shell="dash")
        flood = rex.session("flood", shell="bash", journalBytes=MIB).start("run", command="yes")
        for turn in range(amount(5, 50)):
            runs = [rex.start("session/run", session=name, command=f"echo {name} {turn}") for name in names]
            self.assertIn("time", rex.call("ping"))
            self.assertEqual([run.result()["output"] for run in runs], [f"{name} {turn}\n" for name in names])
        self.assertFalse(flood.done())
        self.assertEqual(rex.call("session/interrupt", session="flood")["result"]["exitCode"], 130)

    def test_S25_sessions_that_come_and_go_quickly_leave_nothing(self):
        rex = self.spawn()
        pid = rex.pid

        def turnover(count):
            for number in range(count):
                rex.start("session/create", session=f"t{number}", shell="dash")
                rex.start("session/run", session=f"t{number}", command="echo x")
                close = rex.start("session/close", session=f"t{number}", graceMs=100)
                if number % 20 == 19:
                    close.result()
            self.assertTrue(until(lambda: rex.call("session/list")["sessions"] == []))

        turnover(20)
        before, resident = (descriptors(pid) + OWN, len(family(pid))), memory(pid, "VmRSS")
        turnover(amount(100, 5000))
        after = until(lambda: self.all_at_most(before, (descriptors(pid), len(family(pid)))))
        self.assertTrue(after, (descriptors(pid), len(family(pid)), before))
        if not is_sanitized():
            self.assertLess(memory(pid, "VmRSS") - resident, 4 * MIB)

    def test_our_descriptors_go_up_to_the_hard_limit_and_programs_keep_the_soft_one(self):
        rex = self.spawn(argv=["sh", "-c", f"ulimit -Sn 200; exec {binary()}"])
        self.create(rex, [f"n{number}" for number in range(40)], shell="dash")
        self.assertGreater(descriptors(rex.pid), 200)
        self.assertEqual(rex.call("session/run", session="n39", command="ulimit -Sn")["output"], "200\n")
        self.assertEqual(rex.call("process/run", command="ulimit -Sn")["stdout"], "200\n")

    @unittest.skipIf(is_sanitized(), "cannot run here: what a sanitizer checks takes a descriptor")
    def test_without_descriptors_left_a_start_is_refused_and_all_else_goes_on(self):
        rex = self.spawn(argv=["sh", "-c", f"ulimit -n 100; exec {binary()}"])
        first = rex.session("first", shell="dash")
        before, error = descriptors(rex.pid), None
        made = []
        while error is None and len(made) < 100:
            try:
                rex.call("session/create", session=f"n{len(made)}", shell="dash")
                made.append(f"n{len(made)}")
            except RpcError as refused:
                error = refused
        self.assertIsNotNone(error, "a hundred sessions in a hundred descriptors")
        self.assertEqual((error.type, error.data["name"], error.data["executed"]), ("OsError", "EMFILE", "no"), error)
        self.ended(first.run("echo on"), output="on\n")
        for name in made:
            self.ended(rex.call("session/run", session=name, command="echo on"), output="on\n")
            self.assertEqual(rex.call("session/close", session=name)["survivors"], [])
        given_back = until(lambda: descriptors(rex.pid) <= before + OWN)
        self.assertTrue(given_back, (descriptors(rex.pid), before))
        self.ended(rex.session("again", shell="dash").run("true"))

    def test_K08_deadlines_that_come_together_keep_nobody_out_who_asks_meanwhile(self):
        """All due while it is stopped. From the first answer to one of the many to the last, others are answered again and
        again."""
        run = self.folder / "run"
        run.mkdir(mode=0o700)
        rex = self.spawn(env={**os.environ, "XDG_RUNTIME_DIR": str(run)}, hops=0)
        place = until(lambda: next(run.glob("rex-rpc/[!.]*.sock"), None))
        rex.session("s", shell="dash")
        clients, each = amount(10, 101), 990
        begun = time.monotonic()
        due = begun + amount(2, 15)
        with selectors.DefaultSelector() as selector:
            for _ in range(clients):
                client = socket.socket(socket.AF_UNIX)
                self.addCleanup(client.close)
                client.connect(str(place))
                params = {"session": "s", "any": [{"bytes": 1}], "waitMs": int((due - time.monotonic()) * 1000)}
                wait = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "session/wait", "params": params})
                client.sendall("".join(f"{wait}\n".replace('"id": 0', f'"id": {number}') for number in range(each)).encode())
                client.sendall(b'{"jsonrpc":"2.0","id":"all","method":"ping"}\n')
                self.assertIn(b'"all"', client.recv(4096))
                selector.register(client, selectors.EVENT_READ)
            late = time.monotonic() - begun  # at most: each waits from when it is read
            os.kill(rex.pid, signal.SIGSTOP)
            self.assertTrue(until(lambda: time.monotonic() > due + late, 120))
            os.kill(rex.pid, signal.SIGCONT)
            answered, turns, longest = 0, 0, 0.0
            while answered < clients * each:
                asked = time.monotonic()
                rex.call("ping")
                if answered:
                    turns, longest = turns + 1, max(longest, time.monotonic() - asked)
                for key, _ in selector.select(timeout=0):
                    answered += key.fileobj.recv(1 << 20).count(b"\n")
        print(f"{turns} others were answered meanwhile, each within {longest * 1000:.0f} ms", end=" ", flush=True)
        self.assertGreater(turns, 3)  # it is none or one where all are seen to at once

    @needs("unshare", "mount", "setpriv")
    @unittest.skipUnless(can("unshare", "-m", "true"), "cannot run here: no mount namespace may be made")
    def test_E13_where_no_terminal_may_be_made_the_reason_is_told_and_pipes_work(self):
        """As somebody for whom /dev/ptmx is closed, and where what is there is none."""
        (self.folder / "closed").touch(mode=0)
        self.folder.chmod(0o755)
        user = "setpriv --reuid=65531 --regid=65531 --clear-groups"
        for ptmx, program, name in ((self.folder / "closed", f"{user} {binary()}", "EACCES"),
                                    ("/dev/null", binary(), "EINVAL")):
            with self.subTest(name):
                rex = self.spawn(argv=["unshare", "-m", "sh", "-c", f"mount --bind {ptmx} /dev/ptmx && exec {program}"],
                                 cwd="/")
                error = self.refused("OsError", rex.call, "session/create", session="s", shell="dash")
                self.assertEqual([error.data[key] for key in ("name", "path", "executed")], [name, "/dev/ptmx", "no"])
                self.assertIn("tty: false", error.message)
                self.assertEqual(rex.call("process/run", command="echo hi")["stdout"], "hi\n")
                pipes = rex.session("s", argv=["cat"], tty=False)
                pipes.call("write", data="x\n")
                self.assertEqual(pipes.call("wait", any=[{"match": "x"}], waitMs=10_000)["met"], 0)

    def test_J2_idle_sessions_wake_nobody_and_take_little(self):
        rex, count = self.spawn(), amount(50, 500)
        names = [f"n{number}" for number in range(count)]
        self.create(rex, names, shell="dash")
        for name in names:
            self.ended(rex.call("session/run", session=name, command="true"))
        pids = [rex.pid, *family(rex.pid)]

        def at_rest():
            before = wakings(pids)
            rex.call("session/wait", session=names[0], any=[{"match": "never"}], waitMs=500)
            return wakings(pids) - before <= 8  # that call's own

        self.assertTrue(until(at_rest, 20), "idle sessions wake somebody")
        if not is_sanitized():
            self.assertLess(sum(map(share_of_memory, pids)), 10 * MIB + count * MIB // 2)

    @needs("setpriv")
    @unittest.skipIf(is_sanitized(), "cannot run here: a sanitizer takes more memory than the program")
    def test_J9_an_instance_for_each_of_many_users_fits_into_a_small_machine(self):
        """A hundred of them in a gigabyte, each with a session that has run something."""
        users, took = amount(8, 100), 0
        for user in range(users):
            own = ["setpriv", f"--reuid={62000 + user}", f"--regid={62000 + user}", "--clear-groups"]
            rex = self.spawn(argv=[*(own if os.getuid() == 0 else []), binary()], cwd="/")
            self.ended(rex.session("main").run("seq 100000; cat /proc/self/status"))
            took += sum(share_of_memory(pid) for pid in [rex.process.pid, *family(rex.process.pid)])
        self.assertLess(took / users, 10 * MIB)

    @needs("unshare", "mount")
    @unittest.skipUnless(can("unshare", "-m", "true"), "cannot run here: no mount namespace may be made")
    def test_L04_without_terminals_left_a_start_is_refused_and_sessions_on_pipes_are_not(self):
        """In a devpts of its own, which has eight."""
        mount = ("mount -t devpts -o newinstance,ptmxmode=0666,max=8 devpts /dev/pts && "
                 f"mount --bind /dev/pts/ptmx /dev/ptmx && exec {binary()}")
        rex = self.spawn(argv=["unshare", "-m", "sh", "-c", mount])
        self.create(rex, [f"n{number}" for number in range(8)], shell="dash")
        error = self.refused("LimitExceeded", rex.call, "session/create", session="more", shell="dash")
        self.assertEqual((error.data["limit"], error.data["executed"]), ("pty", "no"))
        pipes = rex.session("pipes", argv=["cat"], tty=False)
        pipes.call("write", data="x\n")
        self.assertEqual(pipes.call("wait", any=[{"match": "x"}], waitMs=10_000)["met"], 0)
        self.ended(rex.call("session/run", session="n0", command="echo on"), output="on\n")
        rex.call("session/close", session="n7")
        self.ended(rex.session("more", shell="dash").run("true"))


class Journals(RexCase):
    def digest(self, session, offset, end):
        whole = hashlib.sha256()
        while offset < end:
            piece = session.call("read", offset=offset, maxBytes=MIB, encoding="base64")
            data = base64.b64decode(piece["data"])[:end - offset]
            whole.update(data)
            offset += len(data)
        return whole.hexdigest()

    @in_shells("bash")
    def test_C3_L02_a_gigabyte_costs_flat_memory_and_its_counters_and_ranges_are_exact(self, _):
        size = amount(24, 1024) * MIB
        rex = self.spawn()
        session = self.fresh(rex=rex, journalBytes=amount(16, 256) * MIB)
        source = "import os, random\nb = random.Random(7).randbytes(1 << 20)\n"
        (self.folder / "out.py").write_text(f"{source}for _ in range({size >> 20}): os.write(1, b)\n")
        session.run("true")
        before = memory(rex.pid, "VmHWM")
        result = self.ended(session.run(f"python3 {self.folder}/out.py", view="raw"), totalBytes=size)
        self.assertEqual(result["next"] - result["from"], size)
        self.assertEqual(result["omitted"]["bytes"], result["omitted"]["to"] - result["omitted"]["from"])
        if not is_sanitized():
            self.assertLess(memory(rex.pid, "VmHWM") - before, 8 * MIB)
        info = session.call("info")
        self.assertEqual(info["next"] - info["oldest"], amount(16, 256) * MIB)
        block = random.Random(7).randbytes(MIB)
        expected, at, end = hashlib.sha256(), info["oldest"] - result["from"], size
        while at < end:
            expected.update(block[at % MIB:])
            at += MIB - at % MIB
        self.assertEqual(self.digest(session, info["oldest"], info["next"]), expected.hexdigest())
        self.refused("OffsetGone", session.call, "read", offset=info["oldest"] - 1)
        if not is_sanitized():  # an answer of a megabyte is some megabytes more
            self.assertLess(memory(rex.pid, "VmHWM") - before, 20 * MIB)

    def test_the_memory_of_all_journals_together_is_bounded_and_no_byte_is_lost_by_it(self):
        """Each of these would keep a megabyte in memory, were it alone."""
        bound, count, size = amount(2, 64) * MIB, amount(10, 200), 1_500_000
        rex = self.spawn(argv=[binary(), "--journal-memory", str(bound)])
        self.assertEqual(rex.call("initialize")["limits"]["journalMemoryBytes"], bound)
        pid, sessions = rex.pid, [self.fresh("dash", rex=rex) for _ in range(count)]
        before = memory(pid, "VmRSS")
        quiet = {"view": "raw", "maxOutputBytes": 100}
        command = f"head -c {size} /dev/zero | tr '\\0' z"
        calls = [session.start("run", command=command, **quiet) for session in sessions]
        for call in calls:
            self.ended(call.result(), totalBytes=size)
        if not is_sanitized():
            self.assertLess(memory(pid, "VmRSS") - before, bound + count * 32 * 1024 + 2 * MIB)
        for session in (sessions[0], sessions[-1]):
            self.assertEqual(session.read_all(maxBytes=8 * MIB), b"z" * size)

    @needs("unshare", "mount")
    @unittest.skipUnless(can("unshare", "-m", "true"), "cannot run here: no mount namespace may be made")
    def test_C15_L05_a_full_disk_costs_history_never_output_and_is_told(self):
        """TMPDIR is a file system of sixteen megabytes."""
        folder = self.folder / "small"
        folder.mkdir()
        rex = self.spawn(argv=["unshare", "-m", "sh", "-c",
                               f"mount -t tmpfs -o size=16m none {folder} && TMPDIR={folder} exec {binary()}"])
        session = self.fresh("bash", rex=rex)
        self.assertNotIn("journalError", session.info)
        result = self.ended(session.run("seq 1 4000000; echo over"))
        self.assertTrue(result["output"].endswith("4000000\nover\n"))
        self.assertEqual(result["next"] - result["from"], result["totalBytes"])
        info = session.call("info")
        self.assertEqual(info["journalError"], "ENOSPC")
        self.assertGreater(info["oldest"], 0)
        self.assertLessEqual(info["next"] - info["oldest"], MIB)
        self.refused("OffsetGone", session.call, "read", offset=info["oldest"] - 1)
        tail = session.read_all(info["oldest"])
        self.assertTrue(tail.endswith(b"\n3999999\n4000000\nover\n"))
        self.assertEqual(info["oldest"] + len(tail), info["next"])
        self.usable(session)
        self.usable(self.fresh("dash", rex=rex))

    def test_a_journals_file_is_never_seen_and_only_there_when_it_is_needed(self):
        place = self.folder / "spool"
        place.mkdir()
        rex = self.spawn(env={**os.environ, "TMPDIR": str(place)})
        session = self.fresh("bash", rex=rex)

        def spools():
            found = []
            for link in pathlib.Path(f"/proc/{rex.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                    found += [link] if os.readlink(link).startswith(str(place)) else []
            return found

        session.run("head -c 500000 /dev/zero | tr '\\0' x")
        self.assertEqual(spools(), [])
        session.run("head -c 5000000 /dev/zero | tr '\\0' x")
        self.assertEqual([link.stat().st_mode & 0o777 for link in spools()], [0o600])
        self.assertTrue(os.readlink(spools()[0]).endswith(" (deleted)"))
        self.assertEqual(list(place.iterdir()), [])
        session.call("close")
        self.assertTrue(until(lambda: spools() == []))

    def test_C16_output_outlives_its_job_and_the_kill(self):
        for session in (self.fresh(None, argv=["sh", "-c", "seq 1 300000; kill -9 $$"]),
                        self.fresh(None, argv=["sh", "-c", "seq 1 300000; kill -9 $$"], tty=False)):
            session.call("wait", any=[{"exit": True}], waitMs=60_000)
            lines = session.read_all(maxBytes=4 * MIB).split()
            self.assertEqual((len(lines), lines[-1]), (300_000, b"300000"))


if __name__ == "__main__":
    unittest.main()
