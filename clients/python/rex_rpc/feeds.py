"""What a server keeps sending: the output of a session, its events, changes of files, each as an async iterator."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import typing as t

from .errors_gen import SessionEnded
from .packing import Params, data_of
from .wire_gen import FileChangedParams, Gap, SessionEventParams

if t.TYPE_CHECKING:
    from .aio import AsyncHost

EVENTS_KEPT = 10_000  # of a feed that nobody reads; then the oldest go, and are counted
SMALL_BYTES = 256  # a piece of output that is not larger is put together with the next
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
        self.opening, self.closing = opening, closing
        self.host, self._params = host, params
        self._kept: t.Deque[T] = collections.deque()
        self._news = asyncio.Event()
        self._ended = False
        self._error: t.Optional[Exception] = None

    async def open(self) -> None:
        """Once; nothing that happens behind the server's answer is missed."""
        if not self.attachment:
            try:
                await self.host.open_feed(self.opening, self._params, self.opened)
            except asyncio.CancelledError:
                await self.close()
                raise

    def opened(self, result: t.Any) -> None:
        """The server's answer to the opening, the first or another over a new connection."""
        self.attachment = result["attachment"]
        self.host.rex.feeds[self.attachment] = self

    def again(self) -> t.Optional[Params]:
        """The params that let it go on over a new connection; None: nothing does."""
        return None if self._ended else {**self._params, "resumed": True}

    @property
    def is_over(self) -> bool:
        return self._ended

    @property
    def is_told(self) -> bool:
        """Whether the connection that there is knows it."""
        return self.host.rex.feeds.get(self.attachment) is self

    async def close(self) -> None:
        if self.attachment and not self._ended:
            self.end(None)
            if self.is_told:
                await self.host.rex.leave(self)

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
        if not self._ended:
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
        self._consumed, self._is_read = -1, False  # up to where; what was lost takes up no window
        self._next = -1  # where what comes next begins
        self._created = ""  # which session it is, for others may have its name

    def opened(self, result: t.Any) -> None:
        super().opened(result)
        created = result.get("info", {}).get("createdAt", "")
        if not self._created:
            self._created, self._next = created, result.get("offset", -1)
            self._consumed = self._next
        elif created != self._created:
            self.end(SessionEnded("another session has its name by now", {"host": self.path, "executed": "unknown"}))
        else:
            self._acknowledge()  # what was consumed while there was nobody to be told

    def again(self) -> t.Optional[Params]:
        params = super().again()
        return {**params, "offset": self._next, "acked": self._consumed} if params and self._next >= 0 else None

    def _keep(self, item: Chunk) -> None:
        """All of it, for the window bounds the bytes; how many pieces they make is bounded here."""
        last = self._kept.pop() if self._kept else None
        if last and item.gap is None and last.next == item.offset and len(last.data) <= SMALL_BYTES:
            item = Chunk(last.offset, item.next, last.data + item.data, last.gap)
        elif last:
            self._kept.append(last)
        self._kept.append(item)
        self._news.set()

    def _acknowledge(self) -> None:
        if self.is_told:
            self.host.notify("session/ack", {"attachment": self.attachment, "offset": self._consumed})

    async def __anext__(self) -> Chunk:
        if self._is_read and not self._ended:
            self._acknowledge()
        chunk = await super().__anext__()
        self._consumed, self._is_read = max(self._consumed, chunk.next), True
        return chunk

    def arrive(self, method: str, params: Params) -> None:
        if method != "session/output":  # an attachment is told of events, too, which `events` is for
            return
        if "gap" in params:
            self._consumed += params["offset"] - params["gap"]["from"]
        if params["data"] or "gap" in params:
            self._keep(Chunk(params["offset"], params["next"], data_of(params), params.get("gap")))
        self._next = params.get("next", -1)
        if params.get("eof"):
            self.host.rex.feeds.pop(self.attachment, None)
            self.end(None)


class AsyncEvents(AsyncFeed[SessionEventParams]):
    """What happens in a session, or in all of a host."""

    def __init__(self, host: "AsyncHost", params: Params) -> None:
        super().__init__(host, "session/subscribe", "session/unsubscribe", params)


class AsyncChanges(AsyncFeed[FileChangedParams]):
    """What changes below a path."""

    def __init__(self, host: "AsyncHost", params: Params) -> None:
        super().__init__(host, "file/watch", "file/unwatch", params)
