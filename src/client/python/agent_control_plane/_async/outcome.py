"""Claims allowed actions, and reports how they ended."""

from __future__ import annotations

from typing import Optional

from .._asyncio import AsyncWire
from .._messages import report_from
from .._methods import CLAIM_DECISION, REPORT_OUTCOME
from ..errors import ControlPlaneRequestError
from ..proto import enforcement_service_pb2 as enforcement
from ..results import ClaimResult, OutcomeReport
from .retried_call import call_retried


async def call_claim(
    wire: AsyncWire, decision_id: str, claim_id: str, report: Optional[bool], timeout: float
) -> ClaimResult:
    """Claims an allowed action, and repeats the call with the same id while no response comes.

    Whoever gets no response MUST NOT run the action. Raises a `ControlPlaneRequestError` unless the claim holds: with reason
    `ALREADY_CLAIMED` if another one does.
    """
    request = enforcement.ClaimDecisionRequest(decision_id=decision_id, claim_id=claim_id)
    if report is not None:
        request.report = report
    response = await call_retried(wire, CLAIM_DECISION, request, timeout)
    if not response.claimed:
        raise ControlPlaneRequestError("INTERNAL", "the control plane did not say that the action is claimed")
    return ClaimResult(report_outcome=response.report_outcome)


async def call_report(wire: AsyncWire, decision_id: str, report: OutcomeReport, timeout: float) -> None:
    """Reports how an allowed action ended, and repeats the call while no response comes.

    Raises a `ControlPlaneRequestError` if the report is refused or the time is up.
    """
    await call_retried(wire, REPORT_OUTCOME, report_from(decision_id, report), timeout)
