"""One JSON-RPC endpoint over a pair of asyncio streams, in the framing of the language-server protocol.

Knows no method but $/cancelRequest and $/progress, and not where its streams lead.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import typing as t

from .errors import ConnectionLost, RexError, from_wire
from .packing import Params

FRAME_BYTES = 256 << 20  # no server sends more than its limit `frameBytes`, 16 MiB by default
# How long a cancelled call waits for the word that what it started is gone: three steps of graceMs, and some.
CANCEL_S = 10.0
BANNER_S = 0.2  # for the rest of what is no message, so that it can be shown
WRITE_AHEAD = 64 << 10  # beyond it a call waits until the server reads
ProgressCall = t.Callable[[t.Any], None]
Answer = t.Callable[[str, Params], t.Awaitable[t.Any]]


class Connection:
    """Passive but for one task that reads. Whoever makes one calls `close` in the end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_request: Answer,
        on_notification: t.Callable[[str, Params], None],
        last_words: t.Callable[[], t.Awaitable[t.Tuple[str, str]]],
        on_lost: t.Callable[[ConnectionLost], None],
    ) -> None:
        """`last_words` is awaited once, when nothing more can be read: how the server ended, and its standard error.
        `on_lost` is told after all calls have failed.
        """
        self._reader, self._writer = reader, writer
        self._on_request, self._on_notification = on_request, on_notification
        self._last_words, self._on_lost = last_words, on_lost
        self._ids = itertools.count(1)
        self._pending: t.Dict[int, t.Tuple[asyncio.Future[t.Any], t.Optional[ProgressCall]]] = {}
        self._progress: t.Dict[int, ProgressCall] = {}
        self._serving: t.Dict[t.Any, asyncio.Task[None]] = {}
        self._drain = asyncio.Lock()  # before Python 3.11 only one task may wait for a writer
        self._lost: t.Optional[ConnectionLost] = None
        self._reading = asyncio.ensure_future(self._read())

    async def call(
        self,
        method: str,
        params: Params,
        progress: t.Optional[ProgressCall] = None,
        on_result: t.Optional[t.Callable[[t.Any], None]] = None,
    ) -> t.Any:
        """Sends a request and returns its result.

        `on_result` gets the result before anything that was sent behind it is looked at. A task that is cancelled here
        asks the server to stop what the request started, and waits for its word that it has; a second cancel does not.
        """
        if self._lost:
            raise ConnectionLost(self._lost.reason, "no", self._lost.stderr)
        number = next(self._ids)
        if progress:
            params = {**params, "progressToken": number}
            self._progress[number] = progress
        future: asyncio.Future[t.Any] = asyncio.get_running_loop().create_future()
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            self._pending[number] = (future, on_result)
            if self._writer.transport.get_write_buffer_size() > WRITE_AHEAD:
                await self._drained()
            return await future
        except asyncio.CancelledError as cancelled:
            if number not in self._pending:  # the answer came just before
                raise
            self.notify("$/cancelRequest", {"id": number})
            last = asyncio.get_running_loop().create_future()  # as the first has been cancelled with the task
            last.add_done_callback(lambda done: done.exception())  # so that nobody calls it unheard
            self._pending[number] = (last, on_result)
            await asyncio.wait([last], timeout=CANCEL_S)
            if last.done():
                raise cancelled from last.exception()
            raise
        finally:
            self._progress.pop(number, None)

    def notify(self, method: str, params: Params) -> None:
        if not self._lost:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    async def ended(self) -> t.Optional[ConnectionLost]:
        """Once `on_lost` has been told: what it was told."""
        await asyncio.wait([self._reading])
        return self._lost

    async def close(self) -> None:
        """Closes the streams; what is still under way fails with ConnectionLost."""
        self._writer.close()
        await asyncio.wait([self._reading], timeout=CANCEL_S)
        self._reading.cancel()
        await asyncio.wait([self._reading])

    def _send(self, message: t.Dict[str, t.Any]) -> None:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _drained(self) -> None:
        try:
            async with self._drain:
                await self._writer.drain()
        except ConnectionError:
            pass  # the reader finds the end, too, and says more about it

    async def _read(self) -> None:
        reason = "the connection was closed"
        try:
            while True:
                self._take(await self._frame())
        except asyncio.IncompleteReadError as end:
            reason = "the server has ended" if not end.partial else "the server has ended within a message"
        except (OSError, ValueError, KeyError, TypeError, AttributeError, asyncio.LimitOverrunError) as error:
            reason = f"what came is no rex-rpc's: {error}" if not isinstance(error, OSError) else f"the connection broke: {error}"
        finally:
            self._writer.close()
            # From here on no answer can come; nobody shall wait for one, whatever the last words take.
            self._lost = ConnectionLost(reason, "unknown")
            try:
                how, stderr = await self._last_words()
                self._lost = ConnectionLost(f"{reason} ({how})" if how else reason, "unknown", stderr)
            finally:
                self._fail(self._lost)

    def _fail(self, lost: ConnectionLost) -> None:
        for task in self._serving.values():
            task.cancel()
        pending, self._pending = self._pending, {}
        for future, _ in pending.values():
            if not future.done():
                future.set_exception(ConnectionLost(lost.reason, "unknown", lost.stderr))
        self._on_lost(lost)

    async def _frame(self) -> t.Dict[str, t.Any]:
        head = await self._reader.readexactly(1)
        if head not in b"Cc":  # a banner, a prompt: no end of a header may ever come
            try:
                head += await asyncio.wait_for(self._reader.read(200), BANNER_S)
            except asyncio.TimeoutError:
                pass
            raise ValueError(f"{head!r}")
        head += await self._reader.readuntil(b"\r\n\r\n")
        length = -1
        for line in head.decode("ascii").split("\r\n"):
            name, _, value = line.partition(":")
            if name.strip().lower() == "content-length":
                length = int(value)
        if not 0 <= length <= FRAME_BYTES:
            raise ValueError(f"{head[:200]!r}")
        message = json.loads(await self._reader.readexactly(length))
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        return message

    def _take(self, message: t.Dict[str, t.Any]) -> None:
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            task = asyncio.ensure_future(self._serve(message))
            self._serving[message["id"]] = task
            task.add_done_callback(lambda _: self._serving.pop(message["id"], None))
        elif message["method"] == "$/progress":
            params = message["params"]
            progress = self._progress.get(params["token"])
            if progress:
                told(progress, params["value"])
        elif message["method"] == "$/cancelRequest":
            served = self._serving.get(message["params"]["id"])
            if served:
                served.cancel()
        else:
            self._on_notification(message["method"], message.get("params", {}))

    def _answered(self, message: t.Dict[str, t.Any]) -> None:
        future, on_result = self._pending.pop(message["id"], (None, None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(from_wire(message["error"]))
            return
        if on_result:
            on_result(message["result"])
        future.set_result(message["result"])

    async def _serve(self, message: t.Dict[str, t.Any]) -> None:
        answer: t.Dict[str, t.Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self._on_request(message["method"], message.get("params", {}))
        except RexError as error:
            answer["error"] = {"code": error.code, "message": error.message, "data": error.data}
        except asyncio.CancelledError:
            answer["error"] = {"code": -32800, "message": "cancelled"}
        except Exception as error:  # the application's: the server is told, and goes on without an answer
            answer["error"] = {"code": -32603, "message": f"{type(error).__name__}: {error}"}
        if not self._lost:
            self._send(answer)


def told(listener: ProgressCall, value: t.Any) -> None:
    """Calls what the application gave; its mistakes are its event loop's to report, and end no connection."""
    try:
        listener(value)
    except Exception as error:
        context = {"message": "a progress callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
