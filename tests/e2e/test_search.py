"""file/search over the wire: scenario K6, and what a live program adds to what tests/unit/files_search.cc promises.

Must not know how a file is read. The trees are made here; nothing outside a folder of its own is searched.
"""

import base64
import os
import unittest

from rig import Rex, RexCase, amount, subprocess

MIB = 1024 * 1024


class Search(RexCase):
    def search(self, **params):
        return self.rex.call("file/search", path=str(self.folder), **params)

    def endless(self, name="endless"):
        """A file that would take hours: text, and then a hole."""
        with open(self.folder / name, "wb") as file:
            file.write(b"text\n" * 4000)
            try:
                file.truncate(8 << 40)
            except OSError:
                self.skipTest("cannot run here: no sparse file of 8 TiB")

    def test_lines_and_names_of_any_bytes_travel_exactly(self):
        name = os.fsencode(self.folder) + b"/caf\xe9"
        with open(name, "wb") as file:
            file.write(b"one\n\xff wo\x00rd\r\n" + "schön wo\x00rd\n".encode())
        found = self.search(pattern="wo.rd", context=1)
        self.assertEqual((found["truncated"], found["files"], found["binary"]), (False, 0, 1))
        with open(name, "wb") as file:
            file.write(b"one\n\xff word\r\nsch\xc3\xb6n word\n")
        first, second = self.search(pattern="word$|word\r", context=1)["matches"]
        for match in (first, second):
            self.assertEqual(base64.b64decode(match.pop("pathBytes")), name)
        self.assertEqual(first, {"line": 2, "offset": 4, "from": 6, "to": 11, "textBytes": base64.b64encode(b"\xff word\r").decode(),
                                 "before": [{"text": "one"}], "after": [{"text": "schön word"}]})
        self.assertEqual(second, {"line": 3, "offset": 12, "from": 19, "to": 23, "text": "schön word",
                                  "before": [{"textBytes": base64.b64encode(b"\xff word\r").decode()}], "after": []})
        whole = self.rex.call("file/read", pathBytes=base64.b64encode(name).decode(), offset=19, length=4)
        self.assertEqual(whole["data"], "word")

    def test_it_finds_what_grep_finds(self):
        """The tree of these very tests, in both ways."""
        tests = os.path.dirname(os.path.abspath(__file__))
        for pattern in (r"def test_[A-Z]\d+_", r"^import (os|re)$", r"[äöü]", r"\bself\.\w+\(\)$"):
            grep = subprocess.run(
                ["grep", "-rnIPb", "--exclude-dir=__pycache__", pattern, tests], capture_output=True, check=False,
                env={**os.environ, "LC_ALL": "C.UTF-8"})
            theirs = set()
            for line in grep.stdout.decode().split("\n")[:-1]:
                path, number, offset, _ = line.split(":", 3)
                theirs.add((path, int(number), int(offset)))
            found = self.rex.call("file/search", path=tests, pattern=pattern, maxResults=10000)
            ours = {(match["path"], match["line"], match["offset"]) for match in found["matches"]
                    if "/__pycache__/" not in match["path"]}
            self.assertEqual(ours, theirs, pattern)
            self.assertFalse(found["truncated"])
            self.assertTrue(theirs)

    def test_names_alone(self):
        for path in ("a/x.py", "a/b/y.py", "a/b/z.txt", ".hidden/w.py", ".git/v.py"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).touch()
        (self.folder / "link.py").symlink_to("nowhere")
        found = self.search(glob="*.py")
        self.assertEqual(
            [(match["path"].removeprefix(f"{self.folder}/"), match["type"]) for match in found["matches"]],
            [("link.py", "symlink"), (".hidden/w.py", "file"), ("a/x.py", "file"), ("a/b/y.py", "file")])
        self.assertEqual((found["files"], found["skipped"]), (4, 1))

    def test_what_cannot_be_searched_is_refused_by_name(self):
        for params, error in (
                ({"pattern": "("}, "InvalidParams"), ({"glob": "["}, "InvalidParams"), ({"pattern": r"(a)\1"}, "InvalidParams"),
                ({"maxResults": 0}, "InvalidParams"), ({"context": 21}, "InvalidParams")):
            self.refused(error, self.search, **params)
        for path in (self.folder / "none", "/dev/zero"):
            self.refused("OsError", self.rex.call, "file/search", path=str(path), pattern="x")

    def test_K6_a_search_is_cut_where_there_is_more_and_says_so(self):
        (self.folder / "file").write_text("word\n" * 30_000)
        (self.folder / "wide").write_text(("w" * 2000 + "\n") * 3000)
        for most in (1, 999):
            found = self.search(pattern="word", maxResults=most)
            self.assertEqual((len(found["matches"]), found["truncated"]), (most, True))
        found = self.search(pattern="word", glob="file", maxResults=10_000, context=20)
        self.assertTrue(found["truncated"])
        texts = sum(len(line["text"]) for match in found["matches"] for line in match["before"] + match["after"])
        self.assertLess(texts, 4 * MIB)
        found = self.search(pattern="^w+$", glob="wide", maxResults=10_000)
        self.assertEqual((found["truncated"], len(found["matches"][0]["text"]), found["matches"][0]["cut"]),
                         (True, 1024, {"before": 0, "after": 976}))
        self.assertLess(len(found["matches"]), 3000)

    def test_K6_a_search_without_end_is_cancelled_and_holds_up_nobody(self):
        self.endless()
        (self.folder / "small").write_text("text\n")
        calls = [self.rex.start("file/search", path=str(self.folder), pattern="nothing$") for _ in range(8)]
        self.rex.call("ping")
        for _ in range(20):
            self.assertEqual(self.rex.call("file/read", path=str(self.folder / "small"))["data"], "text\n")
        found = self.rex.call("file/search", path=str(self.folder / "small"), pattern="text")
        self.assertEqual(len(found["matches"]), 1)
        self.assertFalse(any(call.done() for call in calls))
        for call in calls:
            self.rex.notify("$/cancelRequest", id=call.id)
        for call in calls:
            self.refused("RequestCancelled", call.result)

    def test_K6_a_search_whose_client_is_gone_ends_with_it(self):
        self.endless()
        with Rex() as rex:
            rex.call("ping")
            rex.start("file/search", path=str(self.folder), pattern="nothing$")
            rex.call("ping")
            rex.process.terminate()
            self.assertIsNotNone(rex.process.wait(timeout=20))

    def test_K6_many_files_in_one_directory_and_a_deep_tree(self):
        count = amount(2_000, 300_000)
        many, deep = self.folder / "many", self.folder / "deep"
        many.mkdir()
        for number in range(count):
            (many / str(number)).touch()
        found = self.rex.call("file/search", path=str(many), glob="*77?", maxResults=10_000)
        self.assertEqual(found["files"], sum(str(number)[-3:-1] == "77" for number in range(count)))
        deep.mkdir()
        depth, here = 0, os.open(deep, os.O_RDONLY)
        while depth < 600:
            os.mkdir("deepdir", dir_fd=here)
            below = os.open("deepdir", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here, depth = below, depth + 1
            if depth in (100, 600):
                os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(deep)], check=True)
        found = self.rex.call("file/search", path=str(deep), glob="file")
        self.assertEqual([len(found["matches"]), found["unreadable"], found["errors"][0]["name"]], [1, 1, "ENAMETOOLONG"])


if __name__ == "__main__":
    unittest.main()
