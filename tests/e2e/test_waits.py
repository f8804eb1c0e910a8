"""Waiting: for text, silence, an end, a port or a file, each told by the server and none missed between two calls.

Must not know how a condition is watched. Times are far apart, so that what ended a call is known without a clock.
"""

import base64
import os
import socket
import unittest

from rig import Rex, RexCase, amount, binary, descriptors, in_shells, needs, subprocess, until

LONG_MS = 60_000  # nothing that works waits for it
SERVER = "import socket, time; s = socket.create_server(('{host}', {port}), family=socket.{family}); time.sleep(1000)"


def free_port(family=socket.AF_INET):
    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as server:
        return server.getsockname()[1]


def server(port, host="127.0.0.1", family="AF_INET"):
    return f"python3 -c \"{SERVER.format(port=port, host=host, family=family)}\""


class ThreeTimes(RexCase):
    """waitMs: this call. timeoutMs: the job's life. quietMs: its silence."""

    def test_each_of_the_three_times_ends_what_it_is_about_and_nothing_else(self):
        silent, chatty, brief = "sleep 1000", "while :; do echo x; sleep 0.01; done", "sleep 0.2; echo over"
        table = [  # command, waitMs, quietMs, timeoutMs -> how the call ends, how the job has ended then
            (silent, 50, None, None, "running", None),
            (silent, None, 50, None, "running", None),
            (silent, None, None, 50, "timedOut", "timedOut"),
            (silent, 50, LONG_MS, LONG_MS, "running", None),
            (silent, LONG_MS, 50, LONG_MS, "running", None),
            (silent, LONG_MS, LONG_MS, 50, "timedOut", "timedOut"),
            (silent, 50, None, 600, "running", "timedOut"),
            (silent, None, 50, 600, "running", "timedOut"),
            (chatty, 300, 5000, None, "running", None),
            (chatty, None, 5000, 300, "timedOut", "timedOut"),
            (brief, LONG_MS, None, None, "exited", "exited"),
            (brief, None, LONG_MS, LONG_MS, "exited", "exited"),
            (brief, 0, None, None, "running", "exited"),
            (brief, 0, 1, LONG_MS, "running", "exited"),
        ]
        calls = []
        for command, wait, quiet, timeout, *expected in table:
            given = {"waitMs": wait, "quietMs": quiet, "timeoutMs": timeout}
            given = {name: value for name, value in given.items() if value is not None}
            session = self.fresh("dash")
            calls.append((given, expected, session, session.start("run", command=command, **given)))
        for given, (answer, end), session, call in calls:
            with self.subTest(**given):
                self.result(call.result(), state=answer)
                if end:
                    waited = session.call("wait", any=[{"exit": True}], waitMs=LONG_MS)
                    self.assertEqual((waited["met"], waited["result"]["state"]), (0, end))
                else:
                    self.assertEqual(session.call("info")["state"], "running")
                    session.call("interrupt", escalate=True)
                self.usable(session)

    @in_shells()
    def test_silence_is_counted_from_the_last_output_or_the_jobs_beginning(self, session):
        session.run("echo one; sleep 1000", waitMs=100)
        self.assertEqual(session.call("wait", any=[{"quietMs": 50}, {"exit": True}], waitMs=LONG_MS)["met"], 0)
        self.assertEqual(session.call("wait", any=[{"quietMs": LONG_MS}], waitMs=50)["met"], None)
        self.assertEqual(session.call("wait", any=[{"quietMs": 1}], waitMs=0)["met"], 0)


