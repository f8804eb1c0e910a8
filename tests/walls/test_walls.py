"""The walls of the house: who may include whom, how a file opens, how long it may grow.

Reads source text only, so it needs no build. CONTRIBUTING.md says in words what the tables below say in data.
"""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A room may include itself, the rooms named here, and all that those may include.
ARROWS = {
    "base": [],
    "transports": ["base"],
    "rpc": ["transports"],
    "relay": ["rpc"],
    "hosts": ["relay", "transports"],
    "shell": ["base"],
    "files": ["base"],
    "methods": ["shell", "files", "relay", "rpc"],
    "mcp": ["rpc"],
    "cli": ["methods", "hosts", "mcp"],
}
# Libraries with walls of their own: the rooms that may include them, and in how many files.
LIBRARIES = {
    "nlohmann/": (["rpc", "relay", "methods", "mcp", "cli"], None),
    "libssh/": (["transports"], 1),
    "CLI/": (["cli"], 1),
    "re2/": (["shell", "files"], None),  # both wait or search for text; patterns mean the same in each
}
# What belongs to asio's coroutine machinery is spelled out in base/ alone.
COROUTINE_MACHINERY = re.compile(r"\basio::(co_spawn|awaitable|use_awaitable|experimental)\b")
MAX_LINES = 400

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def rooms_below(room):
    below = {room}
    for lower in ARROWS[room]:
        below |= rooms_below(lower)
    return below


def room_of(path):
    """The room a path (relative to the root, or as it is written in an #include) belongs to, or None."""
    parts = Path(path).parts
    if parts[0] == "src" and len(parts) > 2:
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in ARROWS else None


def source_files(root):
    for folder in ("src", "transports"):
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in (".h", ".cc"))


def crossings(root):
    """Every broken rule, as 'file: what is wrong'."""
    found = []
    users = {library: [] for library in LIBRARIES}
    for path in source_files(root):
        name = path.relative_to(root).as_posix()
        room = room_of(name)
        text = path.read_text(encoding="utf-8")
        if room is None:
            found.append(f"{name}: stands in no room of the house")
            continue
        for quoted, angled in INCLUDE.findall(text):
            included = quoted or angled
            target = room_of(included)
            if target is None and quoted:
                found.append(f'{name}: includes "{quoted}", which names no room; write "room/file.h"')
            if target is not None and target not in rooms_below(room):
                found.append(f"{name}: {room} must not include {included}")
            for library, (rooms, _) in LIBRARIES.items():
                if included.startswith(library):
                    users[library].append(name)
                    if room not in rooms:
                        found.append(f"{name}: {room} must not include <{included}>")
        if ".gen." in path.name:
            continue
        if not text.startswith("//") and not (path.suffix == ".cc" and path.with_suffix(".h").exists()):
            found.append(f"{name}: must open with a comment that says what it is")
        lines = text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{name}: {lines} lines; more than {MAX_LINES} is two files")
        if room != "base" and (spelled := COROUTINE_MACHINERY.search(text)):
            found.append(f"{name}: spells out {spelled.group(0)}; coroutine machinery lives in base/")
    for library, (_, most) in LIBRARIES.items():
        files = sorted(set(users[library]))
        if most is not None and len(files) > most:
            found.append(f"{', '.join(files)}: {library} is to be included by {most} file only")
    return found


class Walls(unittest.TestCase):
    def test_nobody_crosses_a_wall(self):
        self.assertGreater(len(list(source_files(ROOT))), 0)
        if found := crossings(ROOT):
            self.fail("\n" + "\n".join(found))

    def test_cmake_draws_the_same_arrows(self):
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        rows = re.findall(r"^rex_room\((\w+) \S+(.*)\)$", text, re.MULTILINE)
        linked = {room: re.findall(r"rex_(\w+)", libraries) for room, libraries in rows}
        self.assertEqual(set(ARROWS) - {"cli"}, set(linked))
        for room, lower in linked.items():
            self.assertLessEqual(set(lower), rooms_below(room), room)


class WallsThatMustFall(unittest.TestCase):
    """Every rule is broken once in a small house of its own, to see that it is found."""

    def crossings_of(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src").mkdir()
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return crossings(root)

    def test_a_sound_house_is_silent(self):
        house = {
            "src/base/fd.h": "// Owns.\n#include <string>\n",
            "transports/stdio.cc": '// Bytes.\n#include "transports/stdio.h"\n#include "base/fd.h"\n',
            "src/relay/router.cc": '// Routes.\n#include <nlohmann/json.hpp>\n#include "rpc/message.h"\n',
            "src/methods/bind.cc": '// Binds.\n#include "base/fd.h"\n#include "shell/pty.h"\n',
            "src/base/fd.cc": '#include "base/fd.h"\n',
            "src/methods/wire.gen.h": "\n" * 5000,
        }
        self.assertEqual([], self.crossings_of(house))

    def test_each_crossing_is_found(self):
        broken = {
            "an upward arrow": {"src/base/fd.cc": '// x\n#include "shell/pty.h"\n'},
            "a sideways arrow": {"src/shell/pty.cc": '// x\n#include "files/path.h"\n'},
            "a leaf that knows the wire": {"src/files/read.cc": '// x\n#include "rpc/message.h"\n'},
            "transports that know connections": {"transports/unix.cc": '// x\n#include "rpc/connection.h"\n'},
            "JSON in a leaf": {"src/shell/pty.h": "// x\n#  include <nlohmann/json_fwd.hpp>\n"},
            "JSON in quotes": {"src/base/error.h": '// x\n#include "nlohmann/json.hpp"\n'},
            "libssh out of its room": {"src/rpc/a.cc": "// x\n#include <libssh/libssh.h>\n"},
            "a path around the walls": {"src/shell/pty.cc": '// x\n#include "../methods/bind.h"\n'},
            "a file in no room": {"src/util/strings.cc": "// x\n"},
            "a file that does not say what it is": {"src/base/fd.h": "#pragma once\n"},
            "a file that is too long": {"src/base/fd.h": "// x\n" * (MAX_LINES + 1)},
            "coroutine machinery above base": {"src/shell/job.cc": "// x\n  asio::co_spawn(loop);\n"},
            "libssh in two files": {
                "transports/ssh.cc": "// x\n#include <libssh/libssh.h>\n",
                "transports/scp.cc": "// x\n#include <libssh/libssh.h>\n",
            },
        }
        for what, files in broken.items():
            with self.subTest(what):
                self.assertNotEqual([], self.crossings_of(files))


if __name__ == "__main__":
    unittest.main()
