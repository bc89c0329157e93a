"""Runs guarded functions in the caller's thread, and signals them when to stop."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, Optional

from ._ending import Ending
from ._guard_options import Arguments, GuardSettings
from ._watches import READY_GRACE, WatchBase
from .errors import AgentStoppedError
from .stop_signal import StopSignal


class AgentWatch(WatchBase):
    """Watch that reports at once when an agent must stop; see `Client.watch`."""

    def wait_ready(self, timeout: Optional[float] = None) -> bool:
        """Blocks until the agent's status has arrived or `timeout` seconds have passed. Returns True if the status has arrived."""
        return self._stream.ready.wait(timeout)


def check_function(function: Callable[..., Any]) -> None:
    """Raises a `TypeError` for a function that cannot be guarded."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("the blocking client cannot guard a coroutine function; use AsyncClient")
    if inspect.isgeneratorfunction(function):
        raise TypeError("a generator function does its work after the call; guard a function that does it in the call")


def run(
    watch_agent: Callable[[str], AgentWatch],
    function: Callable[..., Any],
    settings: GuardSettings,
    permitted: Arguments,
    ending: Ending,
) -> Any:
    """Runs an allowed function, and records how it ended. If its agent had to stop, raises the `AgentStoppedError` instead of returning the result."""
    args, kwargs = permitted
    stop, stopped = StopSignal(), StopSignal()
    ending.stop = stop
    if settings.stop_argument is not None:
        kwargs = {**kwargs, settings.stop_argument: stop}
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(stopped.relay_to(stop))
        if settings.cancel is not None:
            settings.cancel.raise_if_set()
            cleanup.callback(settings.cancel.relay_to(stop))
        if settings.abort_when_revoked:
            watch = cleanup.enter_context(watch_agent(settings.agent_id))
            cleanup.callback(watch.signal.relay_to(stopped))
            if settings.session_id is not None:
                killed = AgentStoppedError(settings.agent_id, "killed", session_id=settings.session_id)
                watch.on_session_killed(settings.session_id, functools.partial(stopped.set, killed))
                watch.wait_ready(READY_GRACE)
        stopped.raise_if_set()
        ending.is_started = True
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            ending.record(None, error)
            if stopped.error is not None and isinstance(error, Exception):
                raise stopped.error from error
            raise
        ending.record(result, None)
        stopped.raise_if_set()
        return result
