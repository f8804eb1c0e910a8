"""What can go wrong, as exceptions. errors_gen.py has one class for each type of error that the protocol names."""

from __future__ import annotations

import typing as t


class RexError(Exception):
    """A request failed. (A command that fails is no error but a result.)

    `executed` says whether what was asked for took place: "no", "yes" or "unknown"; `retryable`, whether the same request
    may succeed later; `host`, where the error arose, if not at the instance this client is connected to; `data`, all that
    the server says of it; `result`, what there was until then.
    """

    code = 0
    type = "RexError"

    def __init__(self, message: str, data: t.Optional[t.Dict[str, t.Any]] = None, code: t.Optional[int] = None) -> None:
        self.message = message
        self.data: t.Dict[str, t.Any] = data or {}
        self.code = self.code if code is None else code
        self.type = str(self.data.get("type", self.type))
        self.executed = str(self.data.get("executed", "unknown"))
        self.retryable = bool(self.data.get("retryable", False))
        self.host = str(self.data.get("host", ""))
        self.result: t.Optional[t.Dict[str, t.Any]] = self.data.get("result")
        super().__init__(f"{self.type}{' at ' + self.host if self.host else ''}: {message}")


class ConnectionLost(RexError):
    """The server has ended, or what led to it: no answer will come. `stderr` is the last it said there.

    Of this client alone, never on the wire; so it has no code.
    """

    type = "ConnectionLost"

    def __init__(self, reason: str, executed: str, stderr: str = "") -> None:
        self.reason = reason
        self.stderr = stderr
        said = f"; its last words: {stderr.strip()[-500:]}" if stderr.strip() else ""
        super().__init__(reason + said, {"executed": executed, "stderr": stderr})


def from_wire(error: t.Mapping[str, t.Any]) -> RexError:
    """The exception of a response's `error`."""
    from .errors_gen import BY_CODE  # which needs this module first

    data = error.get("data")
    kind = BY_CODE.get(error["code"], RexError)
    return kind(error["message"], data if isinstance(data, dict) else {}, error["code"])
