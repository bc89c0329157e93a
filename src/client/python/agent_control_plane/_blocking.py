"""Connection and calls of the blocking client: its threads, and how calls are cancelled."""

from __future__ import annotations

import enum
import inspect
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Optional, TypeVar

import grpc

from ._channel import Channels, Line
from ._faults import broken_stream, request_error_from
from ._methods import LAST_WORDS, Method, StreamEndedError
from ._options import Address
from .errors import CallCancelledError, ControlPlaneRequestError
from .stop_signal import StopSignal

T = TypeVar("T")
Response = TypeVar("Response")

#: Seconds between two checks for an interrupt.
_STEP = 0.2


class Connection(Channels):
    """Connection of one blocking client."""

    def __init__(self, address: Address, api_key: str) -> None:
        super().__init__(grpc, address, api_key)

    def release(self, line: Line) -> None:
        """Ends a call, and closes its channel if it is no longer used."""
        unused = self.end(line)
        if unused is not None:
            unused.close()

    def spawn(self, work: Work[None]) -> Callable[[], None]:
        """Runs work in a thread of its own; returns a function that stops it."""
        stop = StopSignal()

        def run() -> None:
            try:
                work(Wire(self, stop))
            except CallCancelledError:
                return

        threading.Thread(target=run, daemon=True, name="agent-control-plane-watch").start()
        return stop.set

    def close(self) -> None:
        """Closes the channels, with the calls on them."""
        _uninterrupted(self._close)

    def _close(self) -> None:
        for channel in self.take():
            channel.close()


class Wire:
    """Blocking calls over a connection. They end with the signal's error when the signal is set."""

    def __init__(self, connection: Connection, cancel: Optional[StopSignal] = None) -> None:
        self._connection = connection
        self._cancel = cancel

    def unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        """Makes one call. Raises a `ControlPlaneRequestError`, or the signal's error. An interrupted call goes on until its
        deadline.
        """
        return _uninterrupted(lambda: self._unary(method, request, timeout))

    def _unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        self._raise_if_cancelled()
        sent_at = time.monotonic()
        line, callee = self._connection.begin_unary(method)
        call = callee.future(request, timeout=timeout)
        unsubscribe = self._on_cancel(lambda: _uninterrupted(call.cancel))
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
            self._connection.release(line)

    def open(self, method: Method[Response], request: Any) -> Stream[Response]:
        """Opens a stream from the server."""
        return Stream(self._connection, method, request, self._cancel)

    def sleep(self, seconds: float) -> None:
        """Waits."""
        if self._cancel is None:
            time.sleep(seconds)
            return
        self._cancel.wait(seconds)
        self._raise_if_cancelled()

    def finish(self, call: Work[T], late: Callable[[Wire, T], None]) -> T:
        """Makes a call. If the caller cancels it meanwhile, a result that comes in time is passed to `late`."""
        self._raise_if_cancelled()
        free = Wire(self._connection)
        # Only the main thread can be interrupted; in other threads only a signal cancels a call.
        if self._cancel is None and threading.current_thread() is not threading.main_thread():
            return call(free)
        sent = _begin_beside(lambda: call(free))
        over = threading.Event()
        sent.add_done_callback(lambda _: over.set())
        unsubscribe = self._on_cancel(over.set)
        try:
            _wait(over)
            self._raise_if_cancelled()
            return sent.result()
        except BaseException:
            if not sent.done() or sent.exception() is None:
                self.last_words(lambda wire: late(wire, sent.result(timeout=LAST_WORDS)))
            raise
        finally:
            unsubscribe()

    def last_words(self, call: Work[None]) -> None:
        """Makes a last call after the caller cancelled, ignoring errors."""
        try:
            call(Wire(self._connection))
        except Exception:
            # The request for approval ends by itself when its time is up.
            return

    def deliver(self, call: Work[None]) -> None:
        """Makes a call that goes on if the caller cancels. It MUST NOT raise."""
        call(Wire(self._connection))

    def deliver_later(self, call: Work[None]) -> None:
        """Makes a call in a thread of its own. It MUST NOT raise."""
        self._connection.spawn(call)

    def resolve(self, value: Any) -> Any:
        """Returns the result of a function of the caller."""
        if inspect.iscoroutine(value):
            value.close()
        if inspect.isawaitable(value):
            raise TypeError("the blocking client cannot await; use AsyncClient for asyncio")
        return value

    def _on_cancel(self, callback: Callable[[], Any]) -> Callable[[], None]:
        return (lambda: None) if self._cancel is None else self._cancel.add_callback(callback)

    def _raise_if_cancelled(self) -> None:
        if self._cancel is not None:
            self._cancel.raise_if_set()


