"""Refusals of guarded calls."""

from __future__ import annotations

from typing import Literal, Optional

from ._faults import is_unreachable
from ._model_text import (
    already_run_text,
    blocked_text,
    claim_refused_text,
    refused_text,
    rejected_text,
    unchecked_text,
)
from .errors import AgentBlockedError, AlreadyClaimedError, ControlPlaneRequestError
from .results import Action, InterceptResult, Rejection

#: Reason codes for an approval that covers the action but can no longer be used.
_SPENT_CODES = frozenset(["APPROVAL_USED", "APPROVAL_EXPIRED"])


def check_allowed(result: InterceptResult, action: Action) -> None:
    """Raises an `AgentBlockedError` for a decision other than `allow`."""
    if result.decision == "allow":
        return
    why = "; ".join(reason.message for reason in result.reasons)
    is_blocked = result.decision == "block"
    verb = "is blocked" if is_blocked else "needs an approval of its own"
    error = refusal_error(action, f"`{action.action_type}` {verb}{f': {why}' if why else ''}", result.decision, result)
    if is_blocked:
        error.for_model = blocked_text(action.action_type, result.reasons)
    raise error


def is_spent(result: InterceptResult) -> bool:
    """Tests for an escalation of an action whose approval was used or has expired."""
    return result.decision == "escalate" and any(reason.code in _SPENT_CODES for reason in result.reasons)


def rejection_error(
    action: Action, escalation_id: str, asked: InterceptResult, rejection: Optional[Rejection]
) -> AgentBlockedError:
    """Creates the error of a call whose escalation was rejected."""
    error = AgentBlockedError(
        f"`{action.action_type}` {_how_rejected(escalation_id, rejection)}",
        "escalate",
        reasons=asked.reasons,
        escalation_id=escalation_id,
        decision_id=asked.decision_id,
        note=None if rejection is None else rejection.note,
        for_model=rejected_text(action.action_type, rejection),
    )
    # The person's answer holds also once a limit has room again.
    error.retry_after = None
    return error


def _how_rejected(escalation_id: str, rejection: Optional[Rejection]) -> str:
    if rejection is not None and rejection.resolved_by == "expiry":
        return f"was not approved: escalation `{escalation_id}` expired"
    if rejection is not None and rejection.resolved_by == "withdrawal":
        return f"was not approved: escalation `{escalation_id}` was withdrawn"
    is_edited = rejection is not None and rejection.edited_arguments is not None
    instead = ", and edited by a person, which the call does not accept" if is_edited else ""
    said = f". The person said: {rejection.note}" if rejection is not None and rejection.note else ""
    return f"was rejected: escalation `{escalation_id}`{instead}{said}"


def refusal_error(
    action: Action, message: str, decision: Literal["block", "escalate"], result: InterceptResult
) -> AgentBlockedError:
    """Creates the error of a refused call; the message gives the reason."""
    return AgentBlockedError(
        message,
        decision,
        reasons=result.reasons,
        escalation_id=result.escalation_id,
        decision_id=result.decision_id,
        for_model=refused_text(action.action_type, message),
    )


def claim_error(action_type: str, result: InterceptResult, fault: ControlPlaneRequestError) -> Exception:
    """Converts the fault of a claim to the error of its call."""
    decision_id, stays = result.decision_id, f"`{action_type}` does not run"
    if fault.reason == "ALREADY_CLAIMED":
        message = f"{stays}: decision `{decision_id}` is claimed by another call, which runs it or has run it"
        return AlreadyClaimedError(message, "block", decision_id=decision_id, for_model=already_run_text(action_type))
    if fault.reason == "CLAIM_REFUSED":
        for_model = claim_refused_text(action_type, str(fault))
        return AgentBlockedError(f"{stays}: {fault}", "block", decision_id=decision_id, for_model=for_model)
    if not is_unreachable(fault):
        return fault
    message = f"{stays}: its claim has no answer: {fault}"
    return AgentBlockedError(message, None, decision_id=decision_id, for_model=unchecked_text(action_type))


def asked_in(result: InterceptResult, action: Action) -> str:
    """Returns the id of a decision's escalation."""
    if result.escalation_id is None:
        raise refusal_error(action, f"`{action.action_type}` escalated without an id", "escalate", result)
    return result.escalation_id
