"""The client for asyncio."""  # only asyncio
# only blocking: """The blocking client."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, ParamSpec, TypeVar, Union, overload

import grpc

from ._async.claimed_action import report_end
from ._async.escalation import wait_for_escalation, withdraw_escalation
from ._async.guard import permit
from ._async.intercept import call_intercept
from ._async.observation import call_observe, observe_end
from ._async.outcome import call_claim, call_report
from ._async.plan import AsyncPlan as AsyncPlan
from ._async.plan import contract_from, make_plan
from ._async.watch import create_watches
from ._asyncio import AsyncConnection, AsyncWire
from ._asyncio_run import AsyncAgentWatch as AsyncAgentWatch
from ._asyncio_run import check_function, run
from ._ending import Ending
from ._guard_options import (
    AnsweringGuardOptions,
    AsyncFunction,
    AsyncGuarded,
    GuardOptions,
    GuardSettings,
    UnwaitingGuardOptions,
)
from ._guarded_call import Binding, Guarding
from ._observed_content import observe_request
from ._options import DEFAULT_TIMEOUT, address_from, check_api_key, check_positive
from ._wait_options import DEFAULT_ESCALATION_POLL_INTERVAL, DEFAULT_ESCALATION_TIMEOUT, WaitOptions
from .errors import AgentBlockedError, AgentStoppedError
from .results import (
    Action,
    ClaimResult,
    EditedApproval,
    InterceptResult,
    OutcomeReport,
    PendingApproval,
    PlanStep,
    Verdict,
)
# only blocking: from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class AsyncClient:
    """Client of a control plane in asyncio, which decides actions before they happen. May be created outside of an event loop.

    A caller cancels a call by cancelling its task; a pending request for approval is then withdrawn.
    """  # only asyncio
    # only blocking: """Client of a control plane, which decides actions before they happen. Blocks; safe to use from any thread."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        credentials: Optional[grpc.ChannelCredentials] = None,
    ) -> None:
        """`url` is the address of the gRPC port: `host:port` or `http://…` without TLS, `https://…` with TLS.

        `timeout` is the time limit of one intercept, claim or report in seconds, retries included. `credentials` are for a connection with TLS; by
        default the usual authorities are trusted. An invalid address, key or time raises a `ValueError` or `TypeError` that names
        the option.
        """
        address = address_from(url, credentials)
        check_api_key(api_key)
        check_positive("timeout", timeout)
        self._timeout = timeout
        self._connection = AsyncConnection(address, api_key)
        self._watches = create_watches(self._connection)

    async def intercept(
        self,
        action_type: str,
        action_content: str,
        agent_id: str,
        *,
        metadata: Optional[Mapping[str, Any]] = None,
        tool: Optional[str] = None,
        session_id: Optional[str] = None,
        on_behalf_of: Optional[str] = None,
        grant_id: Optional[str] = None,
        intent_contract_id: Optional[str] = None,
        escalation_id: Optional[str] = None,
        request_id: Optional[str] = None,
        claim_id: Optional[str] = None,
        report: Optional[bool] = None,
        timeout: Optional[float] = None,
        # only blocking: cancel: Optional[StopSignal] = None,
    ) -> InterceptResult:
        """Requests the decision on one action and returns it at once, `escalate` included; `Action` describes the parameters.

        While the control plane cannot be reached, retries with the same `request_id` until the time is up. Raises a
        `ControlPlaneRequestError` if nothing was decided.
        """
        action = Action(
            action_type,
            action_content,
            agent_id,
            metadata,
            tool,
            session_id,
            on_behalf_of,
            grant_id,
            intent_contract_id,
            escalation_id,
            request_id,
            claim_id,
            report,
        )
        if timeout is not None:
            check_positive("timeout", timeout)
        wire = AsyncWire(self._connection)  # only asyncio
        # only blocking: wire = Wire(self._connection, cancel)
        return await call_intercept(wire, action, self._timeout if timeout is None else timeout)

    async def claim(
        self, decision_id: str, claim_id: str, *, report: Optional[bool] = None, timeout: Optional[float] = None
    ) -> ClaimResult:
        """Claims an allowed action for the caller, who is to run it: two callers with the same decision never both hold it.

        `claim_id` is a UUID of the caller's choice, the same for a retry. `report=False` says that the caller does not report the
        outcome. While no response comes, retries until the time is up. Raises a `ControlPlaneRequestError` unless the claim holds;
        the action MUST NOT run then. Guarded functions claim by themselves.
        """
        limit = self._timeout if timeout is None else timeout
        check_positive("timeout", limit)
        return await call_claim(AsyncWire(self._connection), decision_id, claim_id, report, limit)

    async def report_outcome(
        self,
        decision_id: str,
        status: Literal["succeeded", "failed", "cancelled"],
        *,
        amount: Optional[float] = None,
        error: Optional[str] = None,
        result_digest: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Reports how an allowed action ended; the first report counts.

        `amount` is what a `succeeded` action came to, `error` the cause of another end, `result_digest` the SHA-256 of the result.
        They are sealed: no secrets, no personal values. While no response comes, retries until the time is up. Raises a
        `ControlPlaneRequestError` if the report is refused or was not delivered. Guarded functions report by themselves.
        """
        limit = self._timeout if timeout is None else timeout
        check_positive("timeout", limit)
        report = OutcomeReport(status, amount, error, result_digest)
        await call_report(AsyncWire(self._connection), decision_id, report, limit)

    async def observe_prompt(self, text: str, session_id: str, *, timeout: Optional[float] = None) -> None:
        """Tells a session what a person asked, so that rules know where values come from. MUST return before a model acts on it.

        Telling the same again changes nothing. While no response comes, retries until the time is up. Raises a
        `ControlPlaneRequestError`. Guarded functions with `observe` tell their results by themselves.
        """
        limit = self._timeout if timeout is None else timeout
        check_positive("timeout", limit)
        await call_observe(AsyncWire(self._connection), observe_request(session_id, "prompt", text), limit)

    @overload
    def guard(self, **options: Unpack[GuardOptions]) -> Callable[[AsyncFunction[P, R]], AsyncGuarded[P, R]]: ...

    @overload
    def guard(
        self, **options: Unpack[AnsweringGuardOptions]
    ) -> Callable[[AsyncFunction[P, R]], AsyncGuarded[P, Union[R, str]]]: ...

    @overload
    def guard(
        self, **options: Unpack[UnwaitingGuardOptions]
    ) -> Callable[[AsyncFunction[P, R]], AsyncGuarded[P, Union[R, PendingApproval]]]: ...

    def guard(self, **options: Any) -> Any:
        """Decorates a function so that it MUST NOT run unless the control plane allows exactly this call.

        Otherwise the call raises: an `AgentBlockedError` for a block, a rejection, a timeout and an unreachable control plane,
        whose text it returns with `when_refused="result"`; a `ControlPlaneRequestError` for an invalid request; a `TypeError` for
        arguments that do not fit the function. `GuardOptions` describes the options.
        """
        settings = GuardSettings(**options)
        if settings.cancel is not None:  # only asyncio
            raise TypeError("`cancel` is for the blocking client; in asyncio cancel the task")  # only asyncio
        return lambda function: self._guarded(function, settings)

    async def plan(
        self,
        agent_id: str,
        goal: str,
        steps: Sequence[PlanStep],
        *,
        session_id: Optional[str] = None,
        ttl: Optional[int] = None,
        outside: Literal["block", "escalate"] = "block",
        timeout: Optional[float] = None,
    ) -> AsyncPlan:
        """Says which calls a goal takes, before a model reads what others wrote.

        Any other call in the plan's session is refused, or asks a person with `outside="escalate"`. Begins a session of `ttl`
        seconds, by default a day, unless `session_id` names one of the agent. `timeout` is the time limit of each call that makes
        the plan. Raises a `ControlPlaneRequestError`, also for steps that do not compile (`PLAN_INVALID`).
        """
        limit = self._timeout if timeout is None else timeout
        check_positive("timeout", limit)
        contract = contract_from(agent_id, goal, steps, outside)
        return await make_plan(self._connection, contract, session_id, ttl, limit)

    @overload
    async def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[False] = ...,
        # only blocking: cancel: Optional[StopSignal] = ...,
    ) -> Verdict: ...

    @overload
    async def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[True],
        # only blocking: cancel: Optional[StopSignal] = ...,
    ) -> Union[Verdict, EditedApproval]: ...

    async def wait(
        self,
        escalation_id: str,
        timeout: float = DEFAULT_ESCALATION_TIMEOUT,
        poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL,
        *,
        accept_edits: bool = False,
        # only blocking: cancel: Optional[StopSignal] = None,
    ) -> Union[Verdict, EditedApproval]:
        """Waits until a person has resolved an escalation, and returns `approved` or `rejected`.

        Listens on a stream, and polls every `poll_interval` seconds while no stream delivers. Raises an `EscalationTimeoutError`
        if nobody resolved the escalation within `timeout` seconds (`math.inf` waits for ever). With `accept_edits` it returns an
        `EditedApproval` if a person approved the action with other arguments.
        """
        wire = AsyncWire(self._connection)  # only asyncio
        # only blocking: wire = Wire(self._connection, cancel)
        return await wait_for_escalation(wire, escalation_id, WaitOptions(timeout, poll_interval, accept_edits))

    async def withdraw(self, escalation_id: str) -> None:
        """Withdraws one request for an approval; withdrawing the last one ends the escalation. Cancelled calls do this by
        themselves.
        """
        await withdraw_escalation(AsyncWire(self._connection), escalation_id, self._timeout)

    def watch(self, agent_id: str) -> AsyncAgentWatch:
        """Reports at once when an agent is deactivated or revoked, and when its sessions are killed.

        All watches of an agent share one stream. It is reopened whenever it breaks, until a second after the last watch is
        closed.
        """
        return AsyncAgentWatch(self._watches, agent_id)

    def stub(self, stub: Callable[[Any], S]) -> S:
        """Returns a generated stub of any service, with the key: `client.stub(ToolServiceStub)`. It raises `grpc.RpcError`."""
        return stub(self._connection.keyed_channel())

    async def close(self) -> None:
        """Closes the connection; open watches report nothing more."""
        self._watches.close()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    def _guarded(self, function: Callable[..., Any], settings: GuardSettings) -> Any:
        check_function(function)
        timeout = self._timeout if settings.timeout is None else settings.timeout
        binding = Binding(function, settings)
        guarding = Guarding(settings, binding, timeout)

        @functools.wraps(function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            wire = AsyncWire(self._connection)  # only asyncio
            # only blocking: wire = Wire(self._connection, settings.cancel)
            try:
                permitted = await permit(wire, guarding, args, kwargs)
            except AgentBlockedError as error:
                if settings.when_refused == "result":
                    return error.for_model
                raise
            if isinstance(permitted, PendingApproval):
                return permitted
            ending = Ending()
            result: Any = None
            raised: Optional[BaseException] = None
            try:
                result = await run(self.watch, function, settings, permitted.arguments, ending)
            except GeneratorExit:
                raise
            except BaseException as error:
                raised = error
            await report_end(wire, permitted.call, permitted.claimed, ending)
            # What a stopped call came to is discarded.
            if not isinstance(raised, AgentStoppedError):
                # INVARIANT: outside of the handler, so that no traceback of a `ResultWithheldError` shows the error that it withholds.
                await observe_end(wire, permitted.call, permitted.claimed, ending)
            if raised is not None:
                raise raised
            return result

        if settings.stop_argument is not None:
            # Frameworks describe a tool by its signature and annotations. No model passes a `StopSignal`.
            guarded.__signature__ = binding.signature  # type: ignore[attr-defined]
            annotations = guarded.__annotations__.items()
            guarded.__annotations__ = {name: each for name, each in annotations if name != settings.stop_argument}
        guarded.with_options = lambda **given: self._guarded(function, settings.with_options(given))  # type: ignore[attr-defined]
        return guarded
