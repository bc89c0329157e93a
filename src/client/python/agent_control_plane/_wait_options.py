"""Options of a wait for a person's verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from ._options import check_seconds
from .results import Rejection

#: Seconds: an approver has five minutes.
DEFAULT_ESCALATION_TIMEOUT = 300.0
#: Seconds.
DEFAULT_ESCALATION_POLL_INTERVAL = 2.0
#: Seconds: polling more often would be a busy loop.
MIN_POLL_INTERVAL = 0.05


@dataclass(frozen=True)
class WaitOptions:
    """Limits of a wait for an escalation, in seconds."""

    timeout: float = DEFAULT_ESCALATION_TIMEOUT
    poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL
    #: True: an escalation whose arguments a person edited gives an `EditedApproval`, else it is `rejected`.
    accept_edits: bool = False
    #: Hears why the action was rejected. Not called when the reason cannot be read.
    on_rejected: Optional[Callable[[Rejection], None]] = None

    def check(self, prefix: str = "") -> None:
        """Raises a `ValueError` for a time that cannot be waited."""
        check_seconds(f"{prefix}timeout", self.timeout, 0)
        check_seconds(f"{prefix}poll_interval", self.poll_interval, MIN_POLL_INTERVAL)
