"""Files over the wire, faults X01 to X19 where a live program adds something to what tests/unit/files_*.cc promise.

Must not know how a file is read or replaced. Nothing here removes or writes outside a folder of its own.
"""

import base64
import hashlib
import os
import threading
import unittest

from rig import RexCase, subprocess

MIB = 1024 * 1024


class Files(RexCase):
    def call(self, method, path, **params):
        return self.rex.call(f"file/{method}", path=str(path), **params)

    def fails(self, name, method, path, **params):
        error = self.refused("OsError", self.call, method, path, **params)
        self.assertEqual((error.code, error.data["name"], error.data["executed"]), (1401, name, "no"))
        return error

    def test_X01_paths_mean_what_the_kernel_says(self):
        file = self.folder / "a"
        file.write_text("text")
        (self.folder / "d").mkdir()
        for path in (file, f"{self.folder}//a", f"{self.folder}/./a", f"{self.folder}/d/../a"):
            self.assertEqual(self.call("read", path)["data"], "text")
        self.fails("ENOENT", "read", "/nosuch/file")
        self.fails("ENOENT", "read", f"{self.folder}/~")
        self.fails("ENOTDIR", "read", file / "x")
        self.fails("ENOTDIR", "stat", f"{file}/")
        self.fails("ENAMETOOLONG", "read", "/" + "x" * 256)
        self.fails("ENAMETOOLONG", "stat", "/x" * 2100)
        for method in ("read", "stat", "list", "mkdir", "remove"):
            with self.assertRaises(Exception) as caught:
                self.call(method, "")
            self.assertIn(caught.exception.type, ("OsError", "InvalidParams"))
        with self.assertRaises(Exception) as caught:
            self.call("read", "a\0b")
        self.assertEqual(caught.exception.type, "InvalidParams")

    def test_X01_names_of_any_bytes_travel_both_ways(self):
        names = [b"caf\xe9", b"\xff\xfe", b"new\nline", b"-rf", b"quote\"'", "ü😀".encode(), b"x" * 255,
                 b"\xed\xa0\x80"]
        for name in names:
            path = base64.b64encode(os.fsencode(self.folder) + b"/" + name).decode()
            self.rex.call("file/write", pathBytes=path, data="x")
            self.assertEqual(self.rex.call("file/read", pathBytes=path)["data"], "x")
        self.assertEqual(sorted(os.listdir(os.fsencode(self.folder))), sorted(names))
        listed, cursor = [], None
        while True:
            page = self.call("list", self.folder, limit=3, **({"cursor": cursor} if cursor else {}))
            listed += page["entries"]
            cursor = page.get("cursor")
            if not cursor:
                break
        found = [base64.b64decode(entry["nameBytes"]) if "nameBytes" in entry else entry["name"].encode()
                 for entry in listed]
        self.assertEqual(sorted(found), sorted(names))

    def test_X03_magic_links_are_the_kernels_and_hang_nothing(self):
        """No roots are offered yet, so nothing is forbidden here that the user may do."""
        with open("/etc/passwd", encoding="utf-8") as file:
            self.assertEqual(self.call("read", "/proc/self/root/etc/passwd")["data"], file.read())
        os.mkfifo(self.folder / "fifo")
        for path in (self.folder / "fifo", "/dev/zero", "/proc/self/fd/0", self.folder):
            with self.assertRaises(Exception) as caught:
                self.rex.start("file/read", path=str(path)).result(timeout=5)
            self.assertNotIsInstance(caught.exception, TimeoutError)
            self.assertIn(caught.exception.type, ("OsError", "InvalidParams"))
        self.assertIn("Name:\trex-rpc", self.call("read", "/proc/self/status")["data"])

    def test_X05_replacing_keeps_what_a_file_was_and_gains_no_right(self):
        file, link = self.folder / "file", self.folder / "link"
        file.write_text("old")
        file.chmod(0o640)
        link.symlink_to("file")
        self.assertFalse(self.call("write", link, data="new")["created"])
        self.assertTrue(link.is_symlink())
        self.assertEqual((file.read_text(), file.stat().st_mode & 0o7777), ("new", 0o640))
        file.chmod(0o6755)
        self.call("edit", file, edits=[{"old": "new", "new": "newer"}])
        self.assertEqual((file.read_text(), file.stat().st_mode & 0o6000), ("newer", 0))

    @unittest.skipIf(os.environ.get("REX_HOP_BY") == "dropbear", "cannot run here: the server has mounts of its own")
    def test_X06_a_full_disk_leaves_the_old_content(self):
        room = self.folder / "tmpfs"
        room.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", room], capture_output=True).returncode:
            self.skipTest("cannot run here: no file system may be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", room], check=False)
        file = room / "file"
        file.write_text("old")
        self.fails("ENOSPC", "write", file, data="x" * 2 * MIB)
        self.assertEqual((file.read_text(), os.listdir(room)), ("old", ["file"]))
        subprocess.run(["mount", "-o", "remount,ro", room], check=True)
        self.fails("EROFS", "write", file, data="x")
        self.assertEqual(file.read_text(), "old")

    def test_X10_ranges_of_a_sparse_file_are_exact(self):
        file = self.folder / "sparse"
        with file.open("wb") as sparse:
            try:
                sparse.truncate(100 * 1024 * MIB)
            except OSError:
                self.skipTest("cannot run here: no sparse file of 100 GiB")
            for offset in (2**31 - 2, 2**32 - 2, 99 * 2**30):
                sparse.seek(offset)
                sparse.write(b"mark")
        for offset in (2**31 - 2, 2**32 - 2, 99 * 2**30):
            self.assertEqual(self.call("read", file, offset=offset, length=4)["data"], "mark")
        end = self.call("read", file, offset=2**53 - 1, length=10)
        self.assertEqual((end["data"], end["size"]), ("", 100 * 1024 * MIB))
        self.refused("LimitExceeded", self.call, "read", file)
        self.refused("InvalidParams", self.call, "read", file, offset=2**53)

    def test_F22_the_most_that_is_read_comes_whatever_it_is_full_of(self):
        file, data = self.folder / "lines", b"\n" * 8 * MIB
        file.write_bytes(data)
        got = self.call("read", file, length=8 * MIB)
        self.assertEqual((got["encoding"], base64.b64decode(got["data"]) == data), ("base64", True))
        refused = self.refused("LimitExceeded", self.call, "read", file, length=8 * MIB, encoding="utf-8")
        self.assertEqual((refused.data["limit"], refused.data["max"]), ("frameBytes", 16 * MIB))
        self.assertGreater(refused.data["value"], 16 * MIB)
        self.assertEqual(len(self.call("read", file, length=7 * MIB, encoding="utf-8")["data"]), 7 * MIB)

    def test_X11_a_file_that_changes_is_read_as_it_was_or_as_it_is(self):
        file, texts, stop = self.folder / "file", ["a" * 200_000, "b" * 300_000], threading.Event()
        file.write_text(texts[0])

        def change():
            turn = 0
            while not stop.is_set():
                turn += 1
                (self.folder / "next").write_text(texts[turn % 2])
                os.rename(self.folder / "next", file)

        changer = threading.Thread(target=change)
        changer.start()
        try:
            for _ in range(60):
                got = self.call("read", file)
                self.assertIn(got["data"], texts)
                self.assertEqual(got["size"], len(got["data"]))
        finally:
            stop.set()
            changer.join()
        with file.open("r+b") as short:
            short.truncate(10)
        self.assertEqual(self.call("read", file, offset=5, length=100)["next"], 10)
        self.assertIn("time", self.rex.call("ping"))

    def test_X12_of_two_writers_exactly_one_wins(self):
        file = self.folder / "file"
        file.write_text("0")
        others = self.spawn()
        for turn in range(30):
            etag = self.call("stat", file)["etag"]
            calls = [rex.start("file/write", path=str(file), data=f"{turn} {index}", ifMatch=etag)
                     for index, rex in enumerate((self.rex, others, self.rex, others))]
            won = []
            for index, call in enumerate(calls):
                try:
                    won.append((index, call.result()["etag"]))
                except Exception as error:  # noqa: BLE001: its type is checked
                    self.assertEqual((error.type, error.code), ("Conflict", 1402))
                    self.assertNotEqual(error.data["etag"], etag)
            self.assertEqual(len(won), 1)
            self.assertEqual((file.read_text(), self.call("stat", file)["etag"]), (f"{turn} {won[0][0]}", won[0][1]))
        for turn in range(30):
            file.write_text(" ".join(f"<{number}>" for number in range(8)))
            calls = [rex.start("file/edit", path=str(file), edits=[{"old": f"<{number}>", "new": "done"}])
                     for number, rex in enumerate((self.rex, others) * 4)]
            wanted = []
            for number, call in enumerate(calls):
                try:
                    call.result()
                    wanted.append("done")
                except Exception as error:  # noqa: BLE001: its type is checked
                    self.assertEqual((error.type, error.code), ("Conflict", 1402))
                    wanted.append(f"<{number}>")
            self.assertEqual(file.read_text().split(), wanted)
        fresh = [self.rex.start("file/write", path=str(self.folder / "new"), data=str(index), ifAbsent=True)
                 for index in range(4)]
        outcomes = []
        for call in fresh:
            try:
                outcomes.append(call.result()["created"])
            except Exception as error:  # noqa: BLE001: its type is checked
                outcomes.append(error.type)
        self.assertEqual(sorted(map(str, outcomes)), ["Conflict"] * 3 + ["True"])

    def test_X13_removing_a_tree_removes_links_and_not_their_targets(self):
        tree, kept = self.folder / "tree", self.folder / "kept"
        kept.mkdir()
        (kept / "file").write_text("x")
        for index in range(50):
            (tree / str(index) / "deep").mkdir(parents=True)
            (tree / str(index) / "link").symlink_to(kept)
        (self.folder / "outside").symlink_to(kept)
        self.fails("ENOTEMPTY", "remove", tree)
        self.call("remove", tree, recursive=True)
        self.call("remove", self.folder / "outside", recursive=True)
        self.assertEqual(sorted(os.listdir(self.folder)), ["kept"])
        self.assertEqual((kept / "file").read_text(), "x")
        for dots in (".", ".."):
            with self.assertRaises(Exception) as caught:
                self.call("remove", f"{self.folder}/kept/{dots}", recursive=True)
            self.assertIn(caught.exception.type, ("OsError", "InvalidParams"))
        self.assertTrue((kept / "file").exists())

    def test_X17_X19_bytes_are_exact_and_wrong_places_named(self):
        data = bytes(range(256)) * 5000 + b"\xef\xbb\xbf\r\n\0"
        encoded = base64.b64encode(data).decode()
        written = self.call("write", self.folder / "sub" / "file", data=encoded, encoding="base64")
        self.assertEqual((written["size"], written["created"]), (len(data), True))
        got = self.call("read", self.folder / "sub" / "file", encoding="base64", length=len(data))
        self.assertEqual(hashlib.sha256(base64.b64decode(got["data"])).digest(), hashlib.sha256(data).digest())
        for text in ("a\r\nb\r\n", "\ufeffbom", "no end", "\0", "é\u2028"):
            self.call("write", self.folder / "text", data=text)
            self.assertEqual((self.folder / "text").read_bytes(), text.encode())
            got = self.call("read", self.folder / "text")
            data = got["data"].encode() if got["encoding"] == "utf-8" else base64.b64decode(got["data"])
            self.assertEqual(data, text.encode())
        self.fails("EISDIR", "write", self.folder, data="x")
        self.fails("ENOTDIR", "list", self.folder / "text")


if __name__ == "__main__":
    unittest.main()
