"""Requests the decision on one action."""

from __future__ import annotations

from .._asyncio import AsyncWire
from .._messages import request_from, result_from
from .._methods import INTERCEPT
from ..results import Action, InterceptResult
from .retried_call import call_retried


async def call_intercept(wire: AsyncWire, action: Action, timeout: float) -> InterceptResult:
    """Sends an action. While no response comes, retries with the same `request_id`, so that the action is decided once.

    Raises a `ControlPlaneRequestError` if the call is refused or the time is up.
    """
    return result_from(await call_retried(wire, INTERCEPT, request_from(action), timeout))
