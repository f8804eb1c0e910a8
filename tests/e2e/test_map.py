"""The map in tests/README.md is whole: every row has its tests or a reason, and every test named there exists.

Reads text only, so it needs no build.
"""

import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]

ROWS = {
    "A": "1-20 02 04-06 08", "B": "1-17", "C": "1-22 02-05 07-14", "D": "1-21", "E": "1-15", "F": "1-16 01 02 04 05 08-12 14 16-22",
    "G": "1-8 11", "H": "1-14 17", "I": "1-9 11 12", "J": "1-9 03 04 06 07 09 11-16", "K": "6 7 01-08",
    "L": "02 04-14", "M": "02 04-06 08-16", "P": "02 04 06 07 09-17", "R": "01-03 05-11 13-18 20",
    "S": "01 02 04 06 08 10 13 15 17-25", "T": "01-03 05 06 08 09 11-19", "X": "01 03 05 06 08 10-13 16 18",
}


def expected():
    for letter, spec in ROWS.items():
        for part in spec.split():
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield letter + str(number).zfill(len(first))


def mapped():
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([A-Z]\d+) \| (.*) \| (.*) \|$", text, re.MULTILINE)


class TheMap(unittest.TestCase):
    def test_every_row_is_in_the_map_once(self):
        self.assertEqual(sorted(row for row, _, _ in mapped()), sorted(expected()))

    def test_a_row_has_tests_or_a_reason(self):
        for row, tests, tier in mapped():
            with self.subTest(row=row):
                self.assertTrue(tests != "—" or re.match("cannot run here: .|not offered: .", tier))
                self.assertTrue(tests == "—" or re.match("push|long", tier))

    def test_every_named_test_exists(self):
        for row, tests, _ in mapped():
            for file, name in re.findall(r"`([\w/]+\.(?:py|cc))::([^`]+)`", tests):
                with self.subTest(row=row, file=file, name=name):
                    path = TESTS / (file if "/" in file else f"e2e/{file}")
                    text = path.read_text(encoding="utf-8")
                    found = (f"def {name}(" if path.suffix == ".py" else f'"{name}') in text
                    self.assertTrue(found, "no such test")
                    self.assertTrue(row in text, "a test that answers for a row names it")


if __name__ == "__main__":
    unittest.main()
