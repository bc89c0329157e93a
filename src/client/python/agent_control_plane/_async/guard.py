"""The essential promise: a guarded function MUST NOT run unless exactly this call is allowed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._asyncio import AsyncWire
from .._faults import is_unreachable
from .._guard_options import Arguments
from .._guarded_call import GuardedCall, Guarding, check_unchanged, edited_call, pending_approval
from .._methods import LAST_WORDS
from .._model_text import unanswered_text, unchecked_text
from .._refusals import asked_in, check_allowed, is_spent, rejection_error
from .._request_id import create_request_id, presentation_id
from .._wait_options import WaitOptions
from ..errors import AgentBlockedError, ControlPlaneRequestError, EscalationTimeoutError
from ..results import Action, EditedApproval, InterceptResult, PendingApproval, Rejection, Verdict
from .claimed_action import claim_allowed, give_up
from .escalation import wait_for_escalation, withdraw_escalation
from .intercept import call_intercept


@dataclass(frozen=True)
class Permitted:
    """A call that may run."""

    call: GuardedCall
    arguments: Arguments
    #: The decision whose action the call has claimed; None for a call that runs unchecked.
    claimed: Optional[InterceptResult]


async def permit(
    wire: AsyncWire, guarding: Guarding, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Union[PendingApproval, Permitted]:
    """Returns the call as it may run, or the approval if the call does not wait for it; raises otherwise."""
    request_id = guarding.settings.request_id or create_request_id()
    call = GuardedCall(guarding, request_id, create_request_id(), args, kwargs)
    action = call.action()
    asked = dataclasses.replace(action, request_id=call.request_id, claim_id=call.claim_id)
    result = await _decide_or_run(wire, call, asked)
    if result is None:
        return Permitted(call, call.to_run(), None)
    if result.decision != "escalate":
        return await _permit_allowed(wire, call, action, result)
    if not guarding.settings.wait_on_escalate:
        return pending_approval(result, action)
    return await _wait_for_approval(wire, call, action, result)


async def _permit_allowed(wire: AsyncWire, call: GuardedCall, action: Action, result: InterceptResult) -> Permitted:
    """Claims an allowed action for its call, which may run then."""
    check_allowed(result, action)
    claimed = await claim_allowed(wire, call, result)
    try:
        check_unchanged(call, action, claimed)
        return Permitted(call, call.to_run(), claimed)
    except BaseException:
        await give_up(wire, call, claimed)
        raise


async def _wait_for_approval(
    wire: AsyncWire, asked: GuardedCall, action: Action, escalated: InterceptResult
) -> Permitted:
    """Waits until an approval admits this call, and claims its action.

    Returns the call as approved: with other arguments if a person edited them and the options accept edits.
    """
    ends_at = time.monotonic() + asked.settings.escalation_timeout
    call, waiting = asked, escalated
    while True:
        escalation_id = asked_in(waiting, action)
        verdict, rejection = await _wait_for_verdict(wire, asked, escalation_id, waiting, ends_at)
        if verdict == "rejected":
            raise rejection_error(action, escalation_id, waiting, rejection)
        approved_id: Optional[str] = escalation_id
        if isinstance(verdict, EditedApproval):
            call = edited_call(call, verdict, waiting)
            action = call.action()
            approved_id = verdict.escalation_id
        # The arguments are read again: the approval has to cover what would run now, not what was sent for approval.
        request_id = presentation_id(asked.request_id, approved_id or escalation_id)
        changes: dict[str, Any] = {"request_id": request_id}
        if approved_id is not None:
            changes["escalation_id"] = approved_id
        presented = dataclasses.replace(call.action(), **changes)
        result = await _decide(wire, call, presented)
        waits_on = approved_id is None and result.decision == "escalate"
        if not (waits_on or is_spent(result)):
            return await _permit_allowed(wire, call, action, result)
        # Another call for the same action was admitted, or the edited action now needs an approval, so this call waits for the
        # next approval.
        waiting = result


async def _wait_for_verdict(
    wire: AsyncWire, call: GuardedCall, escalation_id: str, escalated: InterceptResult, ends_at: float
) -> tuple[Union[Verdict, EditedApproval], Optional[Rejection]]:
    settings = call.settings
    rejections: list[Rejection] = []
    options = WaitOptions(
        timeout=max(0.0, ends_at - time.monotonic()),
        poll_interval=settings.escalation_poll_interval,
        accept_edits=settings.accept_edits,
        on_rejected=rejections.append,
    )
    try:
        verdict = await wait_for_escalation(wire, escalation_id, options)
    except EscalationTimeoutError as error:
        raise EscalationTimeoutError(
            escalation_id,
            settings.escalation_timeout,
            reasons=escalated.reasons,
            decision_id=escalated.decision_id,
            for_model=unanswered_text(settings.action_type, escalated.reasons),
        ) from error.__cause__
    except (ControlPlaneRequestError, GeneratorExit):
        raise
    except BaseException:
        # The caller cancelled, so nobody waits for the approval any more.
        await wire.last_words(lambda last: withdraw_escalation(last, escalation_id, LAST_WORDS))
        raise
    return verdict, rejections[-1] if rejections else None


async def _decide_or_run(wire: AsyncWire, call: GuardedCall, action: Action) -> Optional[InterceptResult]:
    """Returns the decision on an action; None if the call may run unchecked: nothing was sent, and the options allow it then."""
    settings = call.settings
    # INVARIANT: only an intercept that sent nothing lets a call pass unchecked; an exception of `on_decision` never does.
    asked = await _ask(wire, call, action)
    # An earlier call may have claimed the action.
    may_be_claimed = settings.request_id is not None or settings.escalation_id is not None
    may_pass = settings.on_unreachable == "allow" and not may_be_claimed
    if isinstance(asked, ControlPlaneRequestError) and not asked.reached and may_pass:
        if settings.on_unchecked is not None:
            await wire.resolve(settings.on_unchecked(asked, action))
        return None
    return await _heed(wire, call, action, asked)


async def _decide(wire: AsyncWire, call: GuardedCall, action: Action) -> InterceptResult:
    """Returns the decision on an action of which an earlier decision is known, so that it never runs unchecked."""
    return await _heed(wire, call, action, await _ask(wire, call, action))


async def _ask(
    wire: AsyncWire, call: GuardedCall, action: Action
) -> Union[InterceptResult, ControlPlaneRequestError]:
    """Returns the decision on an action, or the fault if the control plane did not answer."""

    async def withdraw(last: AsyncWire, late: InterceptResult) -> None:
        if late.escalation_id is not None:
            await withdraw_escalation(last, late.escalation_id, LAST_WORDS)
        await give_up(last, call, late)

    try:
        result = await wire.finish(lambda sending: call_intercept(sending, action, call.guarding.timeout), withdraw)
    except ControlPlaneRequestError as fault:
        if not is_unreachable(fault):
            raise
        return fault
    return result


async def _heed(
    wire: AsyncWire, call: GuardedCall, action: Action, asked: Union[InterceptResult, ControlPlaneRequestError]
) -> InterceptResult:
    """Tells the hook of a decision and returns it; raises if there is none."""
    if isinstance(asked, ControlPlaneRequestError):
        message = f"the action could not be decided: {asked}"
        raise AgentBlockedError(message, None, for_model=unchecked_text(action.action_type)) from asked
    on_decision = call.settings.on_decision
    try:
        if on_decision is not None:
            await wire.resolve(on_decision(asked, action))
    except GeneratorExit:
        raise
    except BaseException:
        await give_up(wire, call, asked)
        raise
    return asked