class Text(RexCase):
    @in_shells()
    def test_C18_each_text_is_met_once_from_call_to_call_and_none_is_missed(self, session):
        count = amount(300, 5000)
        loop = f"i=0; while [ $i -lt {count} ]; do i=$((i+1)); printf 'mark %s;\\n' $i; done"
        call = session.start("run", command=loop)
        at = 0
        for number in range(1, count + 1):
            waited = session.call("wait", any=[{"match": r"mark \d+;"}], **{"from": at}, waitMs=LONG_MS)
            self.assertEqual(waited["result"]["expect"]["text"], f"mark {number};")
            at = waited["next"]
        self.assertEqual(session.call("wait", any=[{"match": "mark"}, {"exit": True}], **{"from": at})["met"], 1)
        self.ended(call.result())

    @in_shells()
    def test_a_text_of_before_the_call_is_met_at_once_and_the_first_condition_wins(self, session):
        session.run("echo alpha; echo beta")
        waited = session.call("wait", any=[{"match": "gamma"}, {"match": "beta"}, {"match": "alpha"}, {"exit": True}])
        self.assertEqual((waited["met"], waited["condition"]["match"]), (1, "beta"))
        end = session.call("info")["next"]
        self.assertEqual(session.call("wait", any=[{"bytes": end}], waitMs=0)["met"], 0)
        self.assertEqual(session.call("wait", any=[{"bytes": end + 1}], waitMs=0)["met"], None)
        later = session.start("wait", any=[{"bytes": end + 10}])
        session.run("echo 123456789")
        self.assertEqual(later.result()["met"], 0)


class Ports(RexCase):
    def test_A3_a_port_is_met_when_a_process_of_this_session_listens_on_it(self):
        for family, host in (("AF_INET", "127.0.0.1"), ("AF_INET", "0.0.0.0"), ("AF_INET6", "::1")):
            with self.subTest(host=host):
                try:
                    port = free_port(getattr(socket, family))
                except OSError as error:
                    self.skipTest(f"cannot run here: {host}: {error}")
                mine, other = self.fresh("dash"), self.fresh("bash")
                waited = mine.start("wait", any=[{"listening": port}])
                self.assertEqual(mine.call("wait", any=[{"listening": port}], waitMs=0)["met"], None)
                started = mine.run(f"nohup setsid {server(port, host, family)} >/dev/null 2>&1 & echo started")
                self.ended(started)
                self.assertTrue(started["survivors"])
                self.assertEqual(waited.result()["met"], 0)
                self.assertEqual(mine.call("wait", any=[{"listening": port}], waitMs=0)["met"], 0)
                self.assertEqual(other.call("wait", any=[{"listening": port}], waitMs=300)["met"], None)
                self.assertEqual(mine.call("close")["survivors"], [])

    @needs("unshare", "ip")
    def test_a_port_in_a_network_of_its_own_is_seen_there(self):
        if subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
            self.skipTest("cannot run here: no network namespace may be made")
        port = free_port()
        session, script = self.fresh("dash"), self.folder / "server"
        script.write_text(f"ip link set lo up\nexec {server(port)}\n")
        session.start("run", command=f"unshare -n sh {script}")
        self.assertEqual(session.call("wait", any=[{"listening": port}], waitMs=LONG_MS)["met"], 0)

    def test_a_connection_on_the_port_is_no_listener(self):
        session = self.fresh("dash")
        with socket.create_server(("127.0.0.1", 0)) as own:
            port = own.getsockname()[1]
            dial = f"import socket as s, time; c = s.create_connection(('localhost', {port})); print('in'); time.sleep(9)"
            session.start("run", command=f"python3 -uc \"{dial}\"")
            self.assertEqual(session.call("wait", any=[{"match": "in"}], waitMs=LONG_MS)["met"], 0)
            self.assertEqual(session.call("wait", any=[{"listening": port}], waitMs=300)["met"], None)


