"""Gives a session a plan, and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, ParamSpec, TypeVar

from google.protobuf import json_format

from .._asyncio import AsyncConnection, AsyncWire
from .._guard_options import Guarded
from .._methods import CREATE_INTENT_CONTRACT, CREATE_SESSION, END_SESSION, LAST_WORDS
from ..proto import authority_service_pb2 as authority
from ..results import PlanStep

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
R = TypeVar("R")

#: Maximum characters of a session's purpose.
_MAX_PURPOSE = 500
_OUTSIDE = {
    "block": authority.OUTSIDE_CONTRACT_BLOCK,
    "escalate": authority.OUTSIDE_CONTRACT_ESCALATE,
}


class AsyncPlan:
    """A plan of an agent: a session whose calls are inside of it or refused. Leaving its `with` block ends the session."""

    def __init__(
        self, connection: AsyncConnection, timeout: float, session_id: str, intent_contract_id: str, begun: bool
    ) -> None:
        self.session_id = session_id
        self.intent_contract_id = intent_contract_id
        self._connection = connection
        self._timeout = timeout
        self._begun = begun

    def within(self, function: Guarded[P, R]) -> Guarded[P, R]:
        """Returns a guarded function whose calls are part of the plan."""
        return function.with_options(session_id=self.session_id)

    async def end(self) -> None:
        """Ends the session, unless it was there before the plan: no further call is allowed. Ending again changes nothing."""
        if self._begun:
            await _end_session(AsyncWire(self._connection), self.session_id, self._timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            await self.end()
        elif self._begun and not isinstance(error, GeneratorExit):
            # The error of the block says more than one of its end.
            wire = AsyncWire(self._connection)
            await wire.last_words(lambda last: _end_session(last, self.session_id, LAST_WORDS))


def contract_from(agent_id: str, goal: str, steps: Sequence[PlanStep], outside: str) -> Any:
    """Builds the request for the contract of a plan. Raises a `ValueError` that names the option or the step at fault."""
    if outside not in _OUTSIDE:
        raise ValueError(f"`outside` must be `block` or `escalate`, not `{outside}`")
    request = authority.CreateIntentContractRequest(agent_id=agent_id, goal=goal, outside=_OUTSIDE[outside])
    for step in steps:
        planned = request.steps.add(tool=step.tool)
        if step.max_calls is not None:
            planned.max_calls = step.max_calls
        if step.conditions is None:
            continue
        try:
            json_format.ParseDict({"rules": [dict(each) for each in step.conditions]}, planned.conditions)
        except json_format.ParseError as error:
            wanted = "must each have `field`, `operator` and `value`"
            raise ValueError(f"conditions of the step `{step.tool}` {wanted}: {error}") from error
    return request


async def make_plan(
    connection: AsyncConnection, contract: Any, session_id: Optional[str], ttl: Optional[int], timeout: float
) -> AsyncPlan:
    """Begins a session, unless there is one, and gives it a plan.

    Raises a `ControlPlaneRequestError`; no session is left then.
    """
    wire = AsyncWire(connection)
    begun = session_id is None
    if session_id is None:
        request = authority.CreateSessionRequest(agent_id=contract.agent_id, purpose=contract.goal[:_MAX_PURPOSE])
        if ttl is not None:
            request.ttl_seconds = ttl
        session_id = (await wire.unary(CREATE_SESSION, request, timeout)).session.session_id
    contract.session_id = session_id
    try:
        made = await wire.unary(CREATE_INTENT_CONTRACT, contract, timeout)
    except GeneratorExit:
        raise
    except BaseException:
        # Also where the caller cancelled: nobody knows of the session.
        if begun:
            ended = session_id
            await wire.last_words(lambda last: _end_session(last, ended, LAST_WORDS))
        raise
    return AsyncPlan(connection, timeout, session_id, made.intent_contract.intent_contract_id, begun)


async def _end_session(wire: AsyncWire, session_id: str, timeout: float) -> None:
    await wire.unary(END_SESSION, authority.EndSessionRequest(session_id=session_id), timeout)
