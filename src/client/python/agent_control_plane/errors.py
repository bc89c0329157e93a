"""Errors of the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Optional

from .results import InterceptReason, retry_after_from

Change = Literal["deactivated", "revoked", "killed"]


@dataclass(frozen=True)
class FieldViolation:
    """One invalid field of a request."""

    #: Path to the field in the request, in snake_case.
    field: str
    #: States why the value is invalid and what to change.
    description: str
    #: A stable UPPER_SNAKE_CASE word.
    reason: str


class ControlPlaneRequestError(Exception):
    """Raised for a call that was refused or did not reach the control plane. Nothing was decided, or the response was lost."""

    #: The name in `google.rpc.Code`: `INVALID_ARGUMENT`.
    code: str
    #: Stable identifier of the fault, such as `AGENT_NOT_FOUND`; None if the fault did not come from the control plane.
    reason: Optional[str]
    #: The values in the message, by name.
    metadata: Mapping[str, str]
    #: The invalid fields of the request.
    violations: Sequence[FieldViolation]
    #: False if no connection could be made, so that nothing was sent. True if the request may have arrived, and may have been
    #: decided.
    reached: bool

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        violations: Sequence[FieldViolation] = (),
        reached: bool = True,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.reached = reached


class AgentBlockedError(Exception):
    """Raised for a refused call: the action was blocked, rejected, or could not be decided.

    The guarded function did not run; only an `AgentStoppedError` also ends a call whose function was running.
    """

    #: `block`; `escalate` if the approval is missing or does not fit; None if the control plane was not reached.
    decision: Optional[Literal["block", "escalate"]]
    #: The reasons, most decisive first; empty when nothing was decided.
    reasons: Sequence[InterceptReason]
    escalation_id: Optional[str]
    #: Id of the sealed decision; None if nothing was decided or only the escalation is known.
    decision_id: Optional[str]
    #: Note to the agent by the person who rejected the action. It is part of the message too.
    note: Optional[str]
    #: Time, in UTC, from which no limit refuses the action any more, if nothing else happens: the same call may then be tried again.
    #: None if anything but limits refused it, if a limit never has room, and after a person's rejection.
    retry_after: Optional[datetime]
    #: Text for the language model that made the call, to be returned as the tool's result.
    for_model: str

    def __init__(
        self,
        message: str,
        decision: Optional[Literal["block", "escalate"]],
        *,
        reasons: Sequence[InterceptReason] = (),
        escalation_id: Optional[str] = None,
        decision_id: Optional[str] = None,
        note: Optional[str] = None,
        for_model: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.decision = decision
        self.reasons = tuple(reasons)
        self.escalation_id = escalation_id
        self.decision_id = decision_id
        self.note = note
        self.retry_after = retry_after_from(self.reasons)
        self.for_model = message if for_model is None else for_model


class ResultWithheldError(Exception):
    """Raised for a call with `observe` whose function ran, and whose session could not observe what came of it.

    The result, or the error, is withheld: a model that read it could act on what no rule knows of.
    """

    decision_id: str
    session_id: str

    def __init__(self, action_type: str, decision_id: str, session_id: str, why: object) -> None:
        super().__init__(
            f"`{action_type}` ran, and its result is withheld: session `{session_id}` could not observe it: {why}; "
            "check what it did before it is called again"
        )
        self.decision_id = decision_id
        self.session_id = session_id


class EscalationTimeoutError(AgentBlockedError):
    """Raised if nobody resolved an escalation in time. The escalation stays pending and may still be resolved."""

    #: Length of the wait, in seconds.
    timeout: float

    def __init__(
        self,
        escalation_id: str,
        timeout: float,
        *,
        reasons: Sequence[InterceptReason] = (),
        decision_id: Optional[str] = None,
        for_model: Optional[str] = None,
    ) -> None:
        super().__init__(
            f"nobody resolved escalation `{escalation_id}` within {timeout:g} s",
            "escalate",
            reasons=reasons,
            escalation_id=escalation_id,
            decision_id=decision_id,
            for_model=for_model,
        )
        self.timeout = timeout


class AlreadyClaimedError(AgentBlockedError):
    """Raised for a call whose action another call has claimed, which runs it or has run it. The guarded function did not run."""


class AgentStoppedError(AgentBlockedError):
    """Raised if the agent was deactivated or revoked, or its session was killed.

    A guarded function that was running may have had its effect, in whole or in part; its result is discarded.
    """

    agent_id: str
    #: The agent was deactivated or revoked, or the session was killed.
    change: Change
    #: Set when a session was killed.
    session_id: Optional[str]
    #: Set when the agent was revoked.
    revocation_id: Optional[str]

    def __init__(
        self, agent_id: str, change: Change, *, session_id: Optional[str] = None, revocation_id: Optional[str] = None
    ) -> None:
        is_killed = change == "killed"
        what = "your session was ended" if is_killed else f"you were {change}"
        super().__init__(
            f"session `{session_id}` was killed" if is_killed else f"agent `{agent_id}` was {change}",
            "block",
            for_model=f"Stop now: {what}. Take no further action.",
        )
        self.agent_id = agent_id
        self.change = change
        self.session_id = session_id
        self.revocation_id = revocation_id


class CallCancelledError(Exception):
    """Raised by a call of the blocking client whose `cancel` signal was set. In asyncio a task is cancelled instead."""
