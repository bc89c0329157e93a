"""How the function of a guarded call ended, and what is reported of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Optional

from ._guard_options import GuardSettings
from ._telling import tell
from .errors import AgentBlockedError
from .results import OutcomeReport
from .stop_signal import StopSignal

#: Names of classes of errors that end a wait, in Python and its libraries: `TimeoutError`, `ReadTimeout`, `TimeoutExpired`.
_TIMEOUT = re.compile(r"Timeout(Error|Exception|Expired)?$")
#: Names of errors, as programs write them.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
#: Maximum number of causes of an error that are looked at.
_MAX_CAUSES = 5


class Ending:
    """How the function of one guarded call ends. The run records it."""

    def __init__(self) -> None:
        self.is_started = False
        self.is_over = False
        self.error: Optional[BaseException] = None
        self.result: Any = None
        #: Signal that tells the function to stop.
        self.stop: Optional[StopSignal] = None
        self._is_stopped = False
        self._on_over: Optional[Callable[[], object]] = None

    def record(self, result: Any, error: Optional[BaseException]) -> None:
        """Records the end of the function."""
        self.result, self.error = result, error
        self._is_stopped = self.stop is not None and self.stop.is_set()
        self.is_over = True
        if self._on_over is not None:
            self._on_over()

    def when_over(self, callback: Callable[[], object]) -> None:
        """Calls back when the function ends, which is still running."""
        self._on_over = callback

    @property
    def is_cancelled(self) -> bool:
        """True if the function was interrupted, or ended by an error after it was told to stop."""
        return self.error is not None and (self._is_stopped or not isinstance(self.error, Exception))

    def report(self, settings: GuardSettings) -> Optional[OutcomeReport]:
        """Returns what is reported; None after a time-out: nobody knows whether the action took effect.

        Of an error only its name is reported, since messages may hold secrets and personal values.
        """
        if self.error is not None:
            if _is_timeout(self.error):
                return None
            return OutcomeReport("cancelled" if self.is_cancelled else "failed", error=_name_of(self.error))
        if _checked(settings, "is_failure", settings.is_failure, self.result):
            return OutcomeReport("failed")
        return OutcomeReport("succeeded", amount=_amount_of(settings, self.result))


def _name_of(error: BaseException) -> str:
    name = type(error).__name__
    return name if _NAME.fullmatch(name) else "Exception"


def _is_timeout(error: BaseException) -> bool:
    """Tests for an error after which the action may have taken effect: a time-out, also as the cause of another error."""
    cause: Optional[BaseException] = error
    for _ in range(_MAX_CAUSES):
        if cause is None or isinstance(cause, AgentBlockedError):
            return False
        if any(_TIMEOUT.search(each.__name__) for each in type(cause).__mro__):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def _checked(settings: GuardSettings, name: str, function: Optional[Callable[[Any], Any]], result: Any) -> Any:
    """Calls a function of the options, whose fault changes neither the result nor the status."""
    if function is None:
        return None
    try:
        return function(result)
    except Exception as error:
        tell(f"`{name}` of `{settings.action_type}` raised `{_name_of(error)}`, and was left out of the report")
        return None


def _amount_of(settings: GuardSettings, result: Any) -> Optional[float]:
    """Returns the amount that a result came to; None if the options give none that can be reported."""
    amount = _checked(settings, "amount", settings.amount, result)
    if amount is None:
        return None
    try:
        value = float(amount)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not isinstance(amount, (str, bytes, bool)) and math.isfinite(value) and value >= 0:
        return value
    tell(f"`amount` of `{settings.action_type}` returned a value that is no amount; it was reported without one")
    return None
