"""A signal that one thread or task sets once and others observe."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Optional

from .errors import CallCancelledError


class StopSignal:
    """Signal, set once, that something must stop, with the error to raise. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._error: Optional[BaseException] = None
        self._callbacks: list[Callable[[], object]] = []

    @property
    def error(self) -> Optional[BaseException]:
        """The error with which the signal was set."""
        return self._error

    def is_set(self) -> bool:
        """Tests whether the signal is set."""
        return self._event.is_set()

    def set(self, error: Optional[BaseException] = None) -> None:
        """Sets the signal; only the first time has an effect. Default error: a `CallCancelledError`."""
        with self._lock:
            if self._event.is_set():
                return
            self._error = CallCancelledError("the call was cancelled") if error is None else error
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Blocks until the signal is set or `timeout` seconds have passed; returns whether it is set."""
        return self._event.wait(timeout)

    def raise_if_set(self) -> None:
        """Raises the signal's error if it is set."""
        if self._error is not None:
            raise self._error

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls back once when the signal is set, or at once if it is already set. Returns a function that removes the callback."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._remove(callback)
        callback()
        return lambda: None

    def relay_to(self, other: StopSignal) -> Callable[[], None]:
        """Sets another signal with the same error when this one is set. Returns a function that ends the relay."""
        return self.add_callback(lambda: other.set(self._error))

    def _remove(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
