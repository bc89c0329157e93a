"""Connection and calls of the asyncio client."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Optional, TypeVar

import grpc
import grpc.aio

from ._channel import Channels, KeyedChannel, Line
from ._faults import broken_stream, request_error_from
from ._methods import LAST_WORDS, Method, StreamEndedError
from ._options import Address
from .errors import ControlPlaneRequestError

T = TypeVar("T")
Response = TypeVar("Response")


class AsyncConnection(Channels):
    """Connection of one client in asyncio. Each event loop gets channels of its own, since channels of another loop cannot be
    used.
    """

    def __init__(self, address: Address, api_key: str) -> None:
        super().__init__(grpc.aio, address, api_key)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        #: Running tasks; a task without a reference could be garbage-collected.
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Runs work in a task of its own."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def spawn(self, work: AsyncWork[None]) -> Callable[[], None]:
        """Runs work in a task of its own; returns a function that stops it."""
        task = self.keep(work(AsyncWire(self)))

        def stop() -> None:
            if not task.get_loop().is_closed():
                task.cancel()

        return stop

    def release(self, line: Line) -> None:
        """Ends a call, and closes its channel if it is no longer used."""
        unused = self.end(line)
        if unused is not None:
            self.keep(unused.close())

    async def close(self) -> None:
        """Closes the channels, with the calls on them."""
        self._enter_loop()
        for channel in self.take():
            await channel.close()

    def keyed_channel(self) -> KeyedChannel:
        """Returns the channel for generated stubs."""
        self._enter_loop()
        return super().keyed_channel()

    def _begin(self) -> Line:
        self._enter_loop()
        return super()._begin()

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.take()
            self._loop = loop


class AsyncWire:
    """Calls over an asyncio connection. A caller cancels a call by cancelling its task."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        """Makes one call. Raises a `ControlPlaneRequestError`."""
        sent_at = time.monotonic()
        line, callee = self._connection.begin_unary(method)
        call = callee(request, timeout=timeout)
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
            self._connection.release(line)

    def open(self, method: Method[Response], request: Any) -> AsyncStream[Response]:
        """Opens a stream from the server."""
        return AsyncStream(self._connection, method, request)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def finish(self, call: AsyncWork[T], late: Callable[[AsyncWire, T], Coroutine[Any, Any, None]]) -> T:
        """Makes a call. If the caller cancels it meanwhile, a result that comes in time is passed to `late`."""
        sent: asyncio.Task[T] = asyncio.ensure_future(call(self))
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:

            async def last(wire: AsyncWire) -> None:
                await late(wire, await asyncio.wait_for(sent, LAST_WORDS))

            await self.last_words(last)
            raise

    async def last_words(self, call: AsyncWork[None]) -> None:
        """Makes a last call after the caller cancelled, ignoring errors."""
        try:
            await call(self)
        except Exception:
            # The request for approval ends by itself when its time is up.
            return

    async def deliver(self, call: AsyncWork[None]) -> None:
        """Makes a call that goes on if the caller is cancelled. It MUST NOT raise."""
        await asyncio.shield(self._connection.keep(call(self)))

    def deliver_later(self, call: AsyncWork[None]) -> None:
        """Makes a call in a task of its own. It MUST NOT raise."""
        self._connection.keep(call(self))

    async def resolve(self, value: Any) -> Any:
        """Returns the result of a function of the caller, which may be a coroutine."""
        return await value if inspect.isawaitable(value) else value


#: A function that makes calls on the given wire.
AsyncWork = Callable[[AsyncWire], Coroutine[Any, Any, T]]


class AsyncStream(Generic[Response]):
    """Messages of a stream. A separate task reads them, so that a wait for a message can end without breaking the stream."""

    def __init__(self, connection: AsyncConnection, method: Method[Response], request: Any) -> None:
        self._connection = connection
        self._line, callee = connection.begin_stream(method)
        self._call = callee(request)
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._next: Optional[asyncio.Future[Any]] = None
        self._reading = connection.keep(self._read())

    async def receive(self, timeout: float) -> Optional[Response]:
        """Returns the next message; None if no message came within `timeout` seconds.

        Raises `StreamEndedError` after the last message, and a `ControlPlaneRequestError` when the stream breaks.
        """
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
        except Exception as error:
            # grpc.aio fails in code of its own when a call ends or its channel closes at the wrong moment.
            self._items.put_nowait(broken_stream(error))
        finally:
            self._call.cancel()
            self._connection.release(self._line)
