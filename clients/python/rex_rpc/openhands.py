"""OpenHands' BashSession on rex-rpc: CmdRunAction in, CmdOutputObservation with its metadata out.

Needs the package openhands, whose classes these are; `install()` puts this one where OpenHands looks for its own. What
differs from theirs: a command is run as it was given, any number of lines; no output is lost between two calls; a
program that waits for input is told at once, not after a time of silence; a shell that ends is a result, and the next
command has a new one; what a command prints can fake nothing. A here-document may be typed line by line, as inputs, and is
run when its last line is there; any other unfinished text is told as the syntax error that it is. `py_interpreter_path`
stays empty, as only asking the shell behind its user's back would tell.
"""

from __future__ import annotations

import base64
import importlib
import math
import os
import re
import time
import typing as t
import uuid

from openhands.events.action import CmdRunAction
from openhands.events.observation.commands import CmdOutputMetadata, CmdOutputObservation
from openhands.runtime.utils.bash import BashCommandStatus
from openhands.runtime.utils.bash_constants import TIMEOUT_MESSAGE_TEMPLATE

from .packing import data_of
from .sync import Rex, Session
from .wire_gen import Condition, ResourceLimits, RunResult

OUTPUT_BYTES = 1 << 20  # of one observation; head and tail are kept, and what is cut is counted
STARTUP_MS = 60_000  # conda and the like take their time, on a busy machine more of it
# What bash says of a text that ends within a here-document.
NO_END = re.compile(r"warning: here-document at line \d+ delimited by end-of-file")
GOES_ON = "[Below is the output of the previous command.]\n"
STILL_RUNNING = (BashCommandStatus.NO_CHANGE_TIMEOUT, BashCommandStatus.HARD_TIMEOUT)


def install() -> None:
    """Puts BashSession where OpenHands' runtimes find theirs."""
    for module in ("openhands.runtime.utils.bash", "openhands.runtime.action_execution_server"):
        try:
            setattr(importlib.import_module(module), "BashSession", BashSession)
        except ImportError:  # the server needs more than a client has
            continue


