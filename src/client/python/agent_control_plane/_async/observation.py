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

    Does nothing without a session, for a call that ran unchecked, and for a session that has ended, in which nothing is decided any
    more. Raises a `ResultWithheldError` if it fails.
    """
    settings = call.settings
    session_id = settings.session_id
    if not settings.observe or session_id is None or claimed is None or not ending.is_over:
        return
    if ending.error is not None and not isinstance(ending.error, Exception):
        return
    decision_id = claimed.decision_id
    try:
        is_error = ending.error is not None
        content = error_text(ending.error) if ending.error is not None else result_text(ending.result)
        if content:
            await _tell(wire, observe_request(session_id, "result", content, decision_id, is_error), call.guarding.timeout)
    except Exception as error:
        raise ResultWithheldError(settings.action_type, decision_id, session_id, error) from error


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
