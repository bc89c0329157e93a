"""The wire of the asyncio client."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Optional, TypeVar

import grpc
import grpc.aio

from ._channel import KeyedChannel, Line, key_metadata
from ._faults import request_error_from
from ._options import Address
from ._wire import LAST_WORDS, Method, StreamEndedError, Wire, Work
from .errors import ControlPlaneRequestError

T = TypeVar("T")
Response = TypeVar("Response")


class AsyncConnection:
    """The connection of one client. Opened by the first call in an event loop, and again in another loop."""

    def __init__(self, address: Address, api_key: str) -> None:
        self._address = address
        self._metadata = key_metadata(api_key)
        self._line: Optional[Line] = None
        #: The channel of generated stubs, which is never replaced under them.
        self._stubs: Any = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        #: Tasks that only this keeps from being collected.
        self._tasks: set[asyncio.Task[None]] = set()

    def keyed_channel(self) -> KeyedChannel:
        """Returns the channel for generated stubs."""
        self._enter_loop()
        self._stubs = self._stubs or self._open()
        return KeyedChannel(self._stubs, self._metadata)

    def start(self, kind: str, method: Method[Any], request: Any, timeout: Optional[float]) -> tuple[Line, Any]:
        """Starts a call. MUST be ended."""
        line = self._current()
        line.in_flight += 1
        callable_of = line.channel.unary_unary if kind == "unary" else line.channel.unary_stream
        callee = callable_of(
            method.path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return line, callee(request, timeout=timeout, metadata=self._metadata)

    def end(self, line: Line) -> None:
        """Ends a call; closes the channel if it was the last of a retired one."""
        line.in_flight -= 1
        if line.is_retired and line.in_flight == 0:
            self.keep(line.channel.close())

    def retire_if_silent(self, line: Line, sent_at: float) -> None:
        """Replaces a channel on which nothing came since a call was sent: its connection may be dead."""
        if line.heard_at < sent_at:
            line.is_retired = True
            self._line = None if self._line is line else self._line

    def keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Runs work in a task of its own."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Closes the channel, with the calls on it. The next call opens another."""
        self._enter_loop()
        line, self._line = self._line, None
        stubs, self._stubs = self._stubs, None
        for channel in (stubs, line and line.channel):
            if channel is not None:
                await channel.close()

    def _current(self) -> Line:
        self._enter_loop()
        self._line = self._line or Line(self._open())
        return self._line

    def _enter_loop(self) -> None:
        """Forgets the channels of another event loop, which cannot be used in this one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._line, self._stubs, self._loop = None, None, loop

    def _open(self) -> Any:
        target, credentials, options = self._address.target, self._address.credentials, self._address.channel_options
        if credentials is None:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, credentials, options)


class AsyncWire:
    """A wire of asyncio. A caller gives up by cancelling its task."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        """Makes one call."""
        sent_at = time.monotonic()
        line, call = self._connection.start("unary", method, request, timeout)
        try:
            response: Response = await call
            line.heard_at = time.monotonic()
            return response
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self._connection.retire_if_silent(line, sent_at)
            raise request_error_from(error) from error
        finally:
            call.cancel()
            self._connection.end(line)

    def open(self, method: Method[Response], request: Any) -> AsyncStream[Response]:
        """Opens a stream from the server."""
        return AsyncStream(self._connection, method, request)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def finish(self, call: Work[T], late: Callable[[Wire, T], Coroutine[Any, Any, None]]) -> T:
        """Makes a call. When the caller gives up meanwhile, a result that comes within a second is passed to `late`."""
        sent: asyncio.Task[T] = asyncio.ensure_future(call(self))
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:

            async def last(wire: Wire) -> None:
                await late(wire, await asyncio.wait_for(sent, LAST_WORDS))

            await self.last_words(last)
            raise

    async def last_words(self, call: Work[None]) -> None:
        """Makes a last call for a caller who gave up: within a second, and without an error."""
        try:
            await call(self)
        except Exception:
            # The ask ends by itself when its time is up.
            return

    async def resolve(self, value: Any) -> Any:
        """Returns the result of a function of the caller, which may have to be awaited."""
        return await value if inspect.isawaitable(value) else value


def async_spawner(connection: AsyncConnection) -> Callable[[Work[None]], Callable[[], None]]:
    """Returns a function that runs work in a task of its own, and returns what stops it."""

    def spawn(work: Work[None]) -> Callable[[], None]:
        task = connection.keep(work(AsyncWire(connection)))

        def stop() -> None:
            if not task.get_loop().is_closed():
                task.cancel()

        return stop

    return spawn


class AsyncStream(Generic[Response]):
    """The messages of a stream, read by a task of its own so that waiting for one can end without breaking it."""

    def __init__(self, connection: AsyncConnection, method: Method[Response], request: Any) -> None:
        self._connection = connection
        self._line, self._call = connection.start("stream", method, request, None)
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._next: Optional[asyncio.Future[Any]] = None
        self._reading = connection.keep(self._read())

    async def receive(self, timeout: float) -> Optional[Response]:
        """Returns the next message; None when none came within `timeout` seconds."""
        # Not `wait_for`, which can swallow the cancellation of its caller.
        self._next = self._next or asyncio.ensure_future(self._items.get())
        await asyncio.wait([self._next], timeout=timeout)
        if not self._next.done():
            return None
        item, self._next = self._next.result(), None
        if item is StreamEndedError:
            raise StreamEndedError
        if isinstance(item, ControlPlaneRequestError):
            raise item
        self._line.heard_at = time.monotonic()
        return item

    def close(self) -> None:
        """Releases the connection."""
        self._reading.cancel()
        if self._next is not None:
            self._next.cancel()

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self._items.put_nowait(message)
            self._items.put_nowait(StreamEndedError)
        except grpc.RpcError as error:
            self._items.put_nowait(request_error_from(error))
        finally:
            self._call.cancel()
            self._connection.end(self._line)
