"""Tells sessions what their agents were asked, and what guarded functions return."""

from __future__ import annotations

from typing import Optional

from .._asyncio import AsyncWire
from .._ending import Ending
from .._guarded_call import GuardedCall
from .._methods import OBSERVE
from .._observed_content import error_text, observe_request, result_text
from ..errors import ControlPlaneRequestError, ResultWithheldError
from ..proto import enforcement_service_pb2 as enforcement
from ..results import InterceptResult
from .retried_call import call_retried


async def call_observe(wire: AsyncWire, request: enforcement.ObserveRequest, timeout: float) -> None:
    """Tells a session a content, and repeats the call while no response comes. Raises a `ControlPlaneRequestError`."""
    await call_retried(wire, OBSERVE, request, timeout)


async def observe_end(wire: AsyncWire, call: GuardedCall, claimed: Optional[InterceptResult], ending: Ending) -> None:
    """Tells the session of a call what its function returned, or the text of its error, if the call has `observe`.

    Does nothing without a session, for a call that ran unchecked, for the error with which the function was told to stop, and for a
    session that has ended, in which nothing is decided any more. Goes on if the caller cancels. Raises a `ResultWithheldError` if it
    fails.
    """
    settings = call.settings
    session_id = settings.session_id
    if not settings.observe or session_id is None or claimed is None or not ending.is_over:
        return
    failure = ending.error
    if failure is not None and (not isinstance(failure, Exception) or (ending.stop and failure is ending.stop.error)):
        return
    told_id, decision_id = session_id, claimed.decision_id
    faults: list[Exception] = []

    async def observe(last: AsyncWire) -> None:
        try:
            content = result_text(ending.result) if failure is None else error_text(failure)
            if content:
                request = observe_request(told_id, "result", content, decision_id, failure is not None)
                await _tell(last, request, call.guarding.timeout)
        except Exception as fault:
            faults.append(fault)

    await wire.deliver(observe)
    if faults:
        raise ResultWithheldError(settings.action_type, decision_id, told_id, faults[0]) from faults[0]


async def _tell(wire: AsyncWire, request: enforcement.ObserveRequest, timeout: float) -> None:
    try:
        await call_observe(wire, request, timeout)
    except ControlPlaneRequestError as error:
        if error.reason == "SESSION_ENDED":
            return
        if error.reason != "OBSERVATION_EXISTS" or not request.HasField("decision_id"):
            raise
        # Somebody told another result of the decision before: this one is then a result of no decision.
        request.ClearField("decision_id")
        await _tell(wire, request, timeout)
