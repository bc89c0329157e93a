"""The wire of the blocking client."""

from __future__ import annotations

import enum
import inspect
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, Optional, TypeVar

import grpc

from ._channel import KeyedChannel, Line, key_metadata
from ._faults import request_error_from
from ._options import Address
from ._wire import LAST_WORDS, Method, StreamEndedError, Wire, Work, run_blocking
from .errors import CallCancelledError, ControlPlaneRequestError
from .stop_signal import StopSignal

T = TypeVar("T")
Response = TypeVar("Response")


class Connection:
    """The connection of one client. Opened by the first call; safe to use from any thread."""

    def __init__(self, address: Address, api_key: str) -> None:
        self._address = address
        self._metadata = key_metadata(api_key)
        self._lock = threading.Lock()
        self._line: Optional[Line] = None
        #: The channel of generated stubs, which is never replaced under them.
        self._stubs: Any = None

    def keyed_channel(self) -> KeyedChannel:
        """Returns the channel for generated stubs."""
        with self._lock:
            self._stubs = self._stubs or self._open()
            return KeyedChannel(self._stubs, self._metadata)

    def start(self, kind: str, method: Method[Any], request: Any, timeout: Optional[float]) -> tuple[Line, Any]:
        """Starts a call. MUST be ended."""
        with self._lock:
            line = self._current()
            line.in_flight += 1
        # The channel keeps no methods: making one costs microseconds.
        callable_of = line.channel.unary_unary if kind == "unary" else line.channel.unary_stream
        callee = callable_of(
            method.path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=method.response.FromString,
        )
        begin = callee.future if kind == "unary" else callee
        return line, begin(request, timeout=timeout, metadata=self._metadata)

    def end(self, line: Line) -> None:
        """Ends a call; closes the channel if it was the last of a retired one."""
        with self._lock:
            line.in_flight -= 1
            is_over = line.is_retired and line.in_flight == 0
        if is_over:
            line.channel.close()

    def retire_if_silent(self, line: Line, sent_at: float) -> None:
        """Replaces a channel on which nothing came since a call was sent: its connection may be dead."""
        with self._lock:
            if line.heard_at < sent_at:
                line.is_retired = True
                self._line = None if self._line is line else self._line

    def close(self) -> None:
        """Closes the channel, with the calls on it. The next call opens another."""
        with self._lock:
            line, self._line = self._line, None
            stubs, self._stubs = self._stubs, None
        for channel in (stubs, line and line.channel):
            if channel is not None:
                channel.close()

    def _current(self) -> Line:
        self._line = self._line or Line(self._open())
        return self._line

    def _open(self) -> Any:
        target, credentials, options = self._address.target, self._address.credentials, self._address.channel_options
        if credentials is None:
            return grpc.insecure_channel(target, options)
        return grpc.secure_channel(target, credentials, options)


