"""What the tests of the client share: the program under test, and servers of it that listen."""

import asyncio
import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import rex_rpc

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.path.abspath(os.environ.get("REX_RPC", str(ROOT / "build/release/rex-rpc")))
DEADLINE = float(os.environ.get("REX_TEST_DEADLINE", "60"))


# What the user's own shells read is not what is tested, and may take its time.
EMPTY_HOME = tempfile.TemporaryDirectory(prefix="rex-python-home-", dir="/tmp")
atexit.register(EMPTY_HOME.cleanup)  # removes what it made itself, and nothing that $HOME may come to mean
os.environ["HOME"] = EMPTY_HOME.name


def folder_of(case):
    """A folder that ends with the test."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-python-", dir="/tmp"))
    case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Listening:
    """A rex-rpc that listens until the test ends; `said` is its line about where."""

    def __init__(self, case, *words):
        self.process = subprocess.Popen(
            [PROGRAM, "--private", "serve", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        case.addCleanup(self.end)
        self.said = next(line for line in self.process.stderr if "listening" in line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


class Case(unittest.IsolatedAsyncioTestCase):
    """One rex-rpc of its own a test, as `self.rex`."""

    async def asyncSetUp(self):
        self.rex = await self.enterAsync(rex_rpc.AsyncRex(PROGRAM))

    async def enterAsync(self, manager):
        """As enterAsyncContext, which Python 3.10 has not."""
        entered = await manager.__aenter__()
        self.addAsyncCleanup(manager.__aexit__, None, None, None)
        return entered

    async def session(self, *names, **params):
        return await self.enterAsync(self.rex.session(*names, **params))

    async def soon(self, awaitable):
        """What never comes is a failure, not a test that hangs."""
        return await asyncio.wait_for(awaitable, DEADLINE)


def pid_of(rex):
    return int(rex.server["machine"]["instance"].split("-")[0])
