"""SWE-ReX's AbstractRuntime on rex-rpc. What each method promises is SWE-ReX's; where the two differ, it is said here.

Must not know how the host it works on was reached. Callers use a new event loop for each call (SWE-agent does), so the
client runs on a loop of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import signal
import time
import typing as t

from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NoExitCodeError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    CloseBashSessionResponse,
    CloseResponse,
    Command,
    CommandResponse,
    CreateBashSessionRequest,
    CreateBashSessionResponse,
    IsAliveResponse,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)

from ..aio import AsyncHost, AsyncRex, AsyncSession
from ..errors import RexError
from ..errors_gen import OsError, SessionBusy, SessionExists, SessionNotFound, StartFailed
from ..packing import data_of
from ..sync import LoopThread
from ..wire_gen import Condition, ProcessRunResult, RunResult

OUTPUT_BYTES = 8 << 20  # the most that one answer may carry; what a session wrote beyond is read from its journal
STARTUP_MS = 60_000  # conda and the like take their time, on a busy machine more of it
CODE_MS = 1000  # how long a command whose `expect` matched may take to end, as in SWE-ReX
T = t.TypeVar("T")


class RexRuntime(AbstractRuntime):
    """Sessions, commands and files on one host. Starts its rex-rpc with the first call, and again after `close`."""

    def __init__(
        self,
        *,
        make: t.Callable[[], AsyncRex] = AsyncRex,
        host: str = "",
        prepare: t.Optional[t.Callable[[AsyncRex], t.Awaitable[t.Any]]] = None,
        logger: t.Optional[logging.Logger] = None,
    ) -> None:
        """`make` gives the client; `prepare` is awaited when that is open, to reach the host."""
        self.logger = logger or logging.getLogger("rex_rpc.swerex")
        self._make, self._path, self._prepare = make, host, prepare
        self._loop: t.Optional[LoopThread] = None
        self._rex: t.Optional[AsyncRex] = None

    # ------------------------------------------------------------ the client

    async def open(self) -> None:
        """Once; every other method does it by itself."""
        if self._loop:
            return
        loop, rex = LoopThread(), self._make()
        loop.start()
        try:
            await asyncio.wrap_future(loop.submit(rex.open()))
            if self._prepare:
                await asyncio.wrap_future(loop.submit(self._awaited(self._prepare(rex))))
        except BaseException:
            await self._end(loop, rex)
            raise
        self._loop, self._rex = loop, rex

    async def _awaited(self, awaitable: t.Awaitable[T]) -> T:
        return await awaitable

    async def _on_loop(self, work: t.Callable[[AsyncHost], t.Coroutine[t.Any, t.Any, T]]) -> T:
        """Awaits work with the host, from whatever loop the caller has."""
        await self.open()
        assert self._loop and self._rex
        return await asyncio.wrap_future(self._loop.submit(work(self._rex.host(self._path))))

    async def _end(self, loop: LoopThread, rex: AsyncRex) -> None:
        await asyncio.wrap_future(loop.submit(rex.close()))
        loop.stop()

    async def close(self) -> CloseResponse:
        """Ends its sessions and what they started."""
        loop, rex, self._loop, self._rex = self._loop, self._rex, None, None
        if loop and rex:
            await self._end(loop, rex)
        return CloseResponse()

    async def is_alive(self, *, timeout: t.Optional[float] = None) -> IsAliveResponse:
        """Never raises; answers at once whatever sessions do."""
        try:
            await asyncio.wait_for(self._on_loop(lambda host: host.ping()), timeout)
        except (RexError, OSError, asyncio.TimeoutError) as error:
            return IsAliveResponse(is_alive=False, message=str(error) or "no answer in time")
        return IsAliveResponse(is_alive=True)

    # ------------------------------------------------------------ sessions

    async def create_session(self, request: CreateBashSessionRequest) -> CreateBashSessionResponse:
        """A bash that has read the user's files and then `startup_source`. `startup_timeout` is for the latter; the user's
        own files have STARTUP_MS beside it. A shell that does not come up leaves nothing.
        """
        return await self._on_loop(lambda host: self._create(host, request))

    async def _create(self, host: AsyncHost, request: CreateBashSessionRequest) -> CreateBashSessionResponse:
        try:
            session = await host.session(
                request.session,
                shell="bash",
                startup="interactive",
                startupSource=request.startup_source,
                startupTimeoutMs=STARTUP_MS + int(request.startup_timeout * 1000),
            ).open()
        except SessionExists as error:
            raise SessionExistsError(f"session {request.session} already exists") from error
        except StartFailed as error:
            raise SwerexException(f"session {request.session} did not start: {error.message} {error.output or ''}") from error
        assert session.created
        return CreateBashSessionResponse(output=session.created["startup"]["output"] if "startup" in session.created else "")

    async def run_in_session(self, action: t.Union[BashAction, BashInterruptAction]) -> BashObservation:
        """While an earlier command of the session runs, this waits for its end, within the action's `timeout`."""
        return await self._on_loop(lambda host: self._run(host.use_session(action.session), action))

    async def _run(self, session: AsyncSession, action: t.Union[BashAction, BashInterruptAction]) -> BashObservation:
        try:
            if isinstance(action, BashInterruptAction):
                return await interrupt(session, action)
            if action.is_interactive_command or action.is_interactive_quit:
                return await interact(session, action)
            return await run(session, action)
        except SessionNotFound as error:
            raise SessionDoesNotExistError(f"session {action.session!r} does not exist") from error

    async def close_session(self, request: CloseBashSessionRequest) -> CloseBashSessionResponse:
        """Ends the session with all it started."""
        try:
            await self._on_loop(lambda host: host.use_session(request.session).close())
        except SessionNotFound as error:
            raise SessionDoesNotExistError(f"session {request.session!r} does not exist") from error
        return CloseBashSessionResponse()

    # ------------------------------------------------------------ commands and files

    async def execute(self, command: Command) -> CommandResponse:
        """As subprocess.run. Ends with the program, whoever still holds its pipes; a time-out ends all it started."""
        try:
            result = await self._on_loop(lambda host: host.process_run(
                argv_of(command), cwd=command.cwd, env=command.env, clearEnv=command.env is not None,
                timeoutMs=None if command.timeout is None else max(1, int(command.timeout * 1000)),
                mergeStderr=command.merge_output_streams, maxOutputBytes=OUTPUT_BYTES,
            ))  # fmt: skip
        except (OsError, StartFailed) as error:
            raise os_error(error) from error
        if result["state"] == "timedOut":
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        exit_code = result["exitCode"]
        if exit_code is None and result["signal"]:
            exit_code = -getattr(signal, f"SIG{result['signal']}", 0) or None
        response = CommandResponse(stdout=whole(result, "stdout"), stderr=whole(result, "stderr"), exit_code=exit_code)
        if command.check and exit_code != 0:
            what = f"Command {command.command!r} failed with exit code {exit_code}. Stdout:\n{response.stdout!r}"
            raise NonZeroExitCodeError(explained(command.error_msg, f"{what}\nStderr:\n{response.stderr!r}"))
        return response

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        """The file as it is: a CRLF stays one."""
        try:
            data = await self._on_loop(lambda host: read_whole(host, request.path))
        except OsError as error:
            raise os_error(error) from error
        return ReadFileResponse(content=data.decode(request.encoding or "utf-8", request.errors or "strict"))

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        """Makes the directories that are missing; the old file or the new one is there, never half."""
        try:
            await self._on_loop(lambda host: host.file_write(request.path, request.content))
        except OsError as error:
            raise os_error(error) from error
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """A file or a directory, with modes and links; a directory goes into one that is there."""
        source, target = os.path.abspath(request.source_path), request.target_path

        async def copy(host: AsyncHost) -> None:
            await host.file_mkdir(posixpath.dirname(target) or ".", parents=True)
            await host.rex.file_copy(
                from_={"path": source}, to={"host": host.path, "path": target}, recursive=True, overwrite=True
            )

        try:
            await self._on_loop(copy)
        except OsError as error:
            raise os_error(error) from error
        return UploadResponse()


