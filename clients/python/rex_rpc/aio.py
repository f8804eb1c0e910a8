"""The client for asyncio: a connection to a rex-rpc, the hosts behind it, and sessions on them.

What can be asked of each is generated (methods_gen.py); here is what opens and closes.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import typing as t

from . import opening, resuming
from .connection import Connection
from .errors import ConnectionLost, RexError
from .errors_gen import HostLost, MethodNotFound, SessionEnded, SessionNotFound
from .feeds import AsyncChanges, AsyncEvents, AsyncFeed, AsyncOutput
from .methods_gen import AsyncHostMethods, AsyncSessionMethods, Progress
from .packing import OsStr, Params, pack
from .wire_gen import HostPromptParams, InitializeResult, Newline, Role, SessionInfo, Stream

PROTOCOL_VERSION = "1.0"
# Answers a question of a host that is being dialled (a password, an unknown key). A plain function may block: it is called
# in a thread.
Prompt = t.Callable[[HostPromptParams], t.Union[str, t.Awaitable[str]]]
Notified = t.Callable[[str, Params], None]


class AsyncHost(AsyncHostMethods["AsyncSession"]):
    """A place where requests execute: a path of names that `host_connect` or the hosts file gave; "" is here."""

    def __init__(self, rex: "AsyncRex", path: str) -> None:
        self.rex = rex
        self.path = path

    async def call(self, method: str, params: Params, progress: t.Optional[Progress] = None) -> t.Any:
        """Sends one request to be executed here and returns its result; what it raises is a RexError."""
        return await self.rex.request(method, self._here(params), progress)

    def notify(self, method: str, params: Params) -> None:
        self.rex.notify_server(method, self._here(params))

    async def open_feed(self, method: str, params: Params, on_result: t.Callable[[t.Any], None]) -> None:
        await self.rex.request(method, self._here(params), on_result=on_result)

    def _here(self, params: Params) -> Params:
        return {**params, "host": self.path} if self.path else params

    def host(self, path: str) -> "AsyncHost":
        """The host of that path as it is from this one. Nothing is dialled."""
        return AsyncHost(self.rex, f"{self.path}/{path}" if self.path else path)

    def use_session(self, name: str) -> "AsyncSession":
        """A session that is there already. It stays when a `with` of it ends."""
        return AsyncSession(self, {"session": name}, name)

    def events(self) -> AsyncEvents:
        """What happens in all sessions of this host, from now on."""
        return AsyncEvents(self, {})

    def watch(self, path: OsStr, *, recursive: t.Optional[bool] = None) -> AsyncChanges:
        """What changes below `path`, from now on."""
        return AsyncChanges(self, pack({"recursive": recursive}, os={"path": path}))

    def _session(self, params: Params) -> "AsyncSession":
        return AsyncSession(self, params)


class AsyncSession(AsyncSessionMethods):
    """A program in its own terminal, or on pipes; by default a shell. `async with` makes it and ends it, provably."""

    def __init__(self, host: AsyncHost, params: Params, name: str = "") -> None:
        self.host = host
        self.name = name  # as the server knows it; empty until it is made
        self.created: t.Optional[SessionInfo] = None
        self._params = params

    async def open(self) -> "AsyncSession":
        if not self.name:
            self.created = t.cast(SessionInfo, await self.host.call("session/create", self._params))
            self.name = self.created["session"]
        return self

    async def call(self, method: str, params: Params, progress: t.Optional[Progress] = None) -> t.Any:
        return await self.host.call(method, {"session": self.name, **params}, progress)

    def output(
        self,
        *,
        offset: t.Optional[int] = None,
        stream: t.Optional[Stream] = None,
        window: t.Optional[int] = None,
        role: t.Optional[Role] = None,
        takeover: t.Optional[bool] = None,
        newline: t.Optional[Newline] = None,
    ) -> AsyncOutput:
        """Output from `offset` on (absent: from now on), no byte twice and none missing; see session/attach."""
        params = {"session": self.name, "offset": offset, "stream": stream, "window": window, "role": role}
        return AsyncOutput(self.host, pack({**params, "takeover": takeover, "newline": newline}))

    def events(self) -> AsyncEvents:
        """What happens in this session, from now on."""
        return AsyncEvents(self.host, {"session": self.name})

    async def __aenter__(self) -> "AsyncSession":
        return await self.open()

    async def __aexit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        if not self.created:
            return
        try:
            await self.close()
        except (SessionNotFound, ConnectionLost):
            pass  # closed already, or ended with the connection


class AsyncRex(AsyncHost):
    """A rex-rpc and the connection to it: one of our own, started here, or with `connect` one that listens.

    Once it is open it serves any number of tasks. Every request goes through `request`.
    """

    def __init__(
        self,
        program: t.Optional[str] = None,
        *,
        argv: t.Optional[t.Sequence[str]] = None,
        connect: t.Optional[str] = None,
        token: t.Optional[str] = None,
        env: t.Optional[t.Mapping[str, str]] = None,
        cwd: t.Optional[str] = None,
        prompt: t.Optional[Prompt] = None,
        on_notification: t.Optional[Notified] = None,
        resume: bool = False,
    ) -> None:
        """`program`: the rex-rpc to start (opening.find_program finds it); `argv`: any command that becomes one;
        `connect`: `unix:PATH` or `tcp:HOST:PORT`, the latter with the `token` of that server.
        `on_notification` gets what belongs to no feed: host/status. `resume`: when the connection is lost, opens another
        by the same means, connects the hosts again and goes on: feeds from where they were, requests that only read or
        have a `key` once more. All else that is under way fails with ConnectionLost, as everything does after
        resuming.PATIENCE_S; sessions of the connection are gone, and forwards are to be opened anew.
        """
        super().__init__(self, "")
        self.feeds: t.Dict[str, AsyncFeed[t.Any]] = {}
        self._program, self._argv, self._connect, self._token = program, argv, connect, token
        self._env, self._cwd, self._prompt, self._notified = env, cwd, prompt, on_notification
        self._resume = resume
        self._opened: t.Optional[opening.Opened] = None
        self._connection: t.Optional[Connection] = None
        self._server: t.Optional[InitializeResult] = None
        self._hosts = resuming.Hosts()
        self._patience = resuming.Patience()
        self._reopening: t.Optional[asyncio.Task[None]] = None
        self._held: t.List[AsyncFeed[t.Any]] = []  # of the lost connection, while another is being opened

    @property
    def server(self) -> InitializeResult:
        """What the server said of itself: its machine, its limits."""
        assert self._server, "not open"
        return self._server

    async def open(self) -> "AsyncRex":
        """FileNotFoundError: there is no program; OSError: nobody listens; RexError: it did not let us in."""
        await self._connect_server()
        return self

    async def _connect_server(self) -> Connection:
        if self._connect:
            opened = await opening.Opened.dial(self._connect)
        else:
            argv = self._argv or ([self._program, "serve", "--stdio"] if self._program else opening.default_argv())
            opened = await opening.Opened.spawn(argv, self._env, self._cwd, apart=not self._argv)
        connection = Connection(
            opened.reader, opened.writer, self._serve, self._arrived, opened.last_words, lambda lost: self._lost(connection, lost)
        )
        params: Params = {"protocolVersion": PROTOCOL_VERSION, "token": self._token}
        params["clientInfo"] = {"name": opening.python_name()}
        params["capabilities"] = {"prompt": bool(self._prompt)}
        if not self._connect and not self._argv:
            params["processId"] = os.getpid()  # a child of ours that has inherited the pipe keeps nothing alive
        greeting = asyncio.ensure_future(connection.call("initialize", pack(params)))
        try:
            await asyncio.wait([greeting])  # a cancel of the call itself would wait for a word of the server's
            if isinstance(greeting.exception(), ConnectionLost):
                raise await connection.ended() or ConnectionLost("the server has ended", "unknown")  # with its last words
            self._server = greeting.result()
        except BaseException:
            await opened.end(opening.LAST_WORDS_S)  # what never greeted may not know how to end
            await connection.close()
            await asyncio.wait([greeting])
            greeting.exception()  # is heard
            raise
        connection.notify("initialized", {})
        self._connection, self._opened = connection, opened
        return connection

    async def request(
        self,
        method: str,
        params: Params,
        progress: t.Optional[Progress] = None,
        on_result: t.Optional[t.Callable[[t.Any], None]] = None,
    ) -> t.Any:
        """Sends one request as it is; where the connection is lost and resumed, again if that is safe."""
        told: t.Optional[ConnectionLost] = None
        progress = resuming.Unseen(progress) if progress and self._resume else progress
        while True:
            if self._reopening:
                await asyncio.wait([self._reopening])
            connection = self._connection
            if not connection:
                raise told or ConnectionLost("the client is not open", "no")
            try:
                result = await connection.call(method, params, progress, on_result)
                self._hosts.answered(method, params)
                return result
            except ConnectionLost as lost:
                told = told if told and told.executed != "no" else lost
                if not self._resume or not resuming.may_repeat(method, params, lost.executed == "no"):
                    raise told
                await connection.ended()
                if not self._reopening and self._connection in (connection, None):
                    raise told
            except RexError as error:
                if told and told.executed != "no" and "key" in params and error.executed == "no":
                    error.executed = error.data["executed"] = "unknown"  # as it speaks of the last time, not of the first
                raise

    async def leave(self, feed: AsyncFeed[t.Any]) -> None:
        """The server shall tell it nothing more."""
        del self.feeds[feed.attachment]
        if self._connection:
            try:
                await self._connection.call(feed.closing, feed.host._here({"attachment": feed.attachment}))
            except ConnectionLost:
                if not self._resume:  # else that it ended so is nothing to tell
                    raise

    def notify_server(self, method: str, params: Params) -> None:
        if self._connection:
            self._connection.notify(method, params)

    async def close(self) -> None:
        """Ends what belongs to this connection, and the server where it is our own."""
        if self._reopening:
            self._reopening.cancel()
            await asyncio.wait([self._reopening])
            self._reopening = None
        connection, self._connection = self._connection, None
        opened, self._opened = self._opened, None
        self._hosts = resuming.Hosts()
        if connection and opened:
            try:
                await asyncio.wait_for(connection.call("shutdown", {}), opening.END_S)
                connection.notify("exit", {})
            except (ConnectionLost, asyncio.TimeoutError):
                pass
            await connection.close()
            await opened.end()
        self._held = [*self._held, *self.feeds.values()]
        self.feeds = {}
        self._end_held(ConnectionLost("the client was closed", "unknown"))

    async def __aenter__(self) -> "AsyncRex":
        return await self.open()

    async def __aexit__(self, kind: t.Any, error: t.Any, trace: t.Any) -> None:
        await self.close()

    async def _serve(self, method: str, params: Params) -> t.Any:
        if method != "host/prompt" or not self._prompt:
            raise MethodNotFound(f"no method {method}")
        question = t.cast(HostPromptParams, params)
        if inspect.iscoroutinefunction(self._prompt):
            return {"answer": await self._prompt(question)}
        answer = await asyncio.get_running_loop().run_in_executor(None, self._prompt, question)
        return {"answer": await answer if inspect.isawaitable(answer) else answer}

    def _arrived(self, method: str, params: Params) -> None:
        feed = self.feeds.get(params.get("attachment", ""))
        if feed and method == "attachment/ended":
            del self.feeds[feed.attachment]
            kind = HostLost if params.get("host") else SessionEnded
            feed.end(kind(params["reason"], {"host": params.get("host", ""), "executed": "unknown"}))
        elif feed:
            feed.arrive(method, params)
        elif "attachment" not in params:
            if method == "host/status" and params.get("state") in ("lost", "closed") and "retryMs" not in params:
                self._host_lost(params["host"])
            if self._notified:
                self._notified(method, params)

    def _host_lost(self, host: str) -> None:
        """What came from there, or from behind there, will never end by itself."""
        for feed in [feed for feed in self.feeds.values() if f"{feed.path}/".startswith(f"{host}/")]:
            del self.feeds[feed.attachment]
            feed.end(HostLost(f"host {host} was lost", {"host": host, "executed": "unknown"}))

    def _lost(self, connection: Connection, lost: ConnectionLost) -> None:
        if self._reopening:
            return  # it sees for itself
        self._held, self.feeds = list(self.feeds.values()), {}
        if self._resume and connection is self._connection:
            self._patience.lost()
            self._reopening = asyncio.ensure_future(self._reopen(lost))
        else:
            self._end_held(lost)

    def _end_held(self, lost: ConnectionLost) -> None:
        held, self._held = self._held, []
        for feed in held:
            if not feed.is_told:
                feed.end(lost)

    async def _reopen(self, lost: ConnectionLost) -> None:
        """Until a new connection has what the lost one had, or for as long as there is patience."""
        try:
            while self._patience.left() > 0:
                await self._patience.pause()
                self.feeds = {}
                await self._hang_up()
                try:
                    connection = await asyncio.wait_for(self._connect_server(), max(self._patience.left(), 0))
                    await self._restore(connection)
                    self._patience.held()
                    return
                except (OSError, asyncio.TimeoutError, ConnectionLost):
                    pass
        except RexError:
            pass  # it does not let us in again
        finally:
            self._reopening = None
            self._end_held(lost)

    async def _hang_up(self) -> None:
        """Ends what is left of the lost connection, and its process, so that there are never two."""
        opened, self._opened = self._opened, None
        if opened and self._connection:
            await opened.end(opening.LAST_WORDS_S)
            await self._connection.close()

    async def _restore(self, connection: Connection) -> None:
        """Hosts that cannot be reached now are missing from then on; what was followed there has ended."""
        for level in self._hosts.levels():
            dialling = [asyncio.ensure_future(connection.call("host/connect", params)) for params in level]
            try:
                await asyncio.wait(dialling, timeout=max(self._patience.left(), 0))
            finally:
                for each in dialling:
                    each.add_done_callback(lambda done: done.cancelled() or done.exception())
                    each.cancel()
        for feed in self._held:
            params = feed.again()
            try:
                if params:
                    await connection.call(feed.opening, feed.host._here(params), on_result=feed.opened)
                if feed.is_told and feed.is_over:  # meanwhile
                    await self.leave(feed)
            except ConnectionLost:
                raise
            except RexError as error:
                feed.end(error)
        if connection.is_lost:
            raise ConnectionLost("the new connection was lost, too", "no")
