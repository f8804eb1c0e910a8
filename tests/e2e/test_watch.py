"""file/watch over the wire: scenario K7 and fault X16.

What is told is put together as a client would: a picture of the tree that is kept up to date. A file made last, the
sentinel, says that everything before it has been told. Must not know how events come.
"""

import base64
import itertools
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

from rig import Rex, RexCase, RpcError, amount, binary, needs, subprocess, until
from watching import Peer

SENTINELS = itertools.count()


class Watched:
    """A file/watch and what came of it."""

    def __init__(self, rex, path, attachment=None, **params):
        self.rex, self.path = rex, str(path)
        self.answer = {"attachment": attachment} if attachment else rex.call("file/watch", path=self.path, **params)
        self.id = self.answer["attachment"]
        self.told, self.overflows = {}, 0

    def take(self, seconds=30):
        """The next notification."""
        message = self.rex.notifications.get(timeout=seconds)
        if message["method"] == "host/status":  # of the hops before it
            return self.take(seconds)
        assert message["method"] == "file/changed", message
        params = message["params"]
        assert params["attachment"] == self.id, params
        self.overflows += params.get("overflow", False)
        for change in params["changes"]:
            path = base64.b64decode(change["pathBytes"]) if "pathBytes" in change else change["path"].encode()
            name = os.fsdecode(path[len(self.path.encode()):].lstrip(b"/"))
            before = self.told.get(name)
            kind = change["kind"]
            if before == "created" and kind == "removed":
                del self.told[name]
            else:
                self.told[name] = "created" if before == "created" else "modified" if before == "removed" else kind
        return params

    def until(self, name):
        while name not in self.told:
            self.take()

    def all(self):
        """What was told of everything up to now, by path relative to what is watched; forgets it.

        Two sentinels: a directory that is read while files are made in it may show the last one and not those before."""
        names = []
        for _ in range(2):
            names.append(f"\U0010ffff{next(SENTINELS)}")  # the last of all names
            with open(f"{self.path}/{names[-1]}", "x", encoding="utf-8"):
                pass
            self.until(names[-1])
        told, self.told = self.told, {}
        for name in names:
            del told[name]
        return told


def write(path, text="text"):
    path.write_text(text)


def replace(path):
    """As editors save."""
    beside = path.with_name(path.name + ".tmp")
    beside.write_text("new text")
    beside.rename(path)


def save_with_backup(path):
    """As others save."""
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text("new text")
    backup.unlink()


