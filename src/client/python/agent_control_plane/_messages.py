"""Converts actions and decisions to and from messages."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from ._json import copy_json, struct_from
from ._request_id import create_request_id
from .errors import ControlPlaneRequestError
from .proto import enforcement_service_pb2 as enforcement
from .proto import resources_pb2 as resources
from .results import Action, InterceptReason, InterceptResult, OutcomeReport


def request_from(action: Action) -> enforcement.InterceptRequest:
    """Converts an action, and adds a `request_id` if it is missing."""
    values = {field.name: getattr(action, field.name) for field in fields(action) if field.name != "metadata"}
    request = enforcement.InterceptRequest(**{name: value for name, value in values.items() if value is not None})
    if action.request_id is None:
        request.request_id = create_request_id()
    if action.metadata is not None:
        request.metadata.CopyFrom(struct_from(copy_json(action.metadata, "metadata")))
    return request


_DECISIONS: dict[Any, Any] = {
    resources.DECISION_ALLOW: "allow",
    resources.DECISION_BLOCK: "block",
    resources.DECISION_ESCALATE: "escalate",
}
_PATH_PREFIX = "DECISION_PATH_"
_KIND_PREFIX = "VALUE_KIND_"


def result_from(response: enforcement.InterceptResponse) -> InterceptResult:
    """Converts a response. Raises a `ControlPlaneRequestError` for a decision that this version does not know."""
    decision = _DECISIONS.get(response.decision)
    if decision is None:
        raise ControlPlaneRequestError("INTERNAL", f"the control plane returned an unknown decision `{response.decision}`")
    return InterceptResult(
        decision=decision,
        trust_score=response.trust_score,
        decision_id=response.decision_id,
        escalation_id=optional(response, "escalation_id"),
        policy_name=optional(response, "policy_name"),
        latency_ms=response.latency_ms,
        decision_path=_path_from(response.decision_path),
        reasons=tuple(_reason_from(reason) for reason in response.reasons),
        replayed=response.replayed,
        tool=optional(response, "tool"),
        claimed=optional(response, "claimed"),
        report_outcome=response.report_outcome,
    )


_STATUSES = {
    "succeeded": resources.OUTCOME_STATUS_SUCCEEDED,
    "failed": resources.OUTCOME_STATUS_FAILED,
    "cancelled": resources.OUTCOME_STATUS_CANCELLED,
}


def report_from(decision_id: str, report: OutcomeReport) -> enforcement.ReportOutcomeRequest:
    """Converts a report. Raises a `ValueError` for a status that cannot be reported."""
    status = _STATUSES.get(report.status)
    if status is None:
        raise ValueError(f"`status` must be `succeeded`, `failed` or `cancelled`, not `{report.status}`")
    return enforcement.ReportOutcomeRequest(
        decision_id=decision_id,
        status=status,
        amount=report.amount,
        error=report.error,
        result_digest=report.result_digest,
    )


def _path_from(path: Any) -> str:
    names = resources.DecisionPath.DESCRIPTOR.values_by_number
    return names[path].name[len(_PATH_PREFIX) :].lower() if path in names else str(path)


def _value_kind_from(reason: resources.Reason) -> Optional[str]:
    if not reason.HasField("value_kind"):
        return None
    names = resources.ValueKind.DESCRIPTOR.values_by_number
    kind = reason.value_kind
    return names[kind].name[len(_KIND_PREFIX) :].lower() if kind in names else str(kind)


def _reason_from(reason: resources.Reason) -> InterceptReason:
    return InterceptReason(
        code=reason.code,
        message=reason.message,
        mandate_id=optional(reason, "mandate_id"),
        mandate_name=optional(reason, "mandate_name"),
        rule=optional(reason, "rule"),
        argument=optional(reason, "argument"),
        value_kind=_value_kind_from(reason),
        would_pass=optional(reason, "would_pass"),
        remaining=optional(reason, "remaining"),
        over=optional(reason, "over"),
        resets_at=_time_from(reason.resets_at) if reason.HasField("resets_at") else None,
        decision=_DECISIONS.get(reason.decision),
    )


def _time_from(timestamp: Any) -> datetime:
    return datetime.fromtimestamp(timestamp.seconds, timezone.utc) + timedelta(microseconds=timestamp.nanos // 1_000)


def optional(message: Any, name: str) -> Optional[Any]:
    """Returns a field, or None if it is unset."""
    return getattr(message, name) if message.HasField(name) else None
