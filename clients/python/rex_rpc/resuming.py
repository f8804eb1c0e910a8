"""What of a lost connection may go on over the next one. Sends nothing."""

from __future__ import annotations

import asyncio
import base64
import typing as t

from .packing import Params, data_of
from .wire_gen import ProgressValue

PATIENCE_S = 30.0  # for a new connection and what was there; then the old error
PAUSE_S = 0.05  # before the second attempt, and twice as long before each one behind
PAUSE_MAX_S = 2.0
HELD_S = 5.0  # a connection that was lost sooner was no success: patience and pauses go on where they were

# Their repetition changes nothing. What is followed (attach, subscribe, watch) ends with its connection.
READS = frozenset({
    "file/list", "file/read", "file/realpath", "file/search", "file/stat", "file/watch", "forward/list", "host/info",
    "host/list", "ping", "rpc.discover", "session/attach", "session/info", "session/list", "session/read",
    "session/screen", "session/subscribe", "session/wait",
})  # fmt: skip
# What they name was the lost connection's, and may be another's by now.
BOUND = frozenset({"file/unwatch", "forward/close", "session/detach", "session/unsubscribe", "shutdown"})


def may_repeat(method: str, params: Params, is_new: bool) -> bool:
    """Whether a request can be sent over another connection. `is_new`: it was not sent before; else it may have taken
    place, and must have the same answer then.
    """
    if is_new:
        return method not in BOUND
    if any(condition.get("changed") for condition in params.get("any", ())):
        return False  # counts from when it was asked
    return method in READS or bool(params.get("key"))


class Patience:
    """How long and how often to try. Passive."""

    def __init__(self) -> None:
        self._until = self._held_since = 0.0
        self._pause = PAUSE_S

    def lost(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._held_since > HELD_S:
            self._until, self._pause = now + PATIENCE_S, PAUSE_S

    def held(self) -> None:
        self._held_since = asyncio.get_running_loop().time()

    def left(self) -> float:
        return self._until - asyncio.get_running_loop().time()

    async def pause(self) -> None:
        await asyncio.sleep(min(self._pause, max(self.left(), 0)))
        self._pause = min(self._pause * 2, PAUSE_MAX_S)


class Hosts:
    """The hosts that were connected, by the params that did it. Passive."""

    def __init__(self) -> None:
        self._params: t.Dict[str, Params] = {}

    def answered(self, method: str, params: Params) -> None:
        """A request has succeeded. What a deployment made is not kept: another machine would be in its place."""
        if method not in ("host/connect", "host/disconnect"):
            return
        path = f"{params['host']}/{params['name']}" if params.get("host") else params["name"]
        if method == "host/connect":
            self._params.pop(path, None)
            if "deployment" not in params:
                self._params[path] = params
        else:
            for gone in [each for each in self._params if f"{each}/".startswith(f"{path}/")]:
                del self._params[gone]

    def levels(self) -> t.List[t.List[Params]]:
        """Each needs those before it."""
        depths = sorted({path.count("/") for path in self._params})
        return [[params for path, params in self._params.items() if path.count("/") == depth] for depth in depths]


class Unseen:
    """Tells of the output of a run what it has not told yet: one that is sent again has all of it again."""

    def __init__(self, listener: t.Callable[[ProgressValue], None]) -> None:
        self._listener = listener
        self._next = -1

    def __call__(self, value: t.Any) -> None:
        if "next" in value:
            begin, self_next = value["from"], self._next
            if value["next"] <= self_next:
                return
            self._next = value["next"]
            data = data_of(value)
            if begin < self_next and len(data) == value["next"] - begin:  # else it is no plain cut of the journal
                rest = base64.b64encode(data[self_next - begin :]).decode()
                value = {**value, "data": rest, "encoding": "base64", "from": self_next}
        self._listener(value)
