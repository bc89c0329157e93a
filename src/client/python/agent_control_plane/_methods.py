"""Methods of the control plane that the clients call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .proto import agent_service_pb2 as agents
from .proto import authority_service_pb2 as authority
from .proto import enforcement_service_pb2 as enforcement
from .proto import escalation_service_pb2 as escalations

Response = TypeVar("Response")

#: Seconds without a message after which a stream counts as broken: three heartbeats of the server.
SILENCE = 45.0
#: Time limit in seconds of a last call after a cancellation.
LAST_WORDS = 2.0


@dataclass(frozen=True)
class Method(Generic[Response]):
    """A method of the control plane."""

    path: str
    request: Any
    response: type[Response]


INTERCEPT = Method(
    "/agentcontrol.v1.EnforcementService/Intercept", enforcement.InterceptRequest, enforcement.InterceptResponse
)
CLAIM_DECISION = Method(
    "/agentcontrol.v1.EnforcementService/ClaimDecision",
    enforcement.ClaimDecisionRequest,
    enforcement.ClaimDecisionResponse,
)
REPORT_OUTCOME = Method(
    "/agentcontrol.v1.EnforcementService/ReportOutcome",
    enforcement.ReportOutcomeRequest,
    enforcement.ReportOutcomeResponse,
)
OBSERVE = Method(
    "/agentcontrol.v1.EnforcementService/Observe", enforcement.ObserveRequest, enforcement.ObserveResponse
)
GET_ESCALATION = Method(
    "/agentcontrol.v1.EscalationService/GetEscalation",
    escalations.GetEscalationRequest,
    escalations.GetEscalationResponse,
)
GET_ESCALATION_STATUS = Method(
    "/agentcontrol.v1.EscalationService/GetEscalationStatus",
    escalations.GetEscalationStatusRequest,
    escalations.GetEscalationStatusResponse,
)
WITHDRAW_ESCALATION = Method(
    "/agentcontrol.v1.EscalationService/WithdrawEscalation",
    escalations.WithdrawEscalationRequest,
    escalations.WithdrawEscalationResponse,
)
WAIT_ESCALATION = Method(
    "/agentcontrol.v1.EscalationService/WaitEscalation",
    escalations.WaitEscalationRequest,
    escalations.WaitEscalationResponse,
)
CREATE_SESSION = Method(
    "/agentcontrol.v1.AuthorityService/CreateSession",
    authority.CreateSessionRequest,
    authority.CreateSessionResponse,
)
END_SESSION = Method(
    "/agentcontrol.v1.AuthorityService/EndSession", authority.EndSessionRequest, authority.EndSessionResponse
)
CREATE_INTENT_CONTRACT = Method(
    "/agentcontrol.v1.AuthorityService/CreateIntentContract",
    authority.CreateIntentContractRequest,
    authority.CreateIntentContractResponse,
)
WATCH_AGENT = Method("/agentcontrol.v1.AgentService/WatchAgent", agents.WatchAgentRequest, agents.WatchAgentResponse)


class StreamEndedError(Exception):
    """Raised when the server has ended a stream regularly."""
