"""M06, F7: this version and an older one work together, in front, behind and between, and one takes over from the other.

$REX_OLDER is the older program; `./dev test --long` makes one. What only one of the two knows is told by name as no member
of the other's; all else is as among equals. Must not know what has changed between them.
"""

import functools
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

from relay_world import told
from rig import binary, kill_quietly, until
from test_copy import described
from test_daemon import DaemonCase
from test_forwards import Echo, all_of, call_at
from test_heal import HealCase
from test_watch import Watched
from watching import Attached, Feed, Peer

OLDER = os.path.abspath(os.environ["REX_OLDER"]) if os.environ.get("REX_OLDER") else ""
BOTH_WAYS = (("older", "newer"), ("newer", "older"))
CHAINS = [chain for length in (2, 3) for chain in itertools.product(("older", "newer"), repeat=length)
          if len(set(chain)) == 2]
LINKS = [(front, *way) for front in ("newer", "older") for way in BOTH_WAYS]  # who links, to whom first, to whom then


def program(version):
    return OLDER if version == "older" else os.path.abspath(binary())


@functools.cache
def methods_of(version):
    """{method: names of its params}, as the program itself says."""
    said = subprocess.run([program(version), "schema"], capture_output=True, check=True, timeout=60).stdout
    schema = json.loads(said)
    shared = schema["components"]["contentDescriptors"]
    return {row["name"]: {each.get("name") or shared[each["$ref"].rsplit("/", 1)[1]]["name"] for each in row["params"]}
            for row in schema["methods"]}


def for_each(table):
    """Runs the test once a row of versions, which are its arguments, each time with a folder of its own: `place`."""

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for row in table:
                with self.subTest(" -> ".join(row)):
                    self.place = self.folder / "-".join(row)
                    self.place.mkdir()
                    test(self, *row)

        return run

    return decorate


