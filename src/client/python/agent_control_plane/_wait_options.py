"""Options of a wait for a person's verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from ._options import check_seconds
from .results import Rejection

#: Default time in seconds to wait for a person: five minutes.
DEFAULT_ESCALATION_TIMEOUT = 300.0
#: Default time between polls, seconds.
DEFAULT_ESCALATION_POLL_INTERVAL = 2.0
#: Minimum time between polls, seconds: polling more often would be a busy loop.
MIN_POLL_INTERVAL = 0.05


@dataclass(frozen=True)
class WaitOptions:
    """Limits of a wait for an escalation, in seconds."""

    timeout: float = DEFAULT_ESCALATION_TIMEOUT
    poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL
    #: True returns an `EditedApproval` if a person edited the arguments; otherwise the result is `rejected`.
    accept_edits: bool = False
    #: Called with the rejection. Not called if the rejection cannot be read.
    on_rejected: Optional[Callable[[Rejection], None]] = None

    def check(self, prefix: str = "") -> None:
        """Raises a `ValueError` for an invalid time."""
        check_seconds(f"{prefix}timeout", self.timeout, 0)
        check_seconds(f"{prefix}poll_interval", self.poll_interval, MIN_POLL_INTERVAL)
