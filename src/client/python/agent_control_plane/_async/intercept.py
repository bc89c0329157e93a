"""Requests the decision on one action."""

from __future__ import annotations

import time

from .._asyncio import AsyncWire
from .._back_off import BackOff
from .._faults import is_transient
from .._messages import request_from, result_from
from .._methods import INTERCEPT
from ..errors import ControlPlaneRequestError
from ..results import Action, InterceptResult

_FIRST_PAUSE = 0.05
_MAX_PAUSE = 2.0
#: Share of the remaining time after which an unresponsive connection is replaced by a new one.
_UNRESPONSIVE_SHARE = 0.5
#: Minimum time limit, seconds: gRPC accepts no call without time.
_MIN_TIMEOUT = 0.001


async def call_intercept(wire: AsyncWire, action: Action, timeout: float) -> InterceptResult:
    """Sends an action. While no response comes, retries with the same `request_id`, so that the action is decided once.

    Raises a `ControlPlaneRequestError` if the call is refused or the time is up.
    """
    request = request_from(action)
    ends_at = time.monotonic() + timeout
    back_off = BackOff(_FIRST_PAUSE, _MAX_PAUSE)
    timed_out_before = False
    may_have_arrived = False
    while True:
        remaining = ends_at - time.monotonic()
        limit = remaining if timed_out_before else remaining * _UNRESPONSIVE_SHARE
        try:
            return result_from(await wire.unary(INTERCEPT, request, max(limit, _MIN_TIMEOUT)))
        except ControlPlaneRequestError as fault:
            # An earlier attempt may have been decided.
            fault.reached = may_have_arrived = fault.reached or may_have_arrived
            if fault.code == "DEADLINE_EXCEEDED" and not timed_out_before:
                timed_out_before = True
                continue
            pause = back_off.next()
            if not is_transient(fault) or time.monotonic() + pause >= ends_at:
                raise
        await wire.sleep(pause)
