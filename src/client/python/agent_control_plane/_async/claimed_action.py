"""Lets one call run an allowed action, and reports how it ended."""

from __future__ import annotations

import dataclasses
from typing import Optional

from .._asyncio import AsyncWire
from .._ending import Ending
from .._guarded_call import GuardedCall
from .._methods import LAST_WORDS
from .._refusals import claim_error
from .._telling import tell
from ..errors import ControlPlaneRequestError
from ..results import ClaimResult, InterceptResult, OutcomeReport
from .outcome import call_claim, call_report


async def claim_allowed(wire: AsyncWire, call: GuardedCall, result: InterceptResult) -> InterceptResult:
    """Claims an allowed action, unless its intercept did, and returns the decision as claimed.

    Raises if the claim does not hold or has no response: nothing runs then.
    """
    if result.claimed:
        return result
    report = None if call.settings.report else False
    timeout = call.guarding.timeout

    async def late(last: AsyncWire, response: ClaimResult) -> None:
        await give_up(last, call, _as_claimed(result, response))

    try:
        response = await wire.finish(
            lambda sending: call_claim(sending, result.decision_id, call.claim_id, report, timeout), late
        )
    except ControlPlaneRequestError as fault:
        error = claim_error(call.settings.action_type, result, fault)
        if error is fault:
            raise
        raise error from fault
    return _as_claimed(result, response)


def _as_claimed(result: InterceptResult, response: ClaimResult) -> InterceptResult:
    return dataclasses.replace(result, claimed=True, report_outcome=response.report_outcome)


async def give_up(wire: AsyncWire, call: GuardedCall, result: InterceptResult) -> None:
    """Reports an action that was allowed and does not run as `cancelled`.

    One that this call does not hold is claimed before: another call may hold it, and run it.
    """
    if result.decision != "allow" or not result.report_outcome:
        return

    async def cancel(last: AsyncWire) -> None:
        if not result.claimed:
            try:
                await call_claim(last, result.decision_id, call.claim_id, None, LAST_WORDS)
            except ControlPlaneRequestError:
                return
        await _send(last, call, result.decision_id, OutcomeReport("cancelled", error="did not run"), LAST_WORDS)

    await wire.deliver(cancel)


async def report_end(wire: AsyncWire, call: GuardedCall, claimed: Optional[InterceptResult], ending: Ending) -> None:
    """Reports how the function of a call ended, now or when it ends. Never raises but for an interrupt."""
    if claimed is None:
        return
    decision_id = claimed.decision_id

    async def report(last: AsyncWire) -> None:
        ended = ending.report(call.settings) if call.settings.report else None
        timeout = min(LAST_WORDS, call.guarding.timeout) if ending.is_cancelled else call.guarding.timeout
        if ended is not None:
            await _send(last, call, decision_id, ended, timeout)

    if not ending.is_started:
        await give_up(wire, call, claimed)
    elif ending.is_over:
        await wire.deliver(report)
    else:
        ending.when_over(lambda: wire.deliver_later(report))


async def _send(wire: AsyncWire, call: GuardedCall, decision_id: str, report: OutcomeReport, timeout: float) -> None:
    """Sends a report. One whose amount is refused is sent without it. Tells of a report that cannot be delivered."""
    named = f"`{call.settings.action_type}` (decision `{decision_id}`)"
    try:
        await call_report(wire, decision_id, report, timeout)
    except Exception as error:
        is_refused = isinstance(error, ControlPlaneRequestError) and error.code == "INVALID_ARGUMENT"
        if report.amount is not None and is_refused:
            tell(f"the amount `{report.amount}` of {named} was refused: {error}")
            await _send(wire, call, decision_id, OutcomeReport(report.status), timeout)
        else:
            tell(f"the outcome `{report.status}` of {named} is not reported: {error}")