class BlockingWire:
    """A wire whose operations block. They end with the signal's error when it is set."""

    def __init__(self, connection: Connection, cancel: Optional[StopSignal] = None) -> None:
        self._connection = connection
        self._cancel = cancel

    async def unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        """Makes one call."""
        self._raise_if_cancelled()
        sent_at = time.monotonic()
        line, call = self._connection.start("unary", method, request, timeout)
        unsubscribe = self._on_cancel(call.cancel)
        try:
            response: Response = call.result()
            line.heard_at = time.monotonic()
            return response
        except grpc.FutureCancelledError as error:
            self._raise_if_cancelled()
            raise ControlPlaneRequestError("CANCELLED", "the client was closed") from error
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self._connection.retire_if_silent(line, sent_at)
            raise request_error_from(error) from error
        finally:
            unsubscribe()
            call.cancel()
            self._connection.end(line)

    def open(self, method: Method[Response], request: Any) -> BlockingStream[Response]:
        """Opens a stream from the server."""
        return BlockingStream(self._connection, method, request, self._cancel)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        if self._cancel is None:
            time.sleep(seconds)
            return
        self._cancel.wait(seconds)
        self._raise_if_cancelled()

    async def finish(self, call: Work[T], late: Callable[[Wire, T], Coroutine[Any, Any, None]]) -> T:
        """Makes a call. When the caller gives up meanwhile, a result that comes within a second is passed to `late`."""
        self._raise_if_cancelled()
        free = BlockingWire(self._connection)
        # Only the main thread is interrupted, and only a signal gives a call of another one up.
        if self._cancel is None and threading.current_thread() is not threading.main_thread():
            return await call(free)
        sent: Future[T] = Future()
        threading.Thread(target=_settle, args=(sent, call, free), daemon=True, name="agent-control-plane-call").start()
        over = threading.Event()
        sent.add_done_callback(lambda _: over.set())
        unsubscribe = self._on_cancel(over.set)
        try:
            over.wait()
            self._raise_if_cancelled()
            return sent.result()
        except BaseException:
            if not sent.done() or sent.exception() is None:
                await self.last_words(lambda wire: _late(wire, sent, late))
            raise
        finally:
            unsubscribe()

    async def last_words(self, call: Work[None]) -> None:
        """Makes a last call for a caller who gave up: within a second, and without an error."""
        try:
            await call(BlockingWire(self._connection))
        except Exception:
            # The ask ends by itself when its time is up.
            return

    async def resolve(self, value: Any) -> Any:
        """Returns the result of a function of the caller."""
        if inspect.iscoroutine(value):
            value.close()
        if inspect.isawaitable(value):
            raise TypeError("the blocking client awaits nothing; use AsyncClient for asyncio")
        return value

    def _on_cancel(self, callback: Callable[[], Any]) -> Callable[[], None]:
        return (lambda: None) if self._cancel is None else self._cancel.add_callback(callback)

    def _raise_if_cancelled(self) -> None:
        if self._cancel is not None:
            self._cancel.raise_if_set()


def _settle(future: Future[T], call: Work[T], wire: Wire) -> None:
    try:
        future.set_result(run_blocking(call(wire)))
    except BaseException as error:
        future.set_exception(error)


async def _late(wire: Wire, sent: Future[T], late: Callable[[Wire, T], Coroutine[Any, Any, None]]) -> None:
    await late(wire, sent.result(timeout=LAST_WORDS))


def spawner(connection: Connection) -> Callable[[Work[None]], Callable[[], None]]:
    """Returns a function that runs work in a thread of its own, and returns what stops it."""

    def spawn(work: Work[None]) -> Callable[[], None]:
        stop = StopSignal()

        def run() -> None:
            try:
                run_blocking(work(BlockingWire(connection, stop)))
            except CallCancelledError:
                return

        threading.Thread(target=run, daemon=True, name="agent-control-plane-watch").start()
        return stop.set

    return spawn


class _Mark(enum.Enum):
    #: The server ended the stream.
    END = enum.auto()
    #: The receiver is to look whether its caller gave up.
    WAKE = enum.auto()


class BlockingStream(Generic[Response]):
    """The messages of a stream, read by a thread of its own so that waiting for one can end."""

    def __init__(
        self, connection: Connection, method: Method[Response], request: Any, cancel: Optional[StopSignal]
    ) -> None:
        self._connection = connection
        self._cancel = cancel
        self._line, self._call = connection.start("stream", method, request, None)
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._unsubscribe = (lambda: None) if cancel is None else cancel.add_callback(self._wake)
        threading.Thread(target=self._read, daemon=True, name="agent-control-plane-stream").start()

    async def receive(self, timeout: float) -> Optional[Response]:
        """Returns the next message; None when none came within `timeout` seconds."""
        if self._cancel is not None:
            self._cancel.raise_if_set()
        try:
            item = self._items.get(timeout=timeout)
        except queue.Empty:
            return None
        if item is _Mark.WAKE:
            return await self.receive(0)
        if item is _Mark.END:
            raise StreamEndedError
        if isinstance(item, ControlPlaneRequestError):
            raise item
        self._line.heard_at = time.monotonic()
        return item

    def close(self) -> None:
        """Releases the connection."""
        self._unsubscribe()
        self._call.cancel()

    def _wake(self) -> None:
        self._items.put(_Mark.WAKE)

    def _read(self) -> None:
        try:
            for message in self._call:
                self._items.put(message)
            self._items.put(_Mark.END)
        except grpc.RpcError as error:
            self._items.put(request_error_from(error))
        finally:
            self._connection.end(self._line)