@unittest.skipUnless(OLDER, "long: set REX_OLDER to the program of an older version; ./dev test --long makes one")
class VersionsCase(DaemonCase):
    def of(self, version, **options):
        return self.instance(argv=[program(version)], **options)

    def chain(self, *versions):
        """An instance of the first and those of the others behind it, each a program of the one before; requests go to
        the last of them."""
        rex = self.of(versions[0])
        for number, version in enumerate(versions[1:]):
            rex.call("host/connect", host=rex.host, name=f"h{number}", argv=[program(version)])
            rex.host = f"{rex.host}/h{number}".lstrip("/")
        return rex

    def asked(self, executing, call, method, member, **params):
        """The answer to a request with a member that the version that executes it may not know; None where it is refused
        for that, by name, and was not done."""
        if member in methods_of(executing)[method]:
            return call(method, **params)
        refused = self.refused("InvalidParams", call, method, **params)
        self.assertEqual((refused.data["member"], refused.data["executed"]), (member, "no"), refused)
        return None

    def gate(self):
        path = self.place / "gate"
        os.mkfifo(path)
        return path

    def words(self, version, *words):
        return subprocess.run([program(version), *words], capture_output=True, text=True, env=self.environment, check=False,
                              timeout=60)

    def served(self, version, path):
        """`serve --listen` of a version, and a connection to it."""
        process = subprocess.Popen([program(version), "--private", "serve", "--listen", f"unix:{path}"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(process.wait)
        self.addCleanup(kill_quietly, process.pid)
        return process, self.reached(path)

    def reached(self, path):
        def peer():
            try:
                return Peer(path)
            except OSError:
                return None

        found = until(peer)
        self.assertTrue(found, "nobody listens there")
        self.addCleanup(found.close)
        return found


class Positions(VersionsCase):
    """Each version in front of, between and behind instances of the other."""

    @for_each(CHAINS)
    def test_M06_sessions_are_as_among_equals(self, *chain):
        rex = self.chain(*chain)
        session = rex.session("own", shell="bash", cwd=str(self.place), env={"GIVEN": "yes"}, labels={"of": "me"})
        self.assertEqual((session.info["host"], session.info["labels"]), ("", {"of": "me"}))  # as seen from there
        self.ended(session.run("echo $GIVEN; pwd; (exit 3)"), 3, output=f"yes\n{self.place}\n")
        session.run("echo live", progressToken="token")
        self.assertEqual(told(rex, "$/progress", token="token")["host"], "")
        session.run("cat")
        self.result(session.run("hello", interactive=True), state="waitingInput", output="hello\n")
        session.call("interrupt")
        job = session.start("run", command="sleep 1000")
        self.assertTrue(until(lambda: session.call("info")["job"]))
        rex.notify("$/cancelRequest", id=job.id, stop=True)
        self.refused("RequestCancelled", job.result)
        self.ended(session.run("echo usable"), output="usable\n")
        self.assertEqual([info["session"] for info in rex.call("session/list")["sessions"]], ["own"])
        self.assertIn("usable", [line.strip() for line in session.call("screen")["lines"]])
        gone = self.refused("SessionNotFound", rex.call, "session/info", session="nothing")
        self.assertEqual(gone.data["executed"], "no")
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])

    @for_each(CHAINS)
    def test_M06_output_and_events_are_followed(self, *chain):
        rex = self.chain(*chain)
        session = rex.session("own", shell="bash")
        feed = Feed(rex)
        one = Attached(feed, "own", offset=0, window=65536)
        session.run("seq 200000", waitMs=0)
        everything = b"".join(b"%d\n" % number for number in range(1, 200001))
        one.until(lambda: one.next >= len(everything))
        self.assertEqual(one.data, everything)
        one.event("jobEnded")
        one.detach()
        tail = Attached(feed, "own", offset=len(everything) - 7)
        self.assertEqual(tail.until(lambda: tail.data).data, b"200000\n")
        self.assertEqual(session.read_all(), everything)
        waited = session.call("wait", any=[{"match": "^199999$", "from": 0}])
        self.assertEqual((waited["met"], waited["next"]), (0, len(everything) - 8))

    @for_each(CHAINS)
    def test_M06_programs_and_files_are_as_among_equals(self, *chain):
        rex = self.chain(*chain)
        done = rex.call("process/run", command="cat; echo bad >&2; exit 4", stdin="given")
        self.assertEqual((done["stdout"], done["stderr"], done["exitCode"]), ("given", "bad\n", 4))
        path = self.place / "file"
        watched = Watched(rex, self.place)
        written = rex.call("file/write", path=str(path), data="one\ntwo\n")
        self.assertEqual(watched.take()["host"], "")
        rex.call("file/edit", path=str(path), edits=[{"old": "two", "new": "three"}], ifMatch=written["etag"])
        self.assertEqual(rex.call("file/read", path=str(path))["data"], "one\nthree\n")
        self.assertEqual(rex.call("file/stat", path=str(path))["size"], 10)
        self.assertEqual([each["name"] for each in rex.call("file/list", path=str(self.place))["entries"]], ["file"])
        self.assertEqual(len(rex.call("file/search", path=str(self.place), pattern="thr..")["matches"]), 1)
        conflict = self.refused("Conflict", rex.call, "file/write", path=str(path), data="x", ifMatch=written["etag"])
        self.assertIn("etag", conflict.data)
        rex.call("file/unwatch", attachment=watched.id)

    @for_each(CHAINS)
    def test_M06_trees_are_copied_both_ways(self, *chain):
        rex = self.chain(*chain)
        source = self.place / "source"
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "random").write_bytes(os.urandom(3 << 20))
        (source / "tool").write_text("#!/bin/sh\n")
        (source / "tool").chmod(0o751)
        (source / "link").symlink_to("tool")
        ends = [(("", chain[0]), (rex.host, chain[-1])), ((rex.host, chain[-1]), ("", chain[0]))]
        for (here, sends), (there, receives) in ends:
            to = self.place / f"from-{sends}-{receives}-{here.replace('/', '-')}"
            copy = functools.partial(rex.call, host="", **{"from": {"host": here, "path": str(source)},
                                                           "to": {"host": there, "path": str(to)}}, recursive=True)
            done = copy("file/copy")
            self.assertEqual(described(to), described(source))
            if all("resume" in methods_of(version)["file/copy"] for version in {chain[0], chain[-1]}):
                self.assertEqual(copy("file/copy", resume=True)["kept"], done["bytes"])
            else:
                refused = self.refused("InvalidParams", copy, "file/copy", resume=True)
                self.assertEqual(refused.data["member"], "resume", refused)
            self.assertEqual(described(to), described(source))

    @for_each(CHAINS)
    def test_M06_forwards_carry_both_ways(self, *chain):
        echo = Echo(self)
        sent = os.urandom(1 << 20)
        rex = self.chain(*chain)
        for listens, connects in (("", rex.host), (rex.host, "")):
            opened = rex.call("forward/open", host="", listen={"host": listens, "address": "tcp:127.0.0.1:0"},
                              connect={"host": connects, "address": echo.address})
            with call_at(opened["address"]) as caller:
                self.assertEqual(self.echoed(caller, sent), sent)

    @staticmethod
    def echoed(caller, sent):
        """What comes back; little enough is sent at a time that nobody waits for the other to read."""
        received = b""
        for begin in range(0, len(sent), 65536):
            piece = sent[begin:begin + 65536]
            caller.sendall(piece)
            while len(received) < begin + len(piece):
                received += caller.recv(65536)
        caller.shutdown(socket.SHUT_WR)
        return received + all_of(caller)

    @for_each(CHAINS)
    def test_M06_what_only_one_knows_is_refused_by_name_wherever_it_is_asked_for(self, *chain):
        rex = self.chain(*chain)
        for _ in range(2):
            self.asked(chain[-1], rex.call, "file/write", "key", path=str(self.place / "log"), data="line\n", append=True,
                       key={"client": self.id() + "-".join(chain), "seq": 1})
        lines = ["line\n"] if "key" in methods_of(chain[-1])["file/write"] else []
        self.assertEqual([path.read_text() for path in self.place.glob("log")], lines)
        unknown = self.refused("InvalidParams", rex.call, "file/stat", path="/", fromTheFuture=1)
        self.assertEqual(unknown.data["member"], "fromTheFuture")
        self.refused("MethodNotFound", rex.call, "session/fromTheFuture", session="own")

    @for_each(BOTH_WAYS)
    def test_M06_the_commands_of_one_reach_the_instances_of_the_other(self, front, behind):
        self.served(behind, self.place / "sock")
        at = ("--connect", f"unix:{self.place}/sock")
        done = self.words(front, "run", *at, "echo there; exit 9")
        self.assertEqual((done.returncode, done.stdout), (9, "there\n"), done)
        with Peer(self.place / "sock") as peer:
            session = peer.session("watched", shell="bash")
            session.run("echo seen")
            self.assertIn("watched", self.words(front, "sessions", *at).stdout)
            self.assertEqual(self.words(front, "logs", *at, "watched").stdout, "seen\n")
            self.assertEqual(self.words(front, "kill", *at, "watched").returncode, 0)

    @for_each(BOTH_WAYS)
    def test_M06_the_python_client_of_one_speaks_to_the_other(self, client, server):
        clients = {"newer": pathlib.Path(__file__).resolve().parents[2], "older": pathlib.Path(OLDER).parent.parent.parent}
        script = """if True:
            from rex_rpc import Rex
            with Rex() as rex:
                with rex.session("own", shell="bash") as session:
                    print(session.run("echo hello; exit 3")["exitCode"])
                with rex.session("main", shell="bash") as session:
                    session.run("echo told")
                    print(next(iter(session.output(offset=0))).text, end="")
        """
        path = clients[client] / "clients" / "python"
        if not path.exists():
            self.skipTest(f"no Python client of that version at {path}")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60,
                              env={**self.environment, "REX_RPC": program(server), "PYTHONPATH": str(path)})
        self.assertEqual((done.returncode, done.stdout), (0, "3\ntold\n"), done)