class BashSession:
    """One bash. `initialize` starts it, with a rex-rpc of its own unless it is given one; `close` ends what it started."""

    def __init__(
        self,
        work_dir: t.Union[str, "os.PathLike[str]"],
        username: t.Optional[str] = None,
        no_change_timeout_seconds: int = 30,
        max_memory_mb: t.Optional[int] = None,
        *,
        rex: t.Optional[Rex] = None,
        host: str = "",
        return_on_input: bool = True,
    ) -> None:
        """`username` is part of the session's name and no more: who a command runs as is a matter of the `host`.
        `max_memory_mb` holds. Without `return_on_input` what waits for input is told after the time of silence.
        """
        self.NO_CHANGE_TIMEOUT_SECONDS = no_change_timeout_seconds
        self.work_dir = os.fspath(work_dir)
        self._quiet = milliseconds(no_change_timeout_seconds) or 1
        self.username = username
        self.max_memory_mb = max_memory_mb
        self.prev_status: t.Optional[BashCommandStatus] = None
        self.session: Session
        self._rex, self._own, self._path = rex or Rex(), rex is None, host
        self._return_on_input = return_on_input
        self._initialized = self._closed = False
        self._cwd = os.path.abspath(self.work_dir)
        self._begun = ""  # a text whose here-document has not ended: nothing of it has been run
        self._seen = 0  # what of the session's output has been told

    def initialize(self) -> None:
        if self._own:
            self._rex.open()
        limits: t.Optional[ResourceLimits] = {"memoryBytes": self.max_memory_mb << 20} if self.max_memory_mb else None
        name = f"openhands-{self.username}-{uuid.uuid4()}"
        here = self._rex.host(self._path)
        self.session = here.session(
            name, shell="bash", startup="interactive", startupTimeoutMs=STARTUP_MS, cwd=self._cwd, limits=limits
        ).open()
        assert self.session.created
        self._seen = self.session.created["next"]
        self._initialized = True

    def close(self) -> None:
        if self._initialized and not self._closed:
            self._closed = True
            self.session.__exit__(None, None, None)
            if self._own:
                self._rex.close()

    @property
    def cwd(self) -> str:
        return self._cwd

    def execute(self, action: CmdRunAction) -> CmdOutputObservation:
        """RuntimeError, unless initialized."""
        if not self._initialized:
            raise RuntimeError("the session is not initialized")
        empty, prefix = not action.command.strip(), ""
        if self._begun:
            return self._go_on(action, empty)
        if self.prev_status in STILL_RUNNING:
            ended = self._ended()
            if ended and (action.is_input or empty):
                late = "" if empty else "[The command had ended before this input, which was not typed.]\n"
                return self._completed(action, ended, late, self._output(ended["next"]))
            if action.is_input and not empty and not is_special_key(action.command):
                return self._run(action, action.command.rstrip("\n"), interactive=True)
            if action.is_input or empty:
                return self._watch(action)
            if not ended:
                return self._refused(action.command)
            prefix = f"{GOES_ON}{self._output(ended['next'])}[It completed with exit code {ended['exitCode']}.]\n"
        elif action.is_input or empty:
            doing = "retrieve logs from" if empty else "interact with"
            return CmdOutputObservation(f"ERROR: No previous running command to {doing}.", command="")
        if self._wants_more(action.command):
            self._begun = action.command
            return self._awaits_line(action, prefix)
        return self._run(action, action.command, prefix)

    # ------------------------------------------------------------ what is done

    def _wants_more(self, text: str) -> bool:
        """Whether a here-document of it has not ended, by the word of a bash that runs nothing."""
        if "<<" not in text:
            return False
        said = self._rex.host(self._path).process_run(["bash", "-n"], stdin=text + "\n", env={"LC_ALL": "C"})
        return said["exitCode"] == 0 and bool(NO_END.search(said["stderr"]))

    def _go_on(self, action: CmdRunAction, empty: bool) -> CmdOutputObservation:
        """One more line of a here-document; C-c gives it up, C-d ends it where it is."""
        key = action.command.strip() if is_special_key(action.command) else ""
        if not action.is_input and not empty:
            return self._refused(action.command)
        if key == "C-c":
            self._begun, self.prev_status = "", BashCommandStatus.COMPLETED
            suffix = "\n[The here-document was given up, and nothing of the command was run. CTRL+C was sent.]"
            metadata = CmdOutputMetadata(exit_code=130, working_dir=self._cwd, suffix=suffix)
            return self._observation("", action.command, metadata, action.hidden)
        if not key and not empty:
            self._begun += "\n" + action.command
        if key != "C-d" and self._wants_more(self._begun):
            return self._awaits_line(action, GOES_ON)
        text, self._begun = self._begun, ""
        return self._run(action, text)

    def _run(self, action: CmdRunAction, text: str, prefix: str = "", interactive: bool = False) -> CmdOutputObservation:
        """A command for the shell, or a line for the program that runs."""
        started = time.monotonic()
        before = self._output(self.session.info()["next"]) if interactive else ""
        result = self.session.run(
            text,
            interactive=interactive,
            waitMs=milliseconds(action.timeout),
            quietMs=None if action.blocking else self._quiet,
            returnOnInput=self._return_on_input and not action.blocking,
            maxOutputBytes=OUTPUT_BYTES,
        )
        if result["restarted"]:
            prefix += f"[The shell had ended ({result['restarted']['cause']}); this ran in a new one.]\n"
        if interactive:
            self._seen = result["from"]  # what lies before that is the echo of what was typed
        content = before + self._output(result["from"])
        if result["omitted"]:
            content += self._output(result["next"])
        else:
            content, self._seen = content + result["output"], result["next"]
        if result["state"] in ("running", "waitingInput"):
            hard = bool(action.timeout) and time.monotonic() - started >= (action.timeout or 0)
            waits = "input" if result["state"] == "waitingInput" else ""
            return self._unfinished(action, content, hard, waits, GOES_ON if interactive else prefix)
        return self._completed(action, result, prefix, content)

    def _watch(self, action: CmdRunAction) -> CmdOutputObservation:
        """Presses the key, if it is one, and goes on watching: silence counts from now on."""
        if is_special_key(action.command):
            self.session.write(keys=[action.command.strip()])
        until = time.monotonic() + action.timeout if action.timeout else None
        asked: t.List[Condition] = [{"exit": True}]
        if self._return_on_input and not action.blocking:
            asked.append({"input": True})
        news: t.List[Condition] = [] if action.blocking else [{"bytes": self._seen + 1}]
        met = self.session.wait([*asked, *news], waitMs=self._at_most(action, until))
        if met["met"] == len(asked):  # there is output: from here on silence is what the journal knows of
            met = self.session.wait([*asked, {"quietMs": self._quiet}], waitMs=left(until))
        if met["met"] == 0:
            assert "result" in met  # the first that was asked for
            return self._completed(action, met["result"], "", self._output(met["result"]["next"]))
        hard = until is not None and time.monotonic() >= until
        content = self._output(self.session.info()["next"])
        return self._unfinished(action, content, hard, "input" if met["met"] == 1 and len(asked) == 2 else "", GOES_ON)

    def _at_most(self, action: CmdRunAction, until: t.Optional[float]) -> t.Optional[int]:
        times = [time_ for time_ in (left(until), None if action.blocking else self._quiet) if time_ is not None]
        return min(times, default=None)

    def _ended(self) -> t.Optional[RunResult]:
        now = self.session.wait([{"exit": True}], waitMs=0)
        return now.get("result") if now["met"] == 0 else None

    # ------------------------------------------------------------ what is told

    def _completed(self, action: CmdRunAction, result: RunResult, prefix: str, content: str) -> CmdOutputObservation:
        self.prev_status = BashCommandStatus.COMPLETED
        self._cwd = cwd_of(result) or self._cwd
        machine, exit_code = self._rex.server["machine"], result["exitCode"]
        suffix = f"\n[The command completed with exit code {exit_code}."
        if exit_code is None:
            suffix = f"\n[How the command ended is not known ({result['state']})."
        if action.is_input and is_special_key(action.command):
            suffix += f" CTRL+{action.command.strip()[-1].upper()} was sent."
        if result["syntaxError"] and result["syntaxError"]["text"] not in content:
            content += result["syntaxError"]["text"]
        metadata = CmdOutputMetadata(
            exit_code=-1 if exit_code is None else exit_code,
            username=machine["user"] if not self._path else None,
            hostname=machine["hostname"] if not self._path else None,
            working_dir=self._cwd,
            prefix=prefix,
            suffix=suffix + "]",
        )
        return self._observation(content, action.command, metadata, action.hidden)

    def _awaits_line(self, action: CmdRunAction, prefix: str) -> CmdOutputObservation:
        if self._return_on_input:
            return self._unfinished(action, "", False, "the rest of its here-document", prefix)
        silence = min(self._quiet, milliseconds(action.timeout) or self._quiet)
        time.sleep(silence / 1000)
        return self._unfinished(action, "", silence < self._quiet, "", prefix)

    def _unfinished(self, action: CmdRunAction, content: str, hard: bool, waits: str, prefix: str) -> CmdOutputObservation:
        """`waits`: for what, if it is known that it waits."""
        self.prev_status = BashCommandStatus.HARD_TIMEOUT if hard else BashCommandStatus.NO_CHANGE_TIMEOUT
        why = f"has no new output after {self.NO_CHANGE_TIMEOUT_SECONDS} seconds"
        if hard:
            why = f"timed out after {action.timeout} seconds"
        elif waits:
            why = f"waits for {waits}"
        metadata = CmdOutputMetadata(prefix=prefix, suffix=f"\n[The command {why}. {TIMEOUT_MESSAGE_TEMPLATE}]")
        return self._observation(content, action.command, metadata, action.hidden)

    def _refused(self, command: str) -> CmdOutputObservation:
        suffix = (
            f'\n[Your command "{command}" is NOT executed. The previous command is still running; '
            f"`is_input` sends text and keys to it. {TIMEOUT_MESSAGE_TEMPLATE}]"
        )
        metadata = CmdOutputMetadata(prefix=GOES_ON, suffix=suffix)
        return self._observation(self._output(self.session.info()["next"]), command, metadata, False)

    def _observation(self, content: str, command: str, metadata: CmdOutputMetadata, hidden: bool) -> CmdOutputObservation:
        return CmdOutputObservation(content.removesuffix("\n"), command=command, metadata=metadata, hidden=hidden)

    def _output(self, end: int) -> str:
        """What was written since the last time, up to `end`, head and tail of it."""
        begin, self._seen = self._seen, max(self._seen, end)
        if end - begin <= OUTPUT_BYTES:
            return self._between(begin, end)
        half = OUTPUT_BYTES // 2
        left_out = f"\n[{end - begin - 2 * half} bytes left out]\n"
        return self._between(begin, begin + half) + left_out + self._between(end - half, end)

    def _between(self, begin: int, end: int) -> str:
        pieces: t.List[bytes] = []
        while begin < end:
            piece = self.session.read(offset=begin, maxBytes=end - begin, view="clean")
            if piece["next"] <= begin:
                break
            pieces.append(data_of(piece))
            begin = piece["next"]
        return b"".join(pieces).decode(errors="replace")


def cwd_of(result: RunResult) -> t.Optional[str]:
    """As os.fsdecode has it where it is no UTF-8; None where the shell did not say."""
    if result.get("cwdBytes"):
        return os.fsdecode(base64.b64decode(str(result.get("cwdBytes"))))
    return result.get("cwd")


def is_special_key(command: str) -> bool:
    """`C-c` and the like, which are pressed and not typed."""
    key = command.strip()
    return len(key) == 3 and key.startswith("C-")


def left(until: t.Optional[float]) -> t.Optional[int]:
    """In ms and not rounded down, so that the time has passed when they have."""
    return None if until is None else max(0, math.ceil((until - time.monotonic()) * 1000))


def milliseconds(seconds: t.Optional[float]) -> t.Optional[int]:
    return None if not seconds else max(1, int(seconds * 1000))
