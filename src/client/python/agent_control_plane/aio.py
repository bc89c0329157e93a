"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, ParamSpec, TypeVar, Union, overload

import grpc

from ._asyncio import AsyncConnection, AsyncWire, async_spawner
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
from .errors import AgentStoppedError
from .results import Action, EditedApproval, InterceptResult, PendingApproval, Verdict
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

#: Seconds that a cancelled function has to end before the call raises without it.
_STOP_GRACE = 1.0


class AsyncAgentWatch(WatchBase):
    """Reports at once that an agent must stop; see `AsyncClient.watch`."""

    async def wait_ready(self) -> None:
        """Waits until the agent's status first arrived."""
        await _heard(self._stream.ready)

    async def stopped(self) -> AgentStoppedError:
        """Waits until the agent is deactivated or revoked; returns the error that says so."""
        await _heard(self.signal)
        error = self.signal.error
        assert isinstance(error, AgentStoppedError)
        return error


async def _heard(signal: StopSignal) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()
    remove = signal.add_callback(lambda: loop.call_soon_threadsafe(_complete, heard))
    try:
        await heard
    finally:
        remove()


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Awaits work for some time. Not `wait_for`, which can swallow the cancellation of its caller."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class AsyncClient:
    """Has actions decided before they happen, in asyncio. `Client` describes the parameters.

    May be created outside of an event loop. A caller gives up by cancelling its task: an approval that the call waited for is then
    no longer asked for.
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
        self._connection = AsyncConnection(address, api_key)
        self._watches = AgentWatches(async_spawner(self._connection))

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
        timeout: Optional[float] = None,
    ) -> InterceptResult:
        """Requests the decision on one action and returns it at once, `escalate` included; as `Client.intercept`."""
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
        return await call_intercept(AsyncWire(self._connection), action, self._timeout if timeout is None else timeout)

    @overload
    def guard(
        self, **options: Unpack[GuardOptions]
    ) -> Callable[[Callable[P, Awaitable[R]]], Guarded[P, Awaitable[R]]]: ...

    @overload
    def guard(
        self, **options: Unpack[UnwaitingGuardOptions]
    ) -> Callable[[Callable[P, Awaitable[R]]], Guarded[P, Awaitable[Union[R, PendingApproval]]]]: ...

    def guard(self, **options: Any) -> Any:
        """Decorates a coroutine function so that it MUST NOT run unless the control plane allows exactly this call of it.

        As `Client.guard`. A function that is running is cancelled when its agent must stop.
        """
        settings = GuardSettings(**options)
        if settings.cancel is not None:
            raise TypeError("`cancel` is for the blocking client; in asyncio cancel the task")
        return lambda function: self._guarded(function, settings)

    @overload
    async def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[False] = ...,
    ) -> Verdict: ...

    @overload
    async def wait(
        self,
        escalation_id: str,
        timeout: float = ...,
        poll_interval: float = ...,
        *,
        accept_edits: Literal[True],
    ) -> Union[Verdict, EditedApproval]: ...

    async def wait(
        self,
        escalation_id: str,
        timeout: float = DEFAULT_ESCALATION_TIMEOUT,
        poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL,
        *,
        accept_edits: bool = False,
    ) -> Union[Verdict, EditedApproval]:
        """Waits until a person resolved an escalation; returns `approved` or `rejected`. As `Client.wait`."""
        wire = AsyncWire(self._connection)
        return await wait_for_escalation(wire, escalation_id, WaitOptions(timeout, poll_interval, accept_edits))

    async def withdraw(self, escalation_id: str) -> None:
        """Takes one ask for an approval back; the last one ends the escalation. Cancelled calls do this by themselves."""
        await withdraw_escalation(AsyncWire(self._connection), escalation_id, self._timeout)

    def watch(self, agent_id: str) -> AsyncAgentWatch:
        """Reports at once when an agent is deactivated or revoked, and when its sessions are killed. As `Client.watch`."""
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
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator function does its work after the call; guard a function that does it in the call")
        timeout = self._timeout if settings.timeout is None else settings.timeout
        guarding = Guarding(settings, Binding(function, settings), timeout)

        @functools.wraps(function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            permitted = await permit(AsyncWire(self._connection), guarding, args, kwargs)
            return permitted if isinstance(permitted, PendingApproval) else await self._run(function, settings, permitted)

        guarded.with_options = lambda **given: self._guarded(function, settings.with_options(given))  # type: ignore[attr-defined]
        return guarded

    async def _run(self, function: Callable[..., Any], settings: GuardSettings, permitted: Arguments) -> Any:
        """Runs a function that is allowed. Cancels it and raises the `AgentStoppedError` if its agent must stop."""
        args, kwargs = permitted
        stopped = StopSignal()
        if settings.stop_argument is not None:
            kwargs = {**kwargs, settings.stop_argument: stopped}
        if not settings.abort_when_revoked:
            return await _call(function, args, kwargs)
        with contextlib.ExitStack() as cleanup:
            watch = self.watch(settings.agent_id)
            cleanup.callback(watch.close)
            cleanup.callback(watch.signal.relay_to(stopped))
            if settings.session_id is not None:
                killed = AgentStoppedError(settings.agent_id, "killed", session_id=settings.session_id)
                watch.on_session_killed(settings.session_id, functools.partial(stopped.set, killed))
                await _within(READY_GRACE, watch.wait_ready())
            stopped.raise_if_set()
            return await _run_until(stopped, asyncio.ensure_future(_call(function, args, kwargs)))


async def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def _run_until(stopped: StopSignal, running: asyncio.Task[Any]) -> Any:
    """Awaits a function to its end, or cancels it and raises the signal's error."""
    hearing = asyncio.ensure_future(_heard(stopped))
    try:
        while not running.done() and not stopped.is_set():
            try:
                await asyncio.wait([running, hearing], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # The function decides how the call ends, as if it were awaited directly.
                running.cancel()
        if stopped.error is None:
            return running.result()
        if running.cancel():
            await asyncio.wait([running], timeout=_STOP_GRACE)
        # An error that the function raises about its end is not reported as lost.
        running.add_done_callback(lambda task: task.cancelled() or task.exception())
        raise stopped.error
    finally:
        hearing.cancel()
