"""Has one action decided."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any, Optional

from ._back_off import BackOff
from ._faults import is_transient
from ._json import copy_json, struct_from
from ._request_id import create_request_id
from ._wire import INTERCEPT, Wire
from .errors import ControlPlaneRequestError
from .proto import enforcement_service_pb2 as enforcement
from .proto import resources_pb2 as resources
from .results import Action, InterceptReason, InterceptResult

_FIRST_PAUSE = 0.05
_MAX_PAUSE = 2.0
#: Share of the remaining time after which an unresponsive connection is abandoned for a new one.
_UNRESPONSIVE_SHARE = 0.5
#: Seconds: gRPC takes no call without time.
_MIN_TIMEOUT = 0.001


async def call_intercept(wire: Wire, action: Action, timeout: float) -> InterceptResult:
    """Sends an action, and retries with one `request_id` so that it is decided once, while no answer comes.

    Raises a `ControlPlaneRequestError` when the call is refused or the time is up.
    """
    request = _request_from(action)
    ends_at = time.monotonic() + timeout
    back_off = BackOff(_FIRST_PAUSE, _MAX_PAUSE)
    timed_out_before = False
    while True:
        remaining = ends_at - time.monotonic()
        limit = remaining if timed_out_before else remaining * _UNRESPONSIVE_SHARE
        try:
            return _result_from(await wire.unary(INTERCEPT, request, max(limit, _MIN_TIMEOUT)))
        except ControlPlaneRequestError as fault:
            if fault.code == "DEADLINE_EXCEEDED" and not timed_out_before:
                timed_out_before = True
                continue
            pause = back_off.next()
            if not is_transient(fault) or time.monotonic() + pause >= ends_at:
                raise
        await wire.sleep(pause)


def _request_from(action: Action) -> enforcement.InterceptRequest:
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


def _result_from(response: enforcement.InterceptResponse) -> InterceptResult:
    decision = _DECISIONS.get(response.decision)
    if decision is None:
        raise ControlPlaneRequestError("INTERNAL", f"the control plane gave an unknown decision `{response.decision}`")
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
    )


def _path_from(path: Any) -> str:
    names = resources.DecisionPath.DESCRIPTOR.values_by_number
    return names[path].name[len(_PATH_PREFIX) :].lower() if path in names else str(path)


def _reason_from(reason: resources.Reason) -> InterceptReason:
    return InterceptReason(
        code=reason.code,
        message=reason.message,
        mandate_id=optional(reason, "mandate_id"),
        mandate_name=optional(reason, "mandate_name"),
        rule=optional(reason, "rule"),
        argument=optional(reason, "argument"),
        would_pass=optional(reason, "would_pass"),
    )


def optional(message: Any, name: str) -> Optional[Any]:
    """Returns a field that may be unset; None if it is."""
    return getattr(message, name) if message.HasField(name) else None
