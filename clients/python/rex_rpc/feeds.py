"""What a server keeps sending: the output of a session, its events, changes of files, each as an async iterator."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import typing as t

from .packing import Params, data_of
from .wire_gen import FileChangedParams, Gap, SessionEventParams

if t.TYPE_CHECKING:
    from .aio import AsyncHost

EVENTS_KEPT = 10_000  # of a feed that nobody reads; then the oldest go, and are counted
T = t.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A piece of a session's output: `data` is at `offset` of its journal, and `next` is behind it.

    `gap` is what the journal lost before it.
    """

    offset: int
    next: int
    data: bytes
    gap: t.Optional[Gap] = None

    @property
    def text(self) -> str:
        """With U+FFFD for what is no UTF-8, as the halves of a character that two chunks share."""
        return self.data.decode(errors="replace")


class AsyncFeed(t.Generic[T]):
    """What one attachment is told, in order. Opens when it is entered or first asked, ends with its `async with`."""

    def __init__(self, host: "AsyncHost", opening: str, closing: str, params: Params) -> None:
        self.lost = 0  # how many were dropped because nobody read them
        self.attachment = ""
        self.path = host.path
        self._host, self._opening, self._closing, self._params = host, opening, closing, params
        self._kept: t.Deque[T] = collections.deque()
        self._news = asyncio.Event()
        self._ended = False
        self._error: t.Optional[Exception] = None

    async def open(self) -> None:
        """Once; nothing that happens behind the server's answer is missed."""
        if not self.attachment:
            try:
                await self._host.open_feed(self._opening, self._params, self._opened)
            except asyncio.CancelledError:
                await self.close()
                raise

    def _opened(self, result: t.Any) -> None:
        self.attachment = result["attachment"]
        self._host.rex.feeds[self.attachment] = self

    async def close(self) -> None:
        if self._host.rex.feeds.pop(self.attachment, None) and not self._ended:
            self.end(None)
            await self._host.call(self._closing, {"attachment": self.attachment})

    async def __aenter__(self: Feed) -> Feed:
        await self.open()
        return self

    async def __aexit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        await self.close()

    def __aiter__(self: Feed) -> Feed:
        return self

    async def __anext__(self) -> T:
        await self.open()
        while not self._kept:
            if self._error:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._kept.popleft()

    def arrive(self, method: str, params: Params) -> None:
        self._keep(t.cast(T, params))

    def _keep(self, item: T) -> None:
        self._kept.append(item)
        if len(self._kept) > EVENTS_KEPT:
            self._kept.popleft()
            self.lost += 1
        self._news.set()

    def end(self, error: t.Optional[Exception]) -> None:
        self._ended = True
        self._error = error
        self._news.set()


Feed = t.TypeVar("Feed", bound=AsyncFeed[t.Any])


class AsyncOutput(AsyncFeed[Chunk]):
    """A session's output from an offset on. At most `window` bytes are under way or kept here: asking for a chunk says
    that the one before has been consumed, and a program that writes faster than that is not slowed, only its journal read
    later.
    """

    def __init__(self, host: "AsyncHost", params: Params) -> None:
        super().__init__(host, "session/attach", "session/detach", params)
        self._consumed = -1

    async def __anext__(self) -> Chunk:
        if self._consumed >= 0 and not self._ended:
            self._host.notify("session/ack", {"attachment": self.attachment, "offset": self._consumed})
        chunk = await super().__anext__()
        self._consumed = chunk.next
        return chunk

    def arrive(self, method: str, params: Params) -> None:
        if method != "session/output":  # an attachment is told of events, too, which `events` is for
            return
        if params["data"] or "gap" in params:
            self._keep(Chunk(params["offset"], params["next"], data_of(params), params.get("gap")))
        if params.get("eof"):
            self._host.rex.feeds.pop(self.attachment, None)
            self.end(None)


class AsyncEvents(AsyncFeed[SessionEventParams]):
    """What happens in a session, or in all of a host."""

    def __init__(self, host: "AsyncHost", params: Params) -> None:
        super().__init__(host, "session/subscribe", "session/unsubscribe", params)


class AsyncChanges(AsyncFeed[FileChangedParams]):
    """What changes below a path."""

    def __init__(self, host: "AsyncHost", params: Params) -> None:
        super().__init__(host, "file/watch", "file/unwatch", params)
