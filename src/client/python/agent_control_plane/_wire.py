"""The operations in which the blocking and the asyncio client differ.

Everything else is written once, as coroutines over a `Wire`. Those of the blocking wire block and never suspend, so that
`run_blocking` takes a coroutine from its beginning to its end in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Optional, Protocol, TypeVar

from .proto import agent_service_pb2 as agents
from .proto import enforcement_service_pb2 as enforcement
from .proto import escalation_service_pb2 as escalations

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Response = TypeVar("Response")


@dataclass(frozen=True)
class Method(Generic[Response]):
    """A method of the control plane."""

    path: str
    request: Any
    response: type[Response]


INTERCEPT = Method(
    "/agentcontrol.v1.EnforcementService/Intercept", enforcement.InterceptRequest, enforcement.InterceptResponse
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
WATCH_AGENT = Method("/agentcontrol.v1.AgentService/WatchAgent", agents.WatchAgentRequest, agents.WatchAgentResponse)


class StreamEndedError(Exception):
    """Reports that the server ended a stream as it should."""


class Stream(Protocol[T_co]):
    """The messages of a stream from the server."""

    async def receive(self, timeout: float) -> Optional[T_co]:
        """Returns the next message; None when none came within `timeout` seconds.

        Raises `StreamEndedError` after the last message, and a `ControlPlaneRequestError` when the stream breaks.
        """

    def close(self) -> None:
        """Releases the connection."""


class Wire(Protocol):
    """The operations on the control plane and on time."""

    async def unary(self, method: Method[Response], request: Any, timeout: float) -> Response:
        """Makes one call. Raises a `ControlPlaneRequestError`, or what the caller gives up with."""

    def open(self, method: Method[Response], request: Any) -> Stream[Response]:
        """Opens a stream from the server."""

    async def sleep(self, seconds: float) -> None:
        """Waits. Raises what the caller gives up with."""

    async def finish(self, call: Work[T], late: Callable[[Wire, T], Coroutine[Any, Any, None]]) -> T:
        """Makes a call. When the caller gives up meanwhile, a result that comes in time is passed to `late`."""

    async def last_words(self, call: Work[None]) -> None:
        """Makes a last call for a caller who gave up, without an error."""

    async def resolve(self, value: Any) -> Any:
        """Returns the result of a function of the caller, which may be a coroutine in asyncio."""


#: Calls on a wire that it is given.
Work = Callable[[Wire], Coroutine[Any, Any, T]]
#: Seconds that one call may take for a caller who gave up.
LAST_WORDS = 2.0


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine over a blocking wire."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("a function of the caller gave the blocking client something to await; use AsyncClient")
