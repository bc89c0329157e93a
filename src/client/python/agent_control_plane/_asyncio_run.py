"""Runs guarded functions in asyncio, and cancels them when their agent must stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ._ending import Ending
from ._guard_options import Arguments, GuardSettings
from ._watches import READY_GRACE, WatchBase
from .errors import AgentStoppedError
from .stop_signal import StopSignal

#: Seconds in which a cancelled function should end, before the call raises without it.
_STOP_GRACE = 1.0


class AsyncAgentWatch(WatchBase):
    """Watch that reports at once when an agent must stop; see `AsyncClient.watch`."""

    async def wait_ready(self) -> None:
        """Waits until the agent's status has arrived."""
        await _heard(self._stream.ready)

    async def stopped(self) -> AgentStoppedError:
        """Waits until the agent is deactivated or revoked, and returns the error about it."""
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
    """Awaits work for some time. Does not use `wait_for`, which can swallow the cancellation of its caller."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def check_function(function: Callable[..., Any]) -> None:
    """Raises a `TypeError` for a function that cannot be guarded."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a generator function does its work after the call; guard a function that does it in the call")


async def run(
    watch_agent: Callable[[str], AsyncAgentWatch],
    function: Callable[..., Any],
    settings: GuardSettings,
    permitted: Arguments,
    ending: Ending,
) -> Any:
    """Runs an allowed function, and records how it ended. If its agent must stop, cancels it and raises the `AgentStoppedError`."""
    args, kwargs = permitted
    stopped = ending.stop = StopSignal()
    if settings.stop_argument is not None:
        kwargs = {**kwargs, settings.stop_argument: stopped}
    if not settings.abort_when_revoked:
        return await _call(function, args, kwargs, ending)
    with contextlib.ExitStack() as cleanup:
        watch = watch_agent(settings.agent_id)
        cleanup.callback(watch.close)
        cleanup.callback(watch.signal.relay_to(stopped))
        if settings.session_id is not None:
            killed = AgentStoppedError(settings.agent_id, "killed", session_id=settings.session_id)
            watch.on_session_killed(settings.session_id, functools.partial(stopped.set, killed))
            await _within(READY_GRACE, watch.wait_ready())
        stopped.raise_if_set()
        return await _run_until(stopped, asyncio.ensure_future(_call_beside(function, args, kwargs, ending)))


async def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], ending: Ending
) -> Any:
    ending.is_started = True
    try:
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
    except BaseException as error:
        ending.record(None, error)
        raise
    ending.record(result, None)
    return result


class _Exit:
    """Error of a function that ends the program."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _call_beside(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], ending: Ending
) -> Any:
    """Calls a function in a task of its own. Returns an error that ends the program: raised here it would end the event loop."""
    try:
        return await _call(function, args, kwargs, ending)
    except (KeyboardInterrupt, SystemExit) as error:
        return _Exit(error)


async def _run_until(stopped: StopSignal, running: asyncio.Task[Any]) -> Any:
    """Awaits the end of a function, or cancels it and raises the signal's error."""
    # An error of a function whose result is discarded counts as retrieved, so that asyncio does not report it.
    running.add_done_callback(lambda task: task.cancelled() or task.exception())
    hearing = asyncio.ensure_future(_heard(stopped))
    try:
        while not running.done() and not stopped.is_set():
            try:
                await asyncio.wait([running, hearing], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # The function decides how the call ends, as if it were awaited directly.
                running.cancel()
        if stopped.error is None:
            result = running.result()
            if isinstance(result, _Exit):
                raise result.error
            return result
        if running.cancel():
            await asyncio.wait([running], timeout=_STOP_GRACE)
        raise stopped.error
    finally:
        hearing.cancel()