class Upgrades(VersionsCase):
    """One takes over from the other; as an upgrade must be taken back at times, both ways."""

    @for_each(BOTH_WAYS)
    def test_M06_a_session_that_one_keeps_is_served_by_the_other(self, keeps, serves):
        gate, name = self.gate(), f"kept-by-{keeps}"
        first = self.of(keeps)
        session = first.session(name, shell="bash", lifetime="daemon", labels={"of": "me"})
        key = {"client": self.id() + keeps, "seq": 1}
        command = f"echo ran >>{self.place}/count; echo counted"
        before = self.asked(keeps, first.call, "session/run", "key", session=name, command=command, key=key)
        begun = session.call("info")["next"]
        job = session.run(f"seq 20000; read x <{gate}; seq 20001 40000; (exit 7)", waitMs=0)["job"]
        session.call("wait", any=[{"bytes": begun + 3}])
        first.kill()

        rex = self.of(serves)
        [info] = rex.call("session/list")["sessions"]
        self.assertEqual((info["session"], info["labels"], info["job"]), (name, {"of": "me"}, job))
        self.assertIn(f"daemon/{name}", self.words(serves, "sessions").stdout)
        session = type(session)(rex, name, info)
        one = Attached(Feed(rex), name, offset=begun + 3)
        self.pass_gate(gate)
        waited = session.call("wait", job=job, any=[{"exit": True}])
        self.assertEqual((waited["met"], waited["result"]["exitCode"]), (0, 7))
        everything = b"".join(b"%d\n" % number for number in range(1, 40001))
        self.assertEqual(session.read_all(begun), everything)
        one.until(lambda: one.next >= begun + len(everything))
        self.assertEqual(one.data, everything[3:])
        self.assertEqual(self.words(serves, "logs", "--from", str(begun), name).stdout.encode(), everything)
        one.event("jobEnded")
        again = self.asked(keeps, rex.call, "session/run", "key", session=name, command=command, key=key)
        self.assertEqual(again, before)
        self.assertEqual([path.read_text() for path in self.place.glob("count")], ["ran\n"] if before else [])
        self.ended(session.run("echo on; (exit 2)"), 2, output="on\n")
        self.refused("SessionExists", rex.session, name, lifetime="daemon")
        self.assertEqual(session.call("close", graceMs=100)["survivors"], [])
        self.assertTrue(until(lambda: not self.keepers()))
        self.assertEqual(rex.call("session/list")["sessions"], [])
        self.assertEqual(self.left(), [])

    @for_each(BOTH_WAYS)
    def test_M06_both_serve_one_session_at_a_time(self, keeps, serves):
        one, two = self.of(keeps), self.of(serves)
        session = one.session(f"of-{keeps}", shell="bash", lifetime="daemon")
        watching = Attached(Feed(two), session.name, offset=0)
        pending = session.start("run", command="read -r x; echo $x", returnOnInput=False)
        self.assertTrue(until(lambda: session.call("info")["job"]))
        two.call("session/write", session=session.name, data="on", submit=True)
        self.assertTrue(pending.result()["output"].endswith("on\n"))
        watching.event("jobEnded")
        held = Attached(Feed(two), session.name, role="writer")
        self.refused("NotWriter", session.run, "true")
        held.detach()
        self.ended(session.run("echo free"), output="free\n")
        two.call("session/close", session=session.name, graceMs=100)

    @for_each(BOTH_WAYS)
    def test_M06_the_front_is_replaced_while_a_command_runs_whose_result_is_there_once(self, before, after):
        gate = self.gate()
        rex = self.of(before)
        name = f"begun-by-{before}"
        rex.session(name, shell="bash", lifetime="daemon")
        command = f"echo ran >>{self.place}/count; read x <{gate}; echo done; (exit 5)"
        key = {"key": {"client": self.id() + before, "seq": 1}} if "key" in methods_of(before)["session/run"] else {}
        rex.start("session/run", session=name, command=command, **key)
        job = until(lambda: rex.call("session/info", session=name)["job"])
        os.kill(rex.pid, signal.SIGKILL)
        rex = self.of(after)
        if key:
            pending = rex.start("session/run", session=name, command=command, **key)
        else:
            pending = rex.start("session/wait", session=name, job=job, any=[{"exit": True}])
        self.pass_gate(gate)
        result = pending.result() if key else pending.result()["result"]
        self.ended(result, 5, output="done\n")
        self.assertEqual((result["job"], (self.place / "count").read_text()), (job, "ran\n"))

    @for_each(BOTH_WAYS)
    def test_M06_F7_who_listens_is_replaced_under_twenty_jobs_and_its_clients_find_all_of_them(self, before, after):
        go, path = self.place / "go", self.place / "sock"
        process, client = self.served(before, path)
        begun = {}
        for name in (f"{number}-of-{before}" for number in range(20)):
            client.session(name, shell="dash", lifetime="daemon")
            command = f"seq 1000; until [ -e {go} ]; do sleep 0.1; done; seq 1001 2000"
            begun[name] = client.call("session/run", session=name, command=command, waitMs=0)["job"]
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 0)
        _, client = self.served(after, path)
        self.assertEqual({info["session"]: info["job"] for info in client.call("session/list")["sessions"]}, begun)
        go.touch()
        everything = "".join(f"{number}\n" for number in range(1, 2001))
        for name, job in begun.items():
            waited = client.call("session/wait", session=name, job=job, any=[{"exit": True}])
            self.ended(waited["result"], output=everything)
            client.call("session/close", session=name, graceMs=100)

    @for_each(BOTH_WAYS)
    def test_M06_what_one_did_by_a_key_the_other_knows_and_does_not_do_again(self, before, after):
        if "key" not in methods_of("older")["file/write"]:
            return  # it has none
        (self.place / "old").write_text("one two\n")
        session = f"keyed-by-{before}"
        changes = [
            ("session/create", {"session": session, "shell": "dash", "lifetime": "daemon"}),
            ("file/write", {"path": str(self.place / "log"), "data": "line\n", "append": True}),
            ("file/edit", {"path": str(self.place / "old"), "edits": [{"old": "two", "new": "two two"}]}),
            ("file/mkdir", {"path": str(self.place / "made")}),
            ("file/symlink", {"path": str(self.place / "link"), "target": "old"}),
            ("file/rename", {"from": str(self.place / "made"), "to": str(self.place / "moved")}),
            ("file/setattr", {"path": str(self.place / "moved"), "mode": 0o700}),
            ("file/remove", {"path": str(self.place / "link")}),
            ("session/close", {"session": session, "graceMs": 100}),
        ]
        asked = [(method, {**params, "key": {"client": self.id() + before, "seq": seq}})
                 for seq, (method, params) in enumerate(changes, 1)]
        first = self.of(before)
        answers = [first.call(method, **params) for method, params in asked]
        first.kill()
        rex = self.of(after)
        self.assertEqual([rex.call(method, **params) for method, params in asked], answers)
        self.assertEqual((self.place / "log").read_text() + (self.place / "old").read_text(), "line\none two two\n")
        self.assertEqual(rex.call("session/list")["sessions"], [])

    @for_each(LINKS)
    def test_M06_a_link_heals_to_the_other_version_and_what_was_followed_goes_on(self, front, before, after):
        if "resumed" not in methods_of(front)["session/attach"]:
            return  # its links do not heal
        gate, path, name = self.gate(), self.place / "sock", f"beyond-{front}-{before}"
        process, _ = self.served(before, path)
        rex = self.of(front)
        rex.call("host/connect", name="far", url=f"unix://{path}")
        rex.call("session/create", host="far", session=name, shell="bash", lifetime="daemon")
        feed = Feed(rex)
        one = Attached(feed, name, host="far", offset=0)
        rex.call("session/run", host="far", session=name, command=f"seq 10000; read x <{gate}; seq 10001 20000", waitMs=0)
        everything = b"".join(b"%d\n" % number for number in range(1, 20001))
        one.until(lambda: one.data.endswith(b"10000\n"))
        process.kill()
        process.wait()
        HealCase.status(feed, "far", "lost")
        while feed.waiting[one.id]:
            one.take()  # what was told before
        one.events.clear()
        self.served(after, path)
        if "resumed" in methods_of(before)["session/attach"]:  # it executes there, whoever leads to it
            one.event("stateChanged")  # which is told first when it goes on
            self.pass_gate(gate)
            one.until(lambda: one.next >= len(everything))
            self.assertEqual(one.data, everything)
            one.event("jobEnded")
        else:
            ended = feed.next(one.id)["params"]
            self.assertEqual(ended["type"], "InvalidParams", ended)
            self.assertIn("unknown member", ended["reason"])
        self.assertEqual(rex.call("process/run", host="far", command="echo on")["stdout"], "on\n")


if __name__ == "__main__":
    unittest.main()
