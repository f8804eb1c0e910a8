"""Cgroups v2 as a test sees them: where this process may make one in which a controller counts.

Must not know how rex-rpc looks for one; this one tries.
"""

import os
import pathlib
import unittest


def place(controller):
    """The nearest directory in which a cgroup can be made that `controller` counts in, or None."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split()[4] for line in lines if " - cgroup2 " in line]
    own = [line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
           if line.startswith("0::")]
    if not points or not own:
        return None
    here = pathlib.Path(points[0] + own[0])
    for directory in (here, *here.parents):
        try:
            if controller in (directory / "cgroup.subtree_control").read_text(encoding="utf-8").split():
                (directory / "cgroup.procs").open("w").close()
                made = directory / f"test-{os.getpid()}"
                made.mkdir()
                made.rmdir()
                return directory
        except OSError:
            continue
    return None


PROCESSES = place("pids")
MEMORY = place("memory")


def counting(*controllers):
    missing = [controller for controller in controllers if place(controller) is None]
    return unittest.skipIf(missing, f"cannot run here: no cgroup v2 with {' and '.join(missing)} may be written")


def cgroup_of(pid, directory):
    """The cgroup below `directory` that holds the process."""
    lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    name = next(line for line in lines if line.startswith("0::")).rpartition("/")[2]
    return directory / name