class Files(RexCase):
    def waiting(self, session, condition):
        """A wait that is sure to have looked once: a second one, begun later, has been answered."""
        call = session.start("wait", any=[condition])
        session.call("wait", any=[{**condition, "changed": False}], waitMs=0)
        self.assertFalse(call.done())
        return call

    def test_a_file_is_met_once_it_is_there_in_folders_that_were_not(self):
        session, path = self.fresh("dash"), self.folder / "a" / "b" / "file"
        self.assertEqual(session.call("wait", any=[{"file": str(path)}], waitMs=0)["met"], None)
        call = self.waiting(session, {"file": str(path)})
        path.parent.mkdir(parents=True)
        path.touch()
        self.assertEqual(call.result()["condition"]["file"], str(path))
        self.assertEqual(session.call("wait", any=[{"file": str(path)}], waitMs=0)["met"], 0)

    def test_a_relative_path_is_taken_from_where_the_session_is(self):
        session = self.fresh("bash")
        session.run(f"cd {self.folder}")
        call = self.waiting(session, {"file": "here"})
        session.run("echo x >here")
        self.assertEqual(call.result()["met"], 0)

    def test_a_name_of_any_bytes_can_be_waited_for(self):
        session, name = self.fresh("dash"), os.fsencode(self.folder) + b"/n\xff\n"
        call = session.start("wait", any=[{"fileBytes": base64.b64encode(name).decode()}])
        with open(name, "wb"):
            pass
        self.assertEqual(base64.b64decode(call.result()["condition"]["fileBytes"]), name)

    def test_a_change_is_met_only_after_the_wait_began(self):
        def replace(path):
            (self.folder / "new").write_text("12345")
            (self.folder / "new").rename(path)

        def remove_and_write(path):
            path.unlink()
            path.write_text("12345")

        def write_the_same(path):
            with path.open("r+") as file:
                file.write("12345")

        def behind_a_link(path):
            (self.folder / "target").write_text("other")

        session = self.fresh("dash")
        for change in (replace, remove_and_write, write_the_same, behind_a_link, lambda path: os.utime(path)):
            with self.subTest(change=change.__name__):
                path = self.folder / f"{change.__name__.strip('<>')}"
                if change is behind_a_link:
                    (self.folder / "target").write_text("12345")
                    path.symlink_to(self.folder / "target")
                else:
                    path.write_text("12345")
                os.utime(path, (0, 0))
                call = self.waiting(session, {"file": str(path), "changed": True})
                change(path)
                self.assertEqual(call.result()["met"], 0)

    def test_a_file_that_goes_is_not_there_and_comes_back_changed(self):
        session, path = self.fresh("dash"), self.folder / "file"
        path.write_text("x")
        call = self.waiting(session, {"file": str(path), "changed": True})
        path.unlink()
        self.assertEqual(session.call("wait", any=[{"file": str(path)}], waitMs=0)["met"], None)
        self.assertFalse(call.done())
        path.write_text("x")
        self.assertEqual(call.result()["met"], 0)

    @needs("setpriv")
    def test_more_waits_than_the_user_has_watches_are_all_met(self):
        """inotify has 128 instances a user; beyond them a file is looked at now and then."""
        rex = Rex(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", binary()] if os.getuid() == 0
                  else [binary()], cwd="/")
        self.addCleanup(rex.kill)
        os.chmod(self.folder, 0o755)
        session, path = rex.session("main", shell="dash"), self.folder / "file"
        calls = [session.start("wait", any=[{"file": str(path)}]) for _ in range(200)]
        session.call("info")
        before = descriptors(rex.pid)
        self.assertGreater(before, 100)
        path.touch()
        self.assertEqual([call.result()["met"] for call in calls], [0] * len(calls))
        self.assertTrue(until(lambda: descriptors(rex.pid) < before - 100), "watches are left")
        rex.close()

    def test_a_wait_that_is_cancelled_or_whose_session_closes_lets_go(self):
        rex = self.spawn(argv=[binary(), "--private"])  # or the instance's socket would be one more after a moment
        session = rex.session("main", shell="dash")
        files = descriptors(rex.pid)
        cancelled = session.start("wait", any=[{"file": str(self.folder / "never")}, {"listening": 1}])
        session.call("info")
        rex.notify("$/cancelRequest", id=cancelled.id)
        self.refused("RequestCancelled", cancelled.result)
        self.assertTrue(until(lambda: descriptors(rex.pid) <= files), "not let go")
        closed = session.start("wait", any=[{"file": str(self.folder / "never")}, {"listening": 1}])
        session.call("close")
        self.assertIsNone(closed.result()["met"])
        self.assertTrue(until(lambda: descriptors(rex.pid) < files), "not let go")


if __name__ == "__main__":
    unittest.main()
