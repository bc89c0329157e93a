"""Pauses between attempts."""

from __future__ import annotations

import random


class BackOff:
    """Exponential back-off in seconds, with jitter so that many callers do not retry at the same moment."""

    def __init__(self, first: float, maximum: float) -> None:
        self._first = first
        self._maximum = maximum
        self._span = first

    def next(self) -> float:
        """Returns the next pause: between half and all of the doubled span."""
        pause = self._span / 2 + random.random() * self._span / 2
        self._span = min(self._span * 2, self._maximum)
        return pause

    def reset(self) -> None:
        """Starts over."""
        self._span = self._first
