"""The blocking client."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, ParamSpec, TypeVar, Union, overload

import grpc

from ._blocking import BlockingWire, Connection, spawner
from ._escalation import (
    DEFAULT_ESCALATION_POLL_INTERVAL,
    DEFAULT_ESCALATION_TIMEOUT,
    WaitOptions,
    wait_for_escalation,
    withdraw_escalation,
)
from ._guard import (
    Arguments,
    Binding,
    Guarded,
    Guarding,
    GuardOptions,
    GuardSettings,
    UnwaitingGuardOptions,
    permit,
)
from ._intercept import call_intercept
from ._options import DEFAULT_TIMEOUT, address_from, check_api_key, check_positive
from ._watch import READY_GRACE, AgentWatches, WatchBase
from ._wire import run_blocking
from .errors import AgentStoppedError
from .results import Action, EditedApproval, InterceptResult, PendingApproval, Verdict
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class AgentWatch(WatchBase):
    """Reports at once that an agent must stop; see `Client.watch`."""

    def wait_ready(self, timeout: Optional[float] = None) -> bool:
        """Blocks until the agent's status first arrived, or `timeout` seconds have passed; returns whether it has."""
        return self._stream.ready.wait(timeout)


class Client:
    """Has actions decided before they happen. Blocks; safe to use from any thread.

    `url` is the address of the gRPC port: `host:port` or `http://…` without TLS, `https://…` with it. `timeout` is the seconds that
    one intercept may take, retries included. `credentials` are those of a connection with TLS; default: the usual authorities.
    Raises a `ValueError` or `TypeError` that names the option for an address, key or time that cannot be right.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        credentials: Optional[grpc.ChannelCredentials] = None,
    ) -> None:
        address = address_from(url, credentials)
        check_api_key(api_key)
        check_positive("timeout", timeout)
        self._timeout = timeout
        self._connection = Connection(address, api_key)
        self._watches = AgentWatches(spawner(self._connection))

    def intercept(
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
        timeout: Optional[float] = None,
        cancel: Optional[StopSignal] = None,
    ) -> InterceptResult:
        """Requests the decision on one action and returns it at once, `escalate` included; `Action` describes the parameters.

        Retries with one `request_id` until the time is up while the control plane cannot be reached. Raises a
        `ControlPlaneRequestError` when nothing was decided.
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
        )
        if timeout is not None:
            check_positive("timeout", timeout)
        wire = BlockingWire(self._connection, cancel)
        return run_blocking(call_intercept(wire, action, self._timeout if timeout is None else timeout))

    @overload
    def guard(self, **options: Unpack[GuardOptions]) -> Callable[[Callable[P, R]], Guarded[P, R]]: ...

    @overload
    def guard(
        self, **options: Unpack[UnwaitingGuardOptions]
    ) -> Callable[[Callable[P, R]], Guarded[P, Union[R, PendingApproval]]]: ...

    def guard(self, **options: Any) -> Any:
        """Decorates a function so that it MUST NOT run unless the control plane allows exactly this call of it.

        Otherwise the call raises: an `AgentBlockedError` for a block, a rejection, a time-out and an unreachable control plane; a
        `ControlPlaneRequestError` for an invalid request. `GuardOptions` describes the options.
        """
        settings = GuardSettings(**options)
        return lambda function: self._guarded(function, settings)

    @overload
    def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[False] = ...,
        cancel: Optional[StopSignal] = ...,
    ) -> Verdict: ...

    @overload
    def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[True],
        cancel: Optional[StopSignal] = ...,
    ) -> Union[Verdict, EditedApproval]: ...

    def wait(
        self,
        escalation_id: str,
        timeout: float = DEFAULT_ESCALATION_TIMEOUT,
        poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL,
        *,
        accept_edits: bool = False,
        cancel: Optional[StopSignal] = None,
    ) -> Union[Verdict, EditedApproval]:
        """Waits until a person resolved an escalation; returns `approved` or `rejected`.

        Over a stream, and by polling every `poll_interval` seconds while no stream delivers. Raises an `EscalationTimeoutError` when
        nobody resolved it within `timeout` seconds (`math.inf` waits for ever). With `accept_edits` returns an `EditedApproval` where
        a person approved the action with other arguments.
        """
        wire = BlockingWire(self._connection, cancel)
        return run_blocking(wait_for_escalation(wire, escalation_id, WaitOptions(timeout, poll_interval, accept_edits)))

    def withdraw(self, escalation_id: str) -> None:
        """Takes one ask for an approval back; the last one ends the escalation. Calls that are given up do this by themselves."""
        run_blocking(withdraw_escalation(BlockingWire(self._connection), escalation_id, self._timeout))

    def watch(self, agent_id: str) -> AgentWatch:
        """Reports at once when an agent is deactivated or revoked, and when its sessions are killed.

        All watches of an agent share one stream, which is reopened whenever it breaks, until a second after the last watch closed.
        """
        return AgentWatch(self._watches, agent_id)

    def stub(self, stub: Callable[[Any], S]) -> S:
        """Returns a generated stub of any service, with the key: `client.stub(ToolServiceStub)`. It raises `grpc.RpcError`."""
        return stub(self._connection.keyed_channel())

    def close(self) -> None:
        """Closes the connection; open watches report nothing more."""
        self._watches.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _guarded(self, function: Callable[..., Any], settings: GuardSettings) -> Any:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("the blocking client guards no coroutine function; use AsyncClient")
        if inspect.isgeneratorfunction(function):
            raise TypeError("a generator function does its work after the call; guard a function that does it in the call")
        timeout = self._timeout if settings.timeout is None else settings.timeout
        guarding = Guarding(settings, Binding(function, settings), timeout)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            wire = BlockingWire(self._connection, settings.cancel)
            permitted = run_blocking(permit(wire, guarding, args, kwargs))
            return permitted if isinstance(permitted, PendingApproval) else self._run(function, settings, permitted)

        guarded.with_options = lambda **given: self._guarded(function, settings.with_options(given))  # type: ignore[attr-defined]
        return guarded

    def _run(self, function: Callable[..., Any], settings: GuardSettings, permitted: Arguments) -> Any:
        """Runs a function that is allowed. Raises the `AgentStoppedError` in place of its result if its agent had to stop."""
        args, kwargs = permitted
        stop, stopped = StopSignal(), StopSignal()
        if settings.stop_argument is not None:
            kwargs = {**kwargs, settings.stop_argument: stop}
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(stopped.relay_to(stop))
            if settings.cancel is not None:
                settings.cancel.raise_if_set()
                cleanup.callback(settings.cancel.relay_to(stop))
            if settings.abort_when_revoked:
                watch = cleanup.enter_context(self.watch(settings.agent_id))
                cleanup.callback(watch.signal.relay_to(stopped))
                if settings.session_id is not None:
                    killed = AgentStoppedError(settings.agent_id, "killed", session_id=settings.session_id)
                    watch.on_session_killed(settings.session_id, functools.partial(stopped.set, killed))
                    watch.wait_ready(READY_GRACE)
            stopped.raise_if_set()
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                if stopped.error is not None:
                    raise stopped.error from error
                raise
            stopped.raise_if_set()
            return result
