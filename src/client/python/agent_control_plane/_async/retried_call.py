"""Makes a call, and repeats it while no response comes."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from .._asyncio import AsyncWire
from .._back_off import BackOff
from .._faults import is_transient
from .._methods import Method
from ..errors import ControlPlaneRequestError

Response = TypeVar("Response")

_FIRST_PAUSE = 0.05
_MAX_PAUSE = 2.0
#: Share of the remaining time after which an unresponsive connection is replaced by a new one.
_UNRESPONSIVE_SHARE = 0.5
#: Minimum time limit, seconds: gRPC accepts no call without time.
_MIN_TIMEOUT = 0.001


async def call_retried(wire: AsyncWire, method: Method[Response], request: Any, timeout: float) -> Response:
    """Makes a call of which a repeat has no second effect, and repeats it while no response comes.

    Raises a `ControlPlaneRequestError` if the call is refused or the time is up.
    """
    ends_at = time.monotonic() + timeout
    back_off = BackOff(_FIRST_PAUSE, _MAX_PAUSE)
    timed_out_before = False
    may_have_arrived = False
    while True:
        remaining = ends_at - time.monotonic()
        limit = remaining if timed_out_before else remaining * _UNRESPONSIVE_SHARE
        try:
            return await wire.unary(method, request, max(limit, _MIN_TIMEOUT))
        except ControlPlaneRequestError as fault:
            # An earlier attempt may have been served.
            fault.reached = may_have_arrived = fault.reached or may_have_arrived
            if fault.code == "DEADLINE_EXCEEDED" and not timed_out_before:
                timed_out_before = True
                continue
            pause = back_off.next()
            if not is_transient(fault) or time.monotonic() + pause >= ends_at:
                raise
        await wire.sleep(pause)
