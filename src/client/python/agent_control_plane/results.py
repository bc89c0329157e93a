"""Results of the control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Optional

Verdict = Literal["approved", "rejected"]


@dataclass(frozen=True)
class Action:
    """An action that an agent is about to perform."""

    #: Kind of action, such as `payment.send`.
    action_type: str
    #: Description of the action in words, less than 1 MiB of UTF-8.
    action_content: str
    #: The acting agent.
    agent_id: str
    #: Further input to the rules; `arguments` holds the tool's arguments. JSON.
    metadata: Optional[Mapping[str, Any]] = None
    #: The tool that the action calls. Default: `metadata.tool`, else the registered tool named like the action type.
    tool: Optional[str] = None
    #: The session in which the agent acts.
    session_id: Optional[str] = None
    #: The principal (an agent id) on whose behalf the agent acts.
    on_behalf_of: Optional[str] = None
    #: The grant to use.
    grant_id: Optional[str] = None
    #: The intent contract that covers the action.
    intent_contract_id: Optional[str] = None
    #: An approved escalation of the same action; turns `escalate` into `allow`, once.
    escalation_id: Optional[str] = None
    #: Idempotency key, a UUID: a repeated call with the same id and action returns the first decision. Default: a new one.
    request_id: Optional[str] = None
    #: Claims the action for the caller if it is allowed, with an id of the caller's choice, a UUID: a repeat with the same id is
    #: `claimed`, with another one it is not, and MUST NOT run the action. Default: the caller claims nothing.
    claim_id: Optional[str] = None
    #: False if the caller does not report the outcome: a claim alone then does not track it. Default True.
    report: Optional[bool] = None


@dataclass(frozen=True)
class ClaimResult:
    """Response to a claim that holds."""

    #: True if the outcome of the action is tracked: unless it is reported, it becomes `unknown`.
    report_outcome: bool


@dataclass(frozen=True)
class OutcomeReport:
    """How an allowed action ended."""

    status: Literal["succeeded", "failed", "cancelled"]
    #: Amount that a `succeeded` action came to. Default: what the action reserved in budgets.
    amount: Optional[float] = None
    #: Cause of a failure or a cancellation, at most 1,000 characters. It is sealed: no secrets, no personal values.
    error: Optional[str] = None
    #: SHA-256 of the action's result, lower-case hexadecimal.
    result_digest: Optional[str] = None


@dataclass(frozen=True)
class PlanStep:
    """Call that is part of a plan."""

    #: The tool, as guarded functions name it in `tool`.
    tool: str
    #: Conditions that all hold on the arguments of the call, such as `{"field": "to", "operator": "==", "value": "bob"}`; they need
    #: a registered tool. Default: any arguments.
    conditions: Optional[Sequence[Mapping[str, Any]]] = None
    #: Maximum number of allowed calls. Default: no limit.
    max_calls: Optional[int] = None


@dataclass(frozen=True)
class InterceptReason:
    """One reason for a decision."""

    #: Stable identifier, such as `LIMIT_EXCEEDED`.
    code: str
    #: One plain sentence.
    message: str
    mandate_id: Optional[str] = None
    mandate_name: Optional[str] = None
    #: Path of the rule or condition in the mandate.
    rule: Optional[str] = None
    #: The decisive argument.
    argument: Optional[str] = None
    #: Kind with which a provenance rule read the argument, such as `destination`; None for any other reason.
    value_kind: Optional[str] = None
    #: A value that would have passed.
    would_pass: Optional[str] = None
    #: What still fits the limit of the rule; None for a reason that no limit gives.
    remaining: Optional[float] = None
    #: Actions, or the amount of a budget, by which the action is beyond the limit; None for a reason that no limit gives.
    over: Optional[float] = None
    #: Time from which the limit of the rule has room again if nothing else happens, in UTC; None if it never has, or if that is not
    #: known.
    resets_at: Optional[datetime] = None
    #: Decision of the rule, if it is weaker than the decision that was made; else None.
    decision: Optional[Literal["allow", "block", "escalate"]] = None


def retry_after_from(reasons: Sequence[InterceptReason]) -> Optional[datetime]:
    """Returns the time from which limits no longer refuse an action if nothing else happens: the latest of its reasons.

    None unless each reason that refuses has a time.
    """
    times = [reason.resets_at for reason in reasons if reason.decision != "allow"]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


@dataclass(frozen=True, kw_only=True)
class InterceptResult:
    """The control plane's decision on an action."""

    decision: Literal["allow", "block", "escalate"]
    #: The agent's trust when the decision was made, 0 to 100.
    trust_score: float
    #: The id of the sealed decision.
    decision_id: str
    #: Set when the decision is `escalate`.
    escalation_id: Optional[str]
    #: The mandate that determined the decision.
    policy_name: Optional[str]
    #: Milliseconds that the decision took on the control plane.
    latency_ms: int
    #: The step that determined the decision: `policy`, `revoked`, `permissions`, …
    decision_path: str = ""
    #: The reasons, most decisive first.
    reasons: Sequence[InterceptReason] = ()
    #: True if this repeats an earlier decision.
    replayed: bool = False
    #: The registered tool that the action calls; None if it calls none that is registered.
    tool: Optional[str] = None
    #: True if the action is claimed by the `claim_id` of the request, False if it is not, and the caller MUST NOT run it; None for an
    #: action that is not allowed, and for a request without `claim_id`.
    claimed: Optional[bool] = None
    #: True if the outcome of the action is tracked: unless it is reported, it becomes `unknown`.
    report_outcome: bool = False


@dataclass(frozen=True, kw_only=True)
class PendingApproval(InterceptResult):
    """Result of a guarded call that needs an approval and does not wait for it.

    The guarded function did not run. Once approved, the action is allowed when it is intercepted again with `escalation_id`; the
    approval covers exactly `action`.
    """

    escalation_id: str
    #: The action as it was intercepted.
    action: Action

    @property
    def retry_after(self) -> Optional[datetime]:
        """Time, in UTC, from which the action needs no approval, if only limits asked for one and nothing else happens; else None."""
        return retry_after_from(self.reasons)


@dataclass(frozen=True)
class EditedApproval:
    """A person's approval of an escalated action with other arguments."""

    #: The approved escalation of the edited action, to present as `escalation_id`; None if that action needs no approval.
    escalation_id: Optional[str]
    #: All arguments of the edited action.
    arguments: Mapping[str, Any]
    #: Content that the approval covers, besides the arguments; None without an approval.
    action_content: Optional[str]


@dataclass(frozen=True)
class Rejection:
    """A rejection of an escalated action."""

    #: The person's note to the agent.
    note: Optional[str]
    #: The key or person that rejected; `expiry` if the time was up, `withdrawal` if every request was withdrawn.
    resolved_by: Optional[str]
    #: Arguments that the person gave instead. Where two people have to agree, they are not approved yet.
    edited_arguments: Optional[Mapping[str, Any]]
