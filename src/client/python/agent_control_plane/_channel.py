"""What connections of both clients have in common."""

from __future__ import annotations

from typing import Any

Metadata = tuple[tuple[str, str], ...]


def key_metadata(api_key: str) -> Metadata:
    """Returns the metadata that every call carries."""
    return (("x-api-key", api_key),)


class Line:
    """A channel with what is known of it.

    INVARIANT: a retired channel closes when its last call has ended, so that replacing it breaks nobody's call.
    """

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.in_flight = 0
        self.is_retired = False
        #: When something last came, on the monotonic clock; 0 before anything did.
        self.heard_at = 0.0


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