# ---------------------------------------------------------------- one action


async def run(session: AsyncSession, action: BashAction) -> BashObservation:
    """A command at the shell's prompt. After CommandTimeoutError it runs on; `result` of the error is what there was."""
    until = None if action.timeout is None else time.monotonic() + action.timeout
    while True:
        try:
            result = await session.run(
                action.command, waitMs=left(until), expect=action.expect, returnOnInput=False, maxOutputBytes=OUTPUT_BYTES
            )
            break
        except SessionBusy as busy:
            waited = await session.wait([{"exit": True}], job=busy.job, waitMs=left(until))
            if waited["met"] is None:
                raise RanOutOfTime(action, None) from busy
    if result["syntaxError"]:
        fault = result["syntaxError"]["text"]
        raise BashIncorrectSyntaxError(
            f"Command {action.command!r} has wrong syntax: {fault}",
            extra_info={"bash_stdout": result["output"], "bash_stderr": fault},
        )
    if result["state"] == "running":
        raise RanOutOfTime(action, result)
    output, exit_code, expect_string = await output_of(session, result), result["exitCode"], ""
    if result["state"] == "matched" and result["expect"]:
        expect_string = action.expect[result["expect"]["index"]]
        if action.check != "ignore":
            ended = await session.wait([{"exit": True}], job=t.cast(str, result["job"]), waitMs=CODE_MS)
            if ended["met"] == 0 and "result" in ended:
                exit_code = ended["result"]["exitCode"]
                output += await between(session, result["next"], ended["result"]["next"])
    return checked(action, BashObservation(output=output, exit_code=exit_code, expect_string=expect_string))