#: A function that makes calls on the given wire.
Work = Callable[[Wire], T]


def _uninterrupted(work: Callable[[], T]) -> T:
    """Runs work outside of the main thread, where an interrupt of grpc could leave a lock held that blocks every later call.

    When the caller is interrupted, the work goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    try:
        done = _begin_beside(work)
    except RuntimeError:
        # A program that is ending cannot start threads.
        return work()
    over = threading.Event()
    done.add_done_callback(lambda _: over.set())
    _wait(over)
    return done.result()


def _begin_beside(work: Callable[[], T]) -> Future[T]:
    """Runs work in a separate thread. Raises a `RuntimeError` if no thread can start."""
    done: Future[T] = Future()
    threading.Thread(target=_settle, args=(done, work), daemon=True, name="agent-control-plane-call").start()
    return done


def _wait(event: threading.Event) -> None:
    """Waits in short steps, since on Windows an interrupt does not end a wait."""
    while not event.wait(_STEP):
        pass


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


class _Mark(enum.Enum):
    #: The server ended the stream.
    END = enum.auto()
    #: The receiver has to check whether its caller cancelled.
    WAKE = enum.auto()


class Stream(Generic[Response]):
    """Messages of a stream. A separate thread reads them, so that a wait for a message can end."""

    def __init__(
        self, connection: Connection, method: Method[Response], request: Any, cancel: Optional[StopSignal]
    ) -> None:
        self._connection = connection
        self._cancel = cancel
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._call: Any = None
        self._unsubscribe = (lambda: None) if cancel is None else cancel.add_callback(self._wake)
        reading = (method, request)
        threading.Thread(target=self._read, args=reading, daemon=True, name="agent-control-plane-stream").start()

    def receive(self, timeout: float) -> Optional[Response]:
        """Returns the next message; None if no message came within `timeout` seconds.

        Raises `StreamEndedError` after the last message, and a `ControlPlaneRequestError` when the stream breaks.
        """
        if self._cancel is not None:
            self._cancel.raise_if_set()
        try:
            item = self._items.get(timeout=timeout)
        except queue.Empty:
            return None
        if item is _Mark.WAKE:
            return self.receive(0)
        if item is _Mark.END:
            raise StreamEndedError
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Releases the connection."""
        self._unsubscribe()
        with self._lock:
            self._is_closed = True
            call = self._call
        if call is not None:
            _uninterrupted(call.cancel)

    def _wake(self) -> None:
        self._items.put(_Mark.WAKE)

    def _read(self, method: Method[Response], request: Any) -> None:
        try:
            self._read_all(method, request)
            self._items.put(_Mark.END)
        except grpc.RpcError as error:
            self._items.put(request_error_from(error))
        except Exception as error:
            self._items.put(broken_stream(error))

    def _read_all(self, method: Method[Response], request: Any) -> None:
        line, callee = self._connection.begin_stream(method)
        try:
            call = callee(request)
            with self._lock:
                self._call = call
                is_closed = self._is_closed
            if is_closed:
                call.cancel()
            for message in call:
                line.heard_at = time.monotonic()
                self._items.put(message)
        finally:
            self._connection.release(line)