class Watch(RexCase):
    def setUp(self):
        super().setUp()
        self.rex = Rex()
        self.addCleanup(self.rex.close)
        self.tree = self.folder / "tree"
        self.tree.mkdir()

    def test_each_change_is_told_as_what_it_comes_to(self):
        (self.folder / "outside").mkdir()
        cases = [
            ("a new file", lambda: write(self.tree / "new"), {"new": "created"}),
            ("a write in place", lambda: write(self.tree / "old", "other"), {"old": "modified"}),
            ("a write of the same size", lambda: write(self.tree / "old", "OTHER"), {"old": "modified"}),
            ("an append", lambda: (self.tree / "old").open("a").write("more"), {"old": "modified"}),
            ("other rights", lambda: (self.tree / "old").chmod(0o600), {"old": "modified"}),
            ("a file renamed over it", lambda: replace(self.tree / "old"), {"old": "modified"}),
            ("a file saved beside its backup", lambda: save_with_backup(self.tree / "old"), {"old": "modified"}),
            ("a rename", lambda: (self.tree / "new").rename(self.tree / "newer"), {"new": "removed", "newer": "created"}),
            ("a file moved in", lambda: write(self.folder / "outside/in") or (self.folder / "outside/in").rename(self.tree / "in"),
             {"in": "created"}),
            ("a file moved out", lambda: (self.tree / "in").rename(self.folder / "outside/in"), {"in": "removed"}),
            ("a removal", lambda: (self.tree / "newer").unlink(), {"newer": "removed"}),
            ("a symbolic link", lambda: (self.tree / "link").symlink_to("nowhere"), {"link": "created"}),
            ("a link replaced by a file", lambda: (self.tree / "link").unlink() or write(self.tree / "link"), {"link": "modified"}),
            ("a name that is no text", lambda: open(os.fsencode(self.tree) + b"/\xff\n", "x").close(), {"\udcff\n": "created"}),
            ("a file of no content that was there", lambda: os.utime(self.tree / "old"), {"old": "modified"}),
        ]
        write(self.tree / "old")
        for recursive in (False, True):
            with self.subTest(recursive=recursive):
                shutil.rmtree(self.tree)
                self.tree.mkdir()
                write(self.tree / "old")
                watched = Watched(self.rex, self.tree, recursive=recursive)
                for name, act, expected in cases:
                    act()
                    self.assertEqual(watched.all(), expected, name)
                self.rex.call("file/unwatch", attachment=watched.id)

    def test_what_came_and_went_is_not_told_and_directories_are_told_as_deep_as_was_asked(self):
        flat, deep = Watched(self.rex, self.tree), None
        (self.tree / "d/e").mkdir(parents=True)
        write(self.tree / "d/e/f")
        self.assertEqual(flat.all(), {"d": "created"})
        write(self.tree / "d/e/f", "other")
        self.assertEqual(flat.all(), {})
        self.rex.call("file/unwatch", attachment=flat.id)
        deep = Watched(self.rex, self.tree, recursive=True)
        write(self.tree / "d/e/f")
        self.assertEqual(deep.all(), {"d/e/f": "modified"})
        (self.tree / "d/e").rename(self.tree / "g")
        self.assertEqual(deep.all(), {"d/e": "removed", "d/e/f": "removed", "g": "created", "g/f": "created"})
        write(self.tree / "g/f", "moved")
        self.assertEqual(deep.all(), {"g/f": "modified"})
        (self.tree / "g").rename(self.folder / "out")
        write(self.folder / "out/f", "elsewhere")
        self.assertEqual(deep.all(), {"g": "removed", "g/f": "removed"})
        (self.folder / "out").rename(self.tree / "back")
        self.assertEqual(deep.all(), {"back": "created", "back/f": "created"})
        for turn in range(20):  # a directory of the same name, and often of the same number
            shutil.rmtree(self.tree / "back")
            (self.tree / "back").mkdir()
            write(self.tree / f"back/{turn}")
        told = deep.all()
        self.assertEqual({name: kind for name, kind in told.items() if name != "back"},
                         {"back/f": "removed", "back/19": "created"})
        write(self.tree / "back/19", "new")
        self.assertEqual(deep.all(), {"back/19": "modified"})

    def test_K7_files_made_in_directories_that_are_being_made_are_never_missed(self):
        watched = Watched(self.rex, self.tree, recursive=True)
        for turn in range(amount(100, 3000)):
            (self.tree / f"{turn}/b/c").mkdir(parents=True)
            for name in ("a", "b/b", "b/c/c"):
                write(self.tree / f"{turn}/{name}")
            if turn % 3 == 0:
                shutil.rmtree(self.tree / f"{turn}/b")
        self.assertEqual(watched.all(), self.picture(watched))
        shutil.rmtree(self.tree / "1")
        self.assertEqual(watched.all(), dict.fromkeys(("1", "1/a", "1/b", "1/b/b", "1/b/c", "1/b/c/c"), "removed"))

    def picture(self, watched):
        found = {}
        for folder, folders, files in os.walk(self.tree):
            for name in folders + files:
                path = os.path.relpath(os.path.join(folder, name), self.tree)
                found[path] = "created"
        return {name: kind for name, kind in found.items() if not name.startswith("\U0010ffff")}

    @needs("git")
    def test_K7_a_checkout_of_many_files_is_told_whole(self):
        count = amount(1000, 50_000)
        for number in range(count):
            path = self.tree / f"{number % 50}"
            path.mkdir(exist_ok=True)
            write(path / f"{number}", str(number))
        git = ["git", "-C", str(self.tree), "-c", "user.name=x", "-c", "user.email=x@localhost"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["branch", "full"], ["rm", "-rq", "."], ["commit", "-qm", "y"]):
            subprocess.run(git + command, check=True, capture_output=True)
        watched = Watched(self.rex, self.tree, recursive=True)
        subprocess.run(git + ["checkout", "-q", "full"], check=True)
        told = {name: kind for name, kind in watched.all().items() if not name.startswith(".git")}
        self.assertEqual(watched.overflows, 0)
        self.assertEqual(told, {name: kind for name, kind in self.picture(watched).items() if not name.startswith(".git")})

    def test_K7_a_directory_that_is_replaced_is_watched_on(self):
        for recursive in (False, True):
            with self.subTest(recursive=recursive):
                home = self.folder / f"r{recursive}"
                path = home / "a/b"
                path.mkdir(parents=True)
                write(path / "old")
                watched = Watched(self.rex, path, recursive=recursive)
                for gone, make in ((path, path), (home / "a", path), (home, path)):
                    shutil.rmtree(gone)
                    watched.until("")
                    self.assertEqual(watched.told.get(""), "removed")
                    make.mkdir(parents=True)
                    write(path / "new")
                    told = watched.all()
                    self.assertEqual((told[""], told["new"]), ("modified", "created"))
                    write(path / "new", "again")
                    self.assertEqual(watched.all(), {"new": "modified"})
                    (path / "new").unlink()
                    self.assertEqual(watched.all(), {"new": "removed"})
                (home / "a").rename(home / "x")
                watched.until("")
                self.assertEqual(watched.told.pop(""), "removed")
                (home / "x").rename(home / "a")
                watched.until("")
                watched.told.clear()
                write(path / "last")
                self.assertEqual(watched.all().get("last"), "created")
                self.rex.call("file/unwatch", attachment=watched.id)

    def test_a_file_is_watched_by_its_name_and_through_a_link(self):
        file, link = self.tree / "file", self.folder / "link"
        write(file)
        link.symlink_to(file)
        other = self.tree / "other"
        write(other)
        by_name = Watched(self.rex, file)
        for act, kind in ((lambda: write(file, "more"), "modified"), (lambda: write(file, "MORE"), "modified"),
                          (lambda: replace(file), "modified"), (file.unlink, "removed"),
                          (lambda: write(file), "created"), (lambda: write(file, "again"), "modified")):
            by_name.told.clear()
            act()
            by_name.until("")
            self.assertEqual(by_name.told[""], kind)
        self.rex.call("file/unwatch", attachment=by_name.id)
        through = Watched(self.rex, link)
        for act in (lambda: write(file, "through"), lambda: os.symlink(other, self.folder / "l") or (self.folder / "l").rename(link),
                    lambda: write(other, "the other")):
            through.told.clear()
            act()
            through.until("")
            self.assertEqual(through.told[""], "modified")

    def test_X16_what_the_kernel_drops_is_told_as_one_overflow_and_nothing_is_missed_after_it(self):
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
            count = int(file.read()) // 2 + 500  # each is made and closed
        if count > 20_000:
            self.skipTest(f"cannot run here: it takes {count} files to fill the kernel's queue")
        watched = Watched(self.rex, self.tree, recursive=True)
        os.kill(self.rex.pid, signal.SIGSTOP)
        try:
            for number in range(count):
                os.close(os.open(self.tree / str(number), os.O_CREAT | os.O_WRONLY))
        finally:
            os.kill(self.rex.pid, signal.SIGCONT)
        while not watched.overflows:
            watched.take()
        (self.tree / "d").mkdir()
        write(self.tree / "d/f")
        self.assertEqual(watched.all()["d/f"], "created")
        self.assertEqual(watched.overflows, 1)

    def test_K7_a_client_that_does_not_read_loses_changes_and_is_told_once(self):
        folder = tempfile.mkdtemp(prefix="rex-run-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        rex = self.spawn(env={**os.environ, "XDG_RUNTIME_DIR": folder})
        socket = until(lambda: next(pathlib.Path(folder).glob("rex-rpc/[!.]*.sock"), None))
        deaf = Peer(socket, reads=False)
        self.addCleanup(deaf.close)
        deaf.send({"jsonrpc": "2.0", "id": 1, "method": "file/watch", "params": {"path": str(self.tree)}})
        hearing = Watched(rex, self.tree)
        for part in range(13):
            for number in range(1000):  # the kernel itself keeps no more than some thousand for us
                os.close(os.open(self.tree / f"{part}-{number}{'x' * 200}", os.O_CREAT | os.O_WRONLY))
            self.assertEqual(len(hearing.all()), 1000)
        self.assertEqual(hearing.overflows, 0)
        deaf.read()
        first = until(lambda: list(deaf.notifications.queue))[0]
        late = Watched(deaf, self.tree, first["params"]["attachment"])
        late.all()
        self.assertEqual(late.overflows, 1)

    def test_all_watches_share_one_inotify_instance_and_the_last_gives_it_back(self):
        def instances():
            fds = f"/proc/{self.rex.pid}/fd"
            return sum("inotify" in os.readlink(f"{fds}/{fd}") for fd in os.listdir(fds) if os.path.islink(f"{fds}/{fd}"))

        self.assertEqual(instances(), 0)
        watches = []
        for number in range(50):
            (self.tree / f"{number}").mkdir()
            watches.append(Watched(self.rex, self.tree / f"{number}", recursive=number % 2 == 0))
        again = Watched(self.rex, self.tree / "0")
        self.assertEqual(instances(), 1)
        self.assertEqual(len({watched.id for watched in [*watches, again]}), 51)
        self.rex.call("file/unwatch", attachment=watches[0].id)
        write(self.tree / "0/file")
        self.assertEqual(again.take()["changes"], [{"path": f"{self.tree}/0/file", "kind": "created"}])
        for watched in [*watches[1:], again]:
            self.rex.call("file/unwatch", attachment=watched.id)
        self.assertTrue(until(lambda: instances() == 0))
        write(self.tree / "1/file")
        self.rex.call("ping")
        self.assertTrue(self.rex.notifications.empty())
        self.refused("InvalidParams", self.rex.call, "file/unwatch", attachment=again.id)

    def test_an_attachment_is_ended_by_its_own_kind(self):
        watched = Watched(self.rex, self.tree)
        subscribed = self.rex.call("session/subscribe")["attachment"]
        self.assertNotEqual(watched.id, subscribed)
        self.refused("InvalidParams", self.rex.call, "session/detach", attachment=watched.id)
        self.refused("InvalidParams", self.rex.call, "file/unwatch", attachment=subscribed)
        self.assertEqual(self.rex.call("file/unwatch", attachment=watched.id), {})

    def test_what_cannot_be_watched_is_refused_and_what_cannot_be_read_in_it_is_counted(self):
        self.assertEqual(self.refused("OsError", self.rex.call, "file/watch", path=str(self.folder / "none")).data["name"], "ENOENT")
        self.refused("InvalidParams", self.rex.call, "file/watch", path="")
        self.assertEqual(Watched(self.rex, self.tree).answer["unreadable"], 0)

    @needs("unshare")
    def test_K7_without_inotify_it_looks_from_time_to_time_and_says_why(self):
        for limit, value, reason in (("instances", 0, "EMFILE"), ("watches", 2, "ENOSPC")):
            with self.subTest(limit=limit):
                script = f"echo {value} > /proc/sys/user/max_inotify_{limit} && exec {binary()}"
                rex = Rex(argv=["unshare", "-Ur", "sh", "-c", script])
                self.addCleanup(rex.close)
                try:
                    rex.call("ping")
                except RpcError:
                    self.skipTest("cannot run here: no user namespaces")
                tree = self.tree / limit
                (tree / "a/b/c").mkdir(parents=True)
                watched = Watched(rex, tree, recursive=True)
                self.assertEqual(watched.answer.get("polling"), reason)
                write(tree / "a/b/c/file")
                watched.until("a/b/c/file")
                self.assertEqual(watched.told.pop("a/b/c/file"), "created")
                (tree / "a/b/c/file").unlink()
                watched.until("a/b/c/file")
                self.assertEqual(watched.told["a/b/c/file"], "removed")


if __name__ == "__main__":
    unittest.main()
