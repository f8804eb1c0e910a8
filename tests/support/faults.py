"""Faults that a test makes happen within a rex-rpc it starts: another boot id, clocks ahead, an end at a numbered write.

By a library between the program and its C library (faults.c), so the program knows nothing of it. A static program
cannot be met so, nor one with a sanitizer.
"""

import atexit
import functools
import pathlib
import shutil
import struct
import subprocess
import tempfile


@functools.cache
def library():
    """Its path; empty where there is no compiler."""
    if shutil.which("cc") is None:
        return ""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = pathlib.Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "faults.so", source, "-ldl"], check=True)
    return str(folder / "faults.so")


def with_faults(environment, **faults):
    """The environment of a program that has these, by their names in faults.c: boot, clock, die_at."""
    return {**environment, "LD_PRELOAD": library(), **{f"REX_FAULT_{name.upper()}": str(value) for name, value in faults.items()}}


class ClockAhead:
    """A file that says by how many seconds the clocks are ahead of those of whoever was started with it."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.write_bytes(struct.pack("qqq", 0, 0, 0))

    def _are(self, day, monotonic, boot):
        with self.path.open("r+b") as file:
            file.write(struct.pack("qqq", day, monotonic, boot))

    def go(self, seconds):
        """Time passes."""
        self._are(seconds, seconds, seconds)

    def sleep(self, seconds):
        """The machine sleeps meanwhile."""
        self._are(seconds, 0, seconds)

    def set(self, seconds):
        """Somebody sets the time of day."""
        self._are(seconds, 0, 0)