def checked(action: BashAction, observation: BashObservation) -> BashObservation:
    if action.check == "ignore":
        observation.exit_code = None
    if action.check == "raise" and observation.exit_code is None:
        raise NoExitCodeError(f"the exit code of {action.command!r} is not known")
    if action.check == "raise" and observation.exit_code != 0:
        failed = f"Command {action.command!r} failed with exit code {observation.exit_code}. Here is the output:\n"
        raise NonZeroExitCodeError(explained(action.error_msg, failed + observation.output))
    return observation


async def interact(session: AsyncSession, action: BashAction) -> BashObservation:
    """A line for the program that has the terminal, or one that starts such a program. The exit code is 0, as theirs.

    Without `expect` it is over when the program waits for more, which SWE-ReX cannot know.
    """
    line = action.command.rstrip("\n")
    at_prompt = (await session.info())["state"] in ("ready", "exited")
    result = await session.run(
        line,
        interactive=not at_prompt,
        expect=action.expect,
        returnOnInput=not action.expect,
        waitMs=None if action.timeout is None else max(0, int(action.timeout * 1000)),
        maxOutputBytes=OUTPUT_BYTES,
    )
    expect_string = action.expect[result["expect"]["index"]] if result["expect"] else ""
    if result["state"] == "running" or (result["state"] == "waitingInput" and action.expect):
        raise RanOutOfTime(action, result)
    return BashObservation(output=await output_of(session, result), exit_code=0, expect_string=expect_string)


async def interrupt(session: AsyncSession, action: BashInterruptAction) -> BashObservation:
    """Ends what is in the foreground, and that alone, by force if need be. With `expect`, a program that takes the
    interrupt and shows one of these lives on.
    """
    grace = max(1, int(action.timeout * 1000) * max(1, action.n_retry))
    if action.expect:
        begin = (await session.info())["next"]
        await session.interrupt(graceMs=0)
        patterns: t.List[Condition] = [{"match": pattern} for pattern in action.expect]
        met = await session.wait([*patterns, {"exit": True}], waitMs=grace, from_=begin)
        if met["met"] is not None:
            expected = action.expect[met["met"]] if met["met"] < len(patterns) else ""
            output = await between(session, begin, met["next"])
            return BashObservation(output=output.strip(), exit_code=0, expect_string=expected)
    done = await session.interrupt(escalate=True, graceMs=grace)
    if done["state"] not in ("ready", "exited"):
        raise CommandTimeoutError(f"Failed to interrupt session: it is {done['state']}")
    output = await output_of(session, done["result"]) if "result" in done else ""
    return BashObservation(output=output.strip(), exit_code=0)


class RanOutOfTime(CommandTimeoutError):
    """With what there was until then; None where it was not even begun."""

    def __init__(self, action: BashAction, result: t.Optional[RunResult]) -> None:
        self.result = result
        super().__init__(f"timeout after {action.timeout} seconds while running command {action.command!r}")


def left(until: t.Optional[float]) -> t.Optional[int]:
    return None if until is None else max(0, int((until - time.monotonic()) * 1000))


async def output_of(session: AsyncSession, result: RunResult) -> str:
    return await between(session, result["from"], result["next"]) if result["omitted"] else result["output"]


async def between(session: AsyncSession, begin: int, end: int) -> str:
    """What a session wrote between two offsets, as text."""
    pieces: t.List[bytes] = []
    while begin < end:
        piece = await session.read(offset=begin, maxBytes=min(OUTPUT_BYTES, end - begin), view="clean")
        if piece["next"] <= begin:
            break
        pieces.append(data_of(piece))
        begin = piece["next"]
    return b"".join(pieces).decode(errors="backslashreplace")


# ---------------------------------------------------------------- translations


def argv_of(command: Command) -> t.Union[str, t.List[str]]:
    if not command.shell:
        return [command.command] if isinstance(command.command, str) else command.command
    return command.command if isinstance(command.command, str) else ["/bin/sh", "-c", *command.command]


def whole(result: ProcessRunResult, stream: t.Literal["stdout", "stderr"]) -> str:
    """With a line that says so where something was left out."""
    data, omitted = data_of(result, stream), result["omitted"][stream]
    if omitted:
        note = f"\n[{omitted['bytes']} bytes left out]\n".encode()
        data = data[: omitted["from"]] + note + data[omitted["from"] :]
    return data.decode(errors="backslashreplace")


async def read_whole(host: AsyncHost, path: str) -> bytes:
    data = b""
    while True:
        piece = await host.file_read(path, offset=len(data), length=OUTPUT_BYTES, encoding="base64")
        data += data_of(piece)
        if len(data) >= piece["size"] or piece["next"] <= piece["from"]:
            return data


def os_error(error: t.Union[OsError, StartFailed]) -> OSError:
    """The exception that Python has for its errno."""
    number = error.errno
    return OSError(number, os.strerror(number), error.path) if number is not None else OSError(error.message)


def explained(reason: str, what: str) -> str:
    return f"{reason}: {what}" if reason else what
