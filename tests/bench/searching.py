"""file/search beside grep and, where it is installed, ripgrep: a tree of source-like text, in turns, all of it in the
page cache. Part of bench.py."""

import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

WORDS = 2000


def make_tree(root, files):
    """Directories of 50 files each; a file is some hundred lines of words, one in a hundred holds the needle."""
    chance = random.Random(1)
    words = ["".join(chance.choices("etaoinshrdlu_", k=chance.randint(2, 12))) for _ in range(WORDS)]
    size = 0
    for number in range(files):
        folder = f"{root}/{number // 50}"
        os.makedirs(folder, exist_ok=True)
        lines = [" ".join(chance.choices(words, k=8)) for _ in range(chance.randint(50, 500))]
        if number % 100 == 0:
            lines[len(lines) // 2] = "    return needle_42(value);"
        text = "\n".join(lines) + "\n"
        size += len(text)
        with open(f"{folder}/{number}.cc", "w", encoding="utf-8") as file:
            file.write(text)
    return size


def searching(table, server, files, turns):
    with tempfile.TemporaryDirectory() as root:
        size = make_tree(root, files)
        table.title(f"Searching {files} files, {size / 1e6:.0f} MB, ms (medians of {turns}, in turns)")
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        patterns = {"a rare word": "needle_42", "a rare expression": r"needle_[0-9]+\(", "nothing, by case or not": "(?i)NEEDLE_43x"}
        for name, pattern in patterns.items():
            tools = {"file/search": lambda: len(server.call("file/search", path=root, pattern=pattern)["matches"])}
            folded = ["-i"] if pattern.startswith("(?i)") else []
            plain = pattern.removeprefix("(?i)")
            commands = {"grep -rE": ["grep", "-rnE", *folded, plain, root]}
            if shutil.which("rg"):
                commands["rg"] = ["rg", "-n", *folded, plain, root]
                commands["rg -j1"] = ["rg", "-n", "-j1", *folded, plain, root]
            for tool, command in commands.items():
                def run(command=command):
                    output = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False).stdout
                    return output.count(b"\n")
                tools[tool] = run
            counts, times = {}, {tool: [] for tool in tools}
            for turn in range(turns + 1):
                for tool, run in tools.items():
                    begin = time.perf_counter()
                    counts[tool] = run()
                    if turn > 0:
                        times[tool].append((time.perf_counter() - begin) * 1e3)
            median = {tool: statistics.median(samples) for tool, samples in times.items()}
            for tool, value in median.items():
                ratio = "" if tool == "file/search" else f"file/search / it: {median['file/search'] / value:.2f}×"
                table.row(f"{name}: {tool} ({counts[tool]})", f"{value:.1f}", ratio)
