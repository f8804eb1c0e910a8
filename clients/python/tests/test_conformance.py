"""AsyncRex does what tests/conformance asks of every client, whatever its server sends, and however it ends."""

import pathlib
import subprocess
import sys
import unittest

from world import ROOT


class Conformance(unittest.TestCase):
    def test_every_exchange_of_the_kit_is_followed(self):
        argv = [sys.executable, ROOT / "tests/conformance/client.py", sys.executable, pathlib.Path(__file__).parent / "driver.py"]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("the driver cannot", done.stdout)
        self.assertNotIn("never retrieved", done.stdout)  # what asyncio says of an error that nobody heard


if __name__ == "__main__":
    unittest.main()
