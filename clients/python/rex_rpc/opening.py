"""Finds the program, starts it or dials it, and gives the two streams of a connection. Must not know what they carry."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import signal
import sys
import typing as t

READ_AHEAD = 1 << 20
STDERR_KEPT = 8192
LAST_WORDS_S = 1.0  # for what a server that has ended leaves behind on standard error
END_S = 10.0  # for a server to end once its input has


def find_program() -> str:
    """$REX_RPC, else the program this package carries, else `rex-rpc` on the PATH. FileNotFoundError if there is none."""
    named = os.environ.get("REX_RPC")
    carried = pathlib.Path(__file__).parent / "bin" / "rex-rpc"
    found = named or (str(carried) if carried.exists() else shutil.which("rex-rpc"))
    if not found:
        raise FileNotFoundError("there is no rex-rpc: not in $REX_RPC, not in this package and not on the PATH")
    return found


async def pipe_reader(descriptor: int) -> t.Tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=READ_AHEAD)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport


class Opened:
    """Two streams and, where we started it, the process behind them. `end` is to be awaited when they are done with.

    A process's standard output and error are pipes of our own: whoever inherits them may hold them open when it has ended.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._process: t.Optional[asyncio.subprocess.Process] = None
        self._stderr = b""
        self._pipes: t.List[asyncio.BaseTransport] = []
        self._tasks: t.List[asyncio.Task[None]] = []

    @staticmethod
    async def dial(address: str) -> "Opened":
        """`unix:PATH` or `tcp:HOST:PORT`, as `rex-rpc --connect` has it, or with two slashes. OSError, ValueError."""
        kind, _, rest = address.partition(":")
        rest = rest[2:] if rest.startswith("//") else rest
        if kind == "unix" and rest:
            return Opened(*await asyncio.open_unix_connection(rest, limit=READ_AHEAD))
        name, _, port = rest.rpartition(":")
        if kind != "tcp" or not name or not port.isdigit():
            raise ValueError(f"no address: {address!r}; unix:PATH or tcp:HOST:PORT is one")
        return Opened(*await asyncio.open_connection(name, int(port), limit=READ_AHEAD))

    @staticmethod
    async def spawn(argv: t.Sequence[str], env: t.Optional[t.Mapping[str, str]], cwd: t.Optional[str], apart: bool) -> "Opened":
        """Starts a program that speaks on its standard input and output. `apart`: keys pressed here do not signal it."""
        out, err = os.pipe(), os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, env=env, cwd=cwd, stdin=-1, stdout=out[1], stderr=err[1], start_new_session=apart
            )
        except BaseException:
            os.close(out[0])
            os.close(err[0])
            raise
        finally:
            os.close(out[1])
            os.close(err[1])
        assert process.stdin
        try:
            reader, stdout = await pipe_reader(out[0])
            errors, stderr = await pipe_reader(err[0])
        except BaseException:
            process.kill()
            raise
        opened = Opened(reader, process.stdin)
        opened._process = process
        opened._pipes = [stdout, stderr]
        opened._tasks = [asyncio.ensure_future(opened._listen(errors)), asyncio.ensure_future(opened._watch())]
        return opened

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        """Keeps the last of standard error."""
        while chunk := await errors.read(STDERR_KEPT):
            self._stderr = (self._stderr + chunk)[-STDERR_KEPT:]

    async def _watch(self) -> None:
        """Ends what is read when the process has, and what it wrote has been taken."""
        assert self._process
        await self._process.wait()
        await asyncio.wait(self._tasks[:1], timeout=LAST_WORDS_S)
        self.reader.feed_eof()

    async def last_words(self) -> t.Tuple[str, str]:
        """How the process ended, if it did and is ours, and the last of its standard error."""
        how = ""
        if self._process:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
            code = self._process.returncode
            if code is not None:
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return how, self._stderr.decode(errors="replace")

    async def end(self, patience: float = END_S) -> None:
        """Waits for the process, whose input has been closed, and kills it after `patience` seconds."""
        self.writer.close()
        if self._process:
            waiting = asyncio.ensure_future(self._process.wait())
            await asyncio.wait([waiting], timeout=patience)
            if not waiting.done():
                self._process.kill()
                await waiting
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            try:
                await asyncio.wait_for(self.writer.wait_closed(), LAST_WORDS_S)
            except (OSError, asyncio.TimeoutError):
                pass  # that it broke is known by now; asyncio would report what nobody hears
        for pipe in self._pipes:
            pipe.close()


def default_argv() -> t.List[str]:
    return [find_program(), "serve", "--stdio"]


def python_name() -> str:
    """What a server is told of its client: the script's name."""
    return os.path.basename(sys.argv[0] or "python") or "python"
