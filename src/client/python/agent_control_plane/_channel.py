"""Common parts of the connections of both clients."""

from __future__ import annotations

import threading
from typing import Any, Optional

from ._options import Address
from ._methods import Method

Metadata = tuple[tuple[str, str], ...]


class Line:
    """A channel with its state.

    INVARIANT: a retired channel closes when its last call has ended, so that replacing it breaks no call.
    """

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.in_flight = 0
        self.is_retired = False
        #: Time of the last received data, on the monotonic clock; 0 before the first.
        self.heard_at = 0.0


class Channels:
    """The channels of one client. The first call opens one; safe to use from any thread.

    `grpc` is the module that opens channels: `grpc` or `grpc.aio`.
    """

    def __init__(self, grpc: Any, address: Address, api_key: str) -> None:
        self._grpc = grpc
        self._address = address
        self._metadata = (("x-api-key", api_key),)
        self._lock = threading.Lock()
        self._line: Optional[Line] = None
        #: The channel of generated stubs, which is never replaced.
        self._stubs: Any = None

    def keyed_channel(self) -> KeyedChannel:
        """Returns the channel for generated stubs."""
        with self._lock:
            self._stubs = self._stubs or self._open()
            return KeyedChannel(self._stubs, self._metadata)

    def begin_unary(self, method: Method[Any]) -> tuple[Line, Any]:
        """Begins a call with one response: returns its line and the callable. The call MUST be ended."""
        line = self._begin()
        return line, _KeyedMethod(line.channel.unary_unary(*_codec(method)), self._metadata)

    def begin_stream(self, method: Method[Any]) -> tuple[Line, Any]:
        """Begins a call that streams responses: returns its line and the callable. The call MUST be ended."""
        line = self._begin()
        return line, _KeyedMethod(line.channel.unary_stream(*_codec(method)), self._metadata)

    def end(self, line: Line) -> Any:
        """Ends a call. Returns the channel to close if this was the last call of a retired channel."""
        with self._lock:
            line.in_flight -= 1
            return line.channel if line.is_retired and line.in_flight == 0 else None

    def retire_if_silent(self, line: Line, sent_at: float) -> None:
        """Replaces a channel that received nothing since a call was sent, because its connection may be dead."""
        with self._lock:
            if line.heard_at < sent_at:
                line.is_retired = True
                self._line = None if self._line is line else self._line

    def take(self) -> list[Any]:
        """Takes out the channels, to be closed or forgotten. The next call opens another."""
        with self._lock:
            channels = [self._stubs, self._line and self._line.channel]
            self._line = self._stubs = None
        return [channel for channel in channels if channel is not None]

    def _begin(self) -> Line:
        with self._lock:
            self._line = self._line or Line(self._open())
            self._line.in_flight += 1
            return self._line

    def _open(self) -> Any:
        target, credentials, options = self._address.target, self._address.credentials, self._address.channel_options
        if credentials is None:
            return self._grpc.insecure_channel(target, options)
        return self._grpc.secure_channel(target, credentials, options)


def _codec(method: Method[Any]) -> tuple[str, Any, Any]:
    return method.path, method.request.SerializeToString, method.response.FromString


class KeyedChannel:
    """A channel whose calls carry the key, for the generated stubs."""

    def __init__(self, channel: Any, metadata: Metadata) -> None:
        self._channel = channel
        self._metadata = metadata

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a method with one request and one response."""
        return _KeyedMethod(self._channel.unary_unary(*args, **kwargs), self._metadata)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a method that streams responses."""
        return _KeyedMethod(self._channel.unary_stream(*args, **kwargs), self._metadata)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a method that streams requests."""
        return _KeyedMethod(self._channel.stream_unary(*args, **kwargs), self._metadata)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a method that streams both ways."""
        return _KeyedMethod(self._channel.stream_stream(*args, **kwargs), self._metadata)


class _KeyedMethod:
    def __init__(self, method: Any, metadata: Metadata) -> None:
        self._method = method
        self._metadata = metadata

    def __call__(self, *args: Any, metadata: Any = (), **kwargs: Any) -> Any:
        return self._method(*args, metadata=(*(metadata or ()), *self._metadata), **kwargs)

    def future(self, *args: Any, metadata: Any = (), **kwargs: Any) -> Any:
        return self._method.future(*args, metadata=(*(metadata or ()), *self._metadata), **kwargs)

    def with_call(self, *args: Any, metadata: Any = (), **kwargs: Any) -> Any:
        return self._method.with_call(*args, metadata=(*(metadata or ()), *self._metadata), **kwargs)
