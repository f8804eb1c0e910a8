"""The same client for programs without asyncio: each call blocks, and a thread of its own runs the loop of aio.py.

Any number of threads may use one Rex. Callbacks run on that thread (questions of hosts beside it) and must not call back.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import typing as t

from . import aio
from .errors import ConnectionLost
from .feeds import AsyncFeed
from .methods_gen import HostMethods, Progress, SessionMethods
from .packing import Params
from .wire_gen import InitializeResult, SessionInfo

P = t.ParamSpec("P")
T = t.TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, from `start` to `stop`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._gate = threading.Lock()  # held while a coroutine is handed over, so that none comes behind the end
        self._running = False
        self._thread: t.Optional[threading.Thread] = None

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rex-rpc", daemon=True)
        self._thread.start()
        self._running = True

    def submit(self, coroutine: t.Coroutine[t.Any, t.Any, T]) -> "concurrent.futures.Future[T]":
        with self._gate:
            if not self._running or threading.current_thread() is self._thread:
                coroutine.close()
                if self._running:
                    raise RuntimeError("a callback cannot call back: it would wait for itself")
                raise ConnectionLost("the client is not open", "no")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wait(self, coroutine: t.Coroutine[t.Any, t.Any, T]) -> T:
        """Its result. Whatever ends the waiting (a KeyboardInterrupt) cancels it."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Lets the tasks of other threads end, whose calls have failed by now, then ends the thread."""
        with self._gate:
            if not self._running:
                return
            self._running = False
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread:
            self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {t.cast("asyncio.Task[t.Any]", asyncio.current_task())}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()


def as_feed(core: t.Callable[t.Concatenate[t.Any, P], AsyncFeed[T]]) -> t.Callable[t.Concatenate[t.Any, P], "Feed[T]"]:
    """A method that gives a feed, of a host or session of aio.py, for ours."""

    @functools.wraps(core)
    def method(self: t.Any, /, *arguments: P.args, **named: P.kwargs) -> "Feed[T]":
        return Feed(core(self._core, *arguments, **named), self._loop)

    return method


class Host(HostMethods["Session"]):
    """A place where requests execute: a path of names that `host_connect` or the hosts file gave; "" is here."""

    def __init__(self, core: aio.AsyncHost, loop: LoopThread) -> None:
        self._core, self._loop = core, loop
        self.path = core.path

    def call(self, method: str, params: Params, progress: t.Optional[Progress] = None) -> t.Any:
        return self._loop.wait(self._core.call(method, params, progress))

    def host(self, path: str) -> "Host":
        """The host of that path as it is from this one. Nothing is dialled."""
        return Host(self._core.host(path), self._loop)

    def use_session(self, name: str) -> "Session":
        """A session that is there already. It stays when a `with` of it ends."""
        return Session(self._core.use_session(name), self._loop)

    events = as_feed(aio.AsyncHost.events)
    watch = as_feed(aio.AsyncHost.watch)

    def _session(self, params: Params) -> "Session":
        return Session(aio.AsyncSession(self._core, params), self._loop)


class Session(SessionMethods):
    """A program in its own terminal, or on pipes; by default a shell. `with` makes it and ends it, provably."""

    def __init__(self, core: aio.AsyncSession, loop: LoopThread) -> None:
        self._core, self._loop = core, loop

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def created(self) -> t.Optional[SessionInfo]:
        return self._core.created

    def open(self) -> "Session":
        self._loop.wait(self._core.open())
        return self

    def call(self, method: str, params: Params, progress: t.Optional[Progress] = None) -> t.Any:
        return self._loop.wait(self._core.call(method, params, progress))

    output = as_feed(aio.AsyncSession.output)
    events = as_feed(aio.AsyncSession.events)

    def __enter__(self) -> "Session":
        return self.open()

    def __exit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        self._loop.wait(self._core.__aexit__(kind, error, trace))


class Feed(t.Generic[T]):
    """What one attachment is told, in order. Opens when it is entered or first asked, ends with its `with`."""

    def __init__(self, core: AsyncFeed[T], loop: LoopThread) -> None:
        self._core, self._loop = core, loop

    @property
    def lost(self) -> int:
        """How many were dropped because nobody read them."""
        return self._core.lost

    def __enter__(self) -> "Feed[T]":
        self._loop.wait(self._core.open())
        return self

    def __exit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        self._loop.wait(self._core.close())

    def __iter__(self) -> "Feed[T]":
        return self

    def __next__(self) -> T:
        try:
            return self._loop.wait(self._core.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Rex(Host):
    """A rex-rpc and the connection to it: one of our own, started here, or with `connect` one that listens."""

    def __init__(
        self,
        program: t.Optional[str] = None,
        *,
        argv: t.Optional[t.Sequence[str]] = None,
        connect: t.Optional[str] = None,
        token: t.Optional[str] = None,
        env: t.Optional[t.Mapping[str, str]] = None,
        cwd: t.Optional[str] = None,
        prompt: t.Optional[aio.Prompt] = None,
        on_notification: t.Optional[aio.Notified] = None,
        resume: bool = False,
    ) -> None:
        """As AsyncRex."""
        self._rex = aio.AsyncRex(
            program, argv=argv, connect=connect, token=token, env=env, cwd=cwd, prompt=prompt,
            on_notification=on_notification, resume=resume,
        )  # fmt: skip
        super().__init__(self._rex, LoopThread())

    @property
    def server(self) -> InitializeResult:
        """What the server said of itself: its machine, its limits."""
        return self._rex.server

    def open(self) -> "Rex":
        """FileNotFoundError: there is no program; OSError: nobody listens; RexError: it did not let us in."""
        self._loop.start()
        try:
            self._loop.wait(self._rex.open())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def close(self) -> None:
        """Ends what belongs to this connection, and the server where it is our own. Once is enough."""
        try:
            self._loop.wait(self._rex.close())
        except ConnectionLost:
            return  # closed before
        self._loop.stop()

    def __enter__(self) -> "Rex":
        return self.open()

    def __exit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        self.close()
