"""Client of the Agent Control Plane: a guarded function runs only if exactly this call is allowed."""

from ._faults import request_error_from
from ._options import DEFAULT_TIMEOUT
from ._version import VERSION as __version__
from ._wait_options import DEFAULT_ESCALATION_POLL_INTERVAL, DEFAULT_ESCALATION_TIMEOUT
from .aio import AsyncAgentWatch, AsyncClient, AsyncPlan
from .client import AgentWatch, Client, Plan
from .errors import (
    AgentBlockedError,
    AgentStoppedError,
    AlreadyClaimedError,
    CallCancelledError,
    ControlPlaneRequestError,
    EscalationTimeoutError,
    FieldViolation,
    ResultWithheldError,
)
from .results import Action, ClaimResult, EditedApproval, InterceptReason, InterceptResult, PendingApproval, PlanStep
from .stop_signal import StopSignal

__all__ = [
    "DEFAULT_ESCALATION_POLL_INTERVAL",
    "DEFAULT_ESCALATION_TIMEOUT",
    "DEFAULT_TIMEOUT",
    "Action",
    "AgentBlockedError",
    "AgentStoppedError",
    "AgentWatch",
    "AlreadyClaimedError",
    "AsyncAgentWatch",
    "AsyncClient",
    "AsyncPlan",
    "CallCancelledError",
    "ClaimResult",
    "Client",
    "ControlPlaneRequestError",
    "EditedApproval",
    "EscalationTimeoutError",
    "FieldViolation",
    "InterceptReason",
    "InterceptResult",
    "PendingApproval",
    "Plan",
    "PlanStep",
    "ResultWithheldError",
    "StopSignal",
    "__version__",
    "request_error_from",
]
