"""file/copy: a tree arrives as it was, from any host to any other, or an error says why and nothing is half there.

Must not know how the bytes travel. Each test runs at 0, 1 and 2 hops: near to far, far to near, far to far.
"""

import hashlib
import os
import pathlib
import shutil
import signal
import stat
import sys
import unittest

from relay_world import pid_of
from rig import Rex, RexCase, RpcError, amount, binary, needs, until

MEGABYTE = 1 << 20


def described(root):
    """{path: (mode, mtime, content or target)} of a tree; the content as its hash."""
    tree = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = None
        mtime = None if stat.S_ISLNK(status.st_mode) else status.st_mtime_ns
        tree[str(path.relative_to(root))] = (stat.S_IFMT(status.st_mode) | stat.S_IMODE(status.st_mode), mtime, content)
    return tree


class Copies(RexCase):
    def each_way(self):
        """(rex, host of the source, host of the destination, a new path for it)."""
        for hops in (0, 1, 2):
            rex = Rex(hops=hops)
            self.addCleanup(rex.close)
            for number, (source, to) in enumerate(sorted({("", rex.host), (rex.host, ""), (rex.host, rex.host)})):
                yield rex, source, to, self.folder / f"{hops}-{number}"

    @staticmethod
    def start(rex, source, to, **more):
        ends = {"from": {"host": source[0], "path": str(source[1])}, "to": {"host": to[0], "path": str(to[1])}}
        return rex.start("file/copy", host="", **ends, **more)

    def copy(self, rex, source, to, **more):
        return self.start(rex, source, to, **more).result()

    def tree(self):
        root = self.folder / "tree"
        (root / "deep" / "er").mkdir(parents=True)
        (root / "empty").mkdir(mode=0o700)
        (root / "deep" / "er" / "random").write_bytes(os.urandom(3 * MEGABYTE + 1))
        (root / "deep" / "er" / "nothing").touch()
        (root / "tool").write_text("#!/bin/sh\n")
        (root / "tool").chmod(0o751)
        (root / "link").symlink_to("tool")
        (root / "astray").symlink_to("/no/such/place")
        (root / os.fsdecode(b"no\xffutf8 \n name")).write_text("x")
        with open(root / "holes", "wb") as file:
            file.truncate(64 * MEGABYTE)
            file.seek(32 * MEGABYTE)
            file.write(b"x")
        os.utime(root / "tool", ns=(1, 981173106000000007))
        return root

    def test_a_tree_arrives_as_it_was(self):
        source = self.tree()
        for rex, here, there, path in self.each_way():
            with self.subTest(source=here, to=there):
                done = self.copy(rex, (here, source), (there, path), recursive=True)
                self.assertEqual(described(path), described(source))
                self.assertEqual((done["files"], done["skipped"]), (5, 0))
                self.assertLess((path / "holes").stat().st_blocks * 512, MEGABYTE)

    def test_a_files_hash_is_told_and_news_of_the_way_come(self):
        source = self.folder / "file"
        source.write_bytes(os.urandom(8 * MEGABYTE))
        for rex, here, there, path in self.each_way():
            with self.subTest(source=here, to=there):
                done = self.copy(rex, (here, source), (there, path), progressToken="p")
                self.assertEqual(done["hash"], hashlib.sha256(source.read_bytes()).hexdigest())
                self.assertEqual(path.read_bytes(), source.read_bytes())
                news = [rex.notifications.get()["params"] for _ in range(rex.notifications.qsize())]
                self.assertGreaterEqual(max(n["value"]["bytes"] for n in news if n.get("token") == "p"), 0)

    def test_what_is_there_stays_unless_it_may_be_overwritten(self):
        source, old = self.folder / "new", self.folder / "old"
        source.write_text("new")
        for rex, here, there, _ in self.each_way():
            with self.subTest(source=here, to=there):
                old.write_text("old")
                error = self.refused("OsError", self.copy, rex, (here, source), (there, old))
                self.assertEqual((error.data["name"], old.read_text()), ("EEXIST", "old"))
                self.copy(rex, (here, source), (there, old), overwrite=True)
                self.assertEqual(old.read_text(), "new")

    def test_what_only_one_end_refuses_is_told_while_the_other_tells_what_it_has(self):
        for name in ("source", "there"):
            (self.folder / name).mkdir()
            (self.folder / name / "file").write_text(name)
        for rex, here, there, _ in self.each_way():
            with self.subTest(source=here, to=there):
                wrong = self.refused("InvalidParams", self.copy, rex, (here, self.folder / "source"),
                                     (there, self.folder / "there"), recursive=True, resume=True, excludes=["["])
                self.assertIn("[ without its ]", wrong.message)

    def test_the_end_that_cannot_says_why(self):
        (self.folder / "file").write_text("x")
        (self.folder / "folder").mkdir()
        for rex, here, there, path in self.each_way():
            for source, to, name in [("nothing", path, "ENOENT"), ("folder", path, "EISDIR"),
                                     ("file", self.folder / "file" / "below", "ENOTDIR"),
                                     ("file", "/proc/no/such", "ENOENT")]:
                with self.subTest(source=source, name=name, hosts=(here, there)):
                    error = self.refused("OsError", self.copy, rex, (here, self.folder / source), (there, to))
                    self.assertEqual(error.data["name"], name)
            self.assertFalse(path.exists())
        self.refused("HostNotFound", self.copy, self.rex, ("nowhere", "/x"), ("", self.folder / "y"))

    def test_the_end_that_cannot_says_whether_it_has_written(self):
        tree, to = self.folder / "tree", self.folder / "to"
        tree.mkdir()
        (tree / "a").write_text("x")
        (tree / "b").write_bytes(os.urandom(8 * MEGABYTE))
        (tree / "z").write_text("new")

        def refused(name, executed, **how):
            error = self.refused("OsError", self.copy, self.rex, ("", tree), ("", to), recursive=True, **how)
            self.assertEqual((error.data["name"], error.data["executed"]), (name, executed), error)
            self.assertEqual((to / "a").exists(), executed == "yes")

        with self.subTest("not yet"):
            to.mkdir()
            refused("EEXIST", "no")
        with self.subTest("a file that differs"):
            (to / "z").write_text("old")
            refused("EEXIST", "yes", resume=True)
            self.assertEqual((to / "z").read_text(), "old")
        with self.subTest("a directory where a file comes"):
            (to / "z").unlink()
            (to / "z").mkdir()
            (to / "a").unlink()
            refused("EISDIR", "yes", overwrite=True)
        with self.subTest("the source"):
            (to / "a").unlink()
            deep = os.open(tree, os.O_RDONLY)
            for _ in range(20):  # longer than a path may be
                os.mkdir("c" * 250, dir_fd=deep)
                below = os.open("c" * 250, os.O_RDONLY, dir_fd=deep)
                os.close(deep)
                deep = below
            os.close(deep)
            refused("ENAMETOOLONG", "yes", overwrite=True)

    def test_a_source_that_fails_says_why_while_the_other_end_tells_what_it_has(self):
        to = self.folder / "to"
        to.mkdir()
        for number in range(100):
            (to / str(number)).write_bytes(bytes(20000))
        for resume in (False, True):
            self.refused("HostNotFound", self.copy, self.rex, ("nowhere", "/x"), ("", to), resume=resume)

    def test_a_tree_is_not_copied_into_itself(self):
        (self.folder / "tree" / "below").mkdir(parents=True)
        (self.folder / "around").symlink_to(self.folder / "tree")
        for rex, here, there, path in self.each_way():
            if here == there:
                for to in ("tree", "tree/below/copy", "around/copy", "tree/../tree/copy"):
                    with self.subTest(to=to, host=here):
                        self.refused("InvalidParams", self.copy, rex, (here, self.folder / "tree"),
                                     (there, self.folder / to), recursive=True, overwrite=True)
                self.copy(rex, (here, self.folder / "tree"), (there, f"{self.folder}/tree-{path.name}"), recursive=True)

    @needs("unshare")
    @unittest.skipUnless(os.getuid() == 0, "cannot run here: no mount namespace may be made")
    def test_the_same_path_on_another_host_is_another_place(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "file").write_text("x")
        apart = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {tree} && exec {binary()}"]
        with Rex() as rex:
            rex.call("host/connect", name="apart", argv=apart)
            done = self.copy(rex, ("", tree), ("apart", tree / "below"), recursive=True)
            self.assertEqual(done["files"], 1)
            self.assertFalse((tree / "below").exists())
            there = rex.call("file/read", host="apart", path=str(tree / "below" / "file"))
            self.assertEqual(there["data"], "x")

    def test_a_copy_that_is_cancelled_or_whose_client_goes_leaves_no_half_of_a_file(self):
        source = self.folder / "source"  # it takes ten times as long as the first word of progress
        part = os.urandom(4 * MEGABYTE)
        with open(source, "wb") as file:
            for _ in range(256):
                file.write(part)
        for hops in (0, 2):
            for leaves in (False, True):
                with self.subTest(hops=hops, leaves=leaves), Rex(hops=hops) as rex:
                    path = self.folder / f"{hops}{leaves}"
                    copying = self.start(rex, (rex.host, source), ("", path / "file"), progressToken=1)
                    while rex.notifications.get(timeout=30)["params"].get("value", {}).get("bytes", 0) == 0:
                        pass
                    if leaves:
                        rex.process.kill()
                    else:
                        rex.notify("$/cancelRequest", id=copying.id)
                        with self.assertRaises(RpcError) as stopped:
                            copying.result()
                        self.assertEqual(stopped.exception.type, "RequestCancelled")
                        self.assertEqual(os.listdir(path), [])
                    self.assertFalse((path / "file").exists())

    def test_a_host_that_is_lost_on_the_way_is_named(self):
        source = self.folder / "source"
        source.write_bytes(os.urandom(64 * MEGABYTE))
        # No more of it arrives than half, so that it cannot be over before its host is lost.
        half = ("import os\nleft = 32 << 20\nwhile piece := os.read(0, 65536):\n  if left > 0: os.write(1, piece)\n"
                "  left -= len(piece)")
        with Rex() as rex:
            far = rex.call("host/connect", name="far", argv=["sh", "-c", f'{binary()} | python3 -c "$0"', half])
            path = self.folder / "copy"
            copying = self.start(rex, ("far", source), ("", path), progressToken=1)
            while rex.notifications.get(timeout=30)["params"].get("value", {}).get("bytes", 0) == 0:
                pass
            os.kill(pid_of(far), 9)
            with self.assertRaises(RpcError) as lost:
                copying.result()
            self.assertEqual(lost.exception.type, "HostLost")
            self.assertFalse(pathlib.Path(path).exists())

    def behind(self, hops, into=None, out=None):
        """A rex-rpc and a host so many instances further, to which only so many bytes go and from which so many come;
        its pid."""
        hop = self.folder / "rex-rpc"  # by its name, what an argv runs is spoken to at once
        if not hop.exists():  # else one that was lost before may be dialled again by it just now
            hop.with_name("rex-rpc-most").write_text(
                f"#!{sys.executable}\nimport os, sys\nleft = int(sys.argv[1])\nwhile piece := os.read(0, 65536):\n"
                "  if left > 0: os.write(1, piece)\n  left -= len(piece)\n")
            hop.write_text('#!/bin/sh\nexec 3<&0\n"$0-most" $1 <&3 3<&- | $3 3<&- | "$0-most" $2 3<&- &\n'
                           "exec <&- >&- 3<&-\nwait\n")  # its output ends with that of the instance
            for program in self.folder.glob("rex-rpc*"):
                program.chmod(0o755)
        limits = [str(1 << 60 if limit is None else limit) for limit in (into, out)]
        rex = Rex(hops=hops - 1)
        self.addCleanup(rex.close)
        info = rex.call("host/connect", name="cut", host=rex.host, argv=[str(hop), *limits, binary()])
        return rex, "/".join(filter(None, (rex.host, "cut"))), pid_of(info)

    @staticmethod
    def size_of(path):
        return path.stat().st_size if path.exists() else 0

    def cut_by(self, hops, source, there, begun, enough):
        """Begins or goes on with a copy, from or to a host that is killed when `enough` is there. How much is."""
        most = enough - self.size_of(begun) + 2 * MEGABYTE
        rex, host, pid = self.behind(hops, **{"out" if source[0] else "into": most})
        copying = self.start(rex, (host * source[0], source[1]), (host * there[0], there[1]), resume=True)
        until(lambda: self.size_of(begun) >= enough or copying.done())
        os.kill(pid, signal.SIGKILL)
        self.refused("HostLost", copying.result)
        return self.size_of(begun)

    def test_X18_a_copy_that_is_cut_goes_on_where_it_was_when_it_is_asked_for_again(self):
        size, cuts = amount(48, 1024) * MEGABYTE, amount(3, 20)
        source = self.folder / "source"
        part = os.urandom(MEGABYTE)
        with open(source, "wb") as file:
            for number in range(size // MEGABYTE):
                file.write(number.to_bytes(8, "big") + part[8:])
        wanted = hashlib.sha256(source.read_bytes()).hexdigest()
        for hops in (1, 2):
            for from_far in (True, False):
                with self.subTest(hops=hops, from_far=from_far):
                    there = self.folder / f"{hops}-{from_far}" / "copy"
                    begun = there.with_name(".copy.rex-copy")
                    came = 0
                    for cut in range(1, cuts + 1):
                        before, enough = came, max(came + MEGABYTE, size * cut // (cuts + 1))
                        came = self.cut_by(hops, (from_far, source), (not from_far, there), begun, enough)
                        self.assertGreaterEqual(came, enough, f"it had {before}, and began anew")
                    with Rex(hops=hops) as rex:
                        far, near = (rex.host, source), ("", there)
                        if not from_far:
                            far, near = ("", source), (rex.host, there)
                        done = self.copy(rex, far, near, resume=True)
                        self.assertEqual((done["kept"], done["bytes"], done["hash"]), (came, size, wanted))
                        self.assertEqual(os.listdir(there.parent), ["copy"])
                        again = self.copy(rex, far, near, resume=True)
                        self.assertEqual((again["kept"], again["hash"]), (size, wanted))
                    self.assertEqual(hashlib.sha256(there.read_bytes()).hexdigest(), wanted)

    def test_X18_a_tree_that_is_cut_goes_on_with_the_file_it_was_at(self):
        tree, there = self.folder / "tree", self.folder / "copy"
        (tree / "deep").mkdir(parents=True)
        for name in ("a", "deep/b", "z"):
            (tree / name).write_bytes(os.urandom(8 * MEGABYTE))
        (tree / "deep" / "link").symlink_to("b")
        begun = there / "deep" / ".b.rex-copy"
        rex, host, pid = self.behind(1, into=14 * MEGABYTE)
        copying = self.start(rex, ("", tree), (host, there), recursive=True, resume=True)
        self.assertTrue(until(lambda: self.size_of(begun) > 4 * MEGABYTE), "it does not arrive")
        os.kill(pid, signal.SIGKILL)
        self.refused("HostLost", copying.result)
        came = self.size_of(begun)
        with Rex(hops=1) as rex:
            done = self.copy(rex, ("", tree), (rex.host, there), recursive=True, resume=True)
        self.assertEqual((done["kept"], done["bytes"], done["files"]), (8 * MEGABYTE + came, 24 * MEGABYTE, 3))
        self.assertEqual(described(there), described(tree))

    def test_X18_a_copy_that_had_no_room_goes_on_when_there_is(self):
        source, there = self.folder / "source", self.folder / "to" / "copy"
        source.write_bytes(os.urandom(4 * MEGABYTE))
        with Rex(argv=["prlimit", f"--fsize={3 * MEGABYTE}", binary()]) as rex:
            refused = self.refused("OsError", self.copy, rex, ("", source), ("", there), resume=True)
            self.assertEqual(refused.data["name"], "EFBIG")
        with Rex(hops=0) as rex:
            self.assertEqual(self.copy(rex, ("", source), ("", there), resume=True)["kept"], 3 * MEGABYTE)
        self.assertEqual(os.listdir(there.parent), ["copy"])

    def test_X18_what_is_there_as_a_whole_is_no_hindrance(self):
        tree, to = self.folder / "tree", self.folder / "to"

        def prepared(**files):
            for root in (tree, to):
                shutil.rmtree(root, ignore_errors=True)
                root.mkdir()
            for name, content in files.items():
                (tree / name).write_bytes(content)

        def again(times=2, **how):
            for _ in range(times):
                done = self.copy(self.rex, ("", tree), ("", to), recursive=True, resume=True, **how)
                self.assertEqual(described(to), described(tree))
            return done

        with self.subTest("an empty file"):
            prepared(file=b"x", nothing=b"")
            self.assertEqual(again()["kept"], 1)
        with self.subTest("two names of one file"):
            prepared(one=b"same", other=b"same")
            for name in ("one", "other"):
                os.utime(tree / name, (1, 1))
            (to / "one").write_bytes(b"same")
            os.link(to / "one", to / "other")
            self.assertEqual((again(1)["kept"], again(1, overwrite=True)["kept"]), (8, 8))
        with self.subTest("an old beginning beside it"):
            prepared(file=os.urandom(MEGABYTE))
            shutil.copy2(tree / "file", to)
            (to / ".file.rex-copy").write_bytes((tree / "file").read_bytes()[:1000])
            (to / ".file.rex-copy").chmod(0o600)
            self.assertEqual(again()["kept"], MEGABYTE)
        with self.subTest("what had come, when it could not be put into place"):
            prepared(file=os.urandom(MEGABYTE))
            (to / "file").mkdir()
            self.refused("OsError", again, overwrite=True)
            (to / "file").rmdir()
            self.assertEqual(again(1)["kept"], MEGABYTE)

    def test_X18_a_copy_takes_nothing_away_that_is_not_its_own(self):
        tree, to = self.folder / "tree", self.folder / "to"
        tree.mkdir()
        whole = os.urandom(MEGABYTE)
        (tree / ".file.rex-copy").write_bytes(whole[:1000])
        (tree / ".other.rex-copy").write_bytes(whole[:1000])
        for name in tree.iterdir():
            name.chmod(0o600)
        (tree / "file").write_bytes(whole)
        for overwrite in (False, True, True):
            self.copy(self.rex, ("", tree), ("", to), recursive=True, resume=True, overwrite=overwrite)
            self.assertEqual(described(to), described(tree))
        (to / ".notes.rex-copy").write_text("mine")
        (to / ".notes.rex-copy").chmod(0o600)
        self.copy(self.rex, ("", tree), ("", to), recursive=True, resume=True)
        self.assertEqual((to / ".notes.rex-copy").read_text(), "mine")

    def test_X18_where_a_beginning_cannot_be_kept_nothing_is_left_of_it(self):
        (self.folder / "to").mkdir()
        (self.folder / "file").write_text("x")
        # As on a file system without modes: no file of its is 0600.
        with Rex(argv=["sh", "-c", 'umask 0200; exec "$0"', binary()]) as rex:
            self.copy(rex, ("", self.folder / "file"), ("", self.folder / "to" / "copy"), resume=True)
        self.assertEqual(os.listdir(self.folder / "to"), ["copy"])
