"""Watches of agents, with one stream for all watches of an agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from ._messages import optional
from .errors import AgentStoppedError, Change
from .proto import agent_service_pb2 as agents
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Self

#: Maximum killed sessions that are remembered for later callbacks, since a kill may arrive before its call.
_MAX_REMEMBERED_KILLS = 10_000
#: Maximum sessions that one stream asks for when it is opened.
_MAX_ASKED_SESSIONS = 1_000
#: Seconds that a function in a session waits for the stream, which reports kills only while it is open.
READY_GRACE = 1.0
#: Seconds that an unused stream stays open, so that successive guarded calls of a busy agent share it.
LINGER = 1.0

_CHANGES: dict[int, Change] = {
    agents.AGENT_CHANGE_DEACTIVATED: "deactivated",
    agents.AGENT_CHANGE_REVOKED: "revoked",
}


class KilledSessions:
    """Killed sessions and their callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: In the order in which they were killed.
        self._killed: dict[str, None] = {}
        self._callbacks: dict[str, list[Callable[[], None]]] = {}
        #: Sessions that the open stream asked for.
        self._asked: frozenset[str] = frozenset()
        #: True if a callback was added for a session that the open stream did not ask for.
        self._has_more_to_ask = False

    def ask(self) -> list[str]:
        """Returns the sessions that have a callback, for the request of a stream."""
        with self._lock:
            asked = list(self._callbacks)[:_MAX_ASKED_SESSIONS]
            self._asked = frozenset(asked)
            self._has_more_to_ask = False
            return asked

    @property
    def has_more_to_ask(self) -> bool:
        """Tests for a session that has a callback and may have been killed before the stream was open."""
        with self._lock:
            return self._has_more_to_ask

    def add(self, session_id: str) -> None:
        """Records that a session was killed."""
        with self._lock:
            if len(self._killed) >= _MAX_REMEMBERED_KILLS:
                del self._killed[next(iter(self._killed))]
            self._killed[session_id] = None
            callbacks = self._callbacks.pop(session_id, [])
        for callback in callbacks:
            callback()

    def listen(self, session_id: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back when the session is killed, or at once if it is already killed. Returns a function that removes the callback."""
        with self._lock:
            if session_id not in self._killed:
                self._callbacks.setdefault(session_id, []).append(callback)
                if session_id not in self._asked and len(self._callbacks) <= _MAX_ASKED_SESSIONS:
                    self._has_more_to_ask = True
                return lambda: self._remove(session_id, callback)
        callback()
        return lambda: None

    def _remove(self, session_id: str, callback: Callable[[], None]) -> None:
        with self._lock:
            callbacks = self._callbacks.get(session_id, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._callbacks.pop(session_id, None)
                self._has_more_to_ask = self._has_more_to_ask and not self._asked.issuperset(self._callbacks)


class AgentStream:
    """One WatchAgent stream. It is reopened whenever it breaks, until it has no holders or its agent has ended."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        #: Set with an `AgentStoppedError` when the agent is deactivated or revoked.
        self.signal = StopSignal()
        #: Set when the agent's status first arrives.
        self.ready = StopSignal()
        self.kills = KilledSessions()
        self.holders = 0
        #: Time at which the last holder left.
        self.left_at = 0.0

    def receive(self, message: agents.WatchAgentResponse) -> None:
        """Handles one message of the stream."""
        self.ready.set()
        if message.change == agents.AGENT_CHANGE_KILLED and message.HasField("session_id"):
            self.kills.add(message.session_id)
        change = _CHANGES.get(message.change)
        if change is not None:
            revocation_id = optional(message, "revocation_id")
            self.signal.set(AgentStoppedError(self.agent_id, change, revocation_id=revocation_id))


class AgentWatches:
    """Watches of one client. Safe to use from any thread."""

    def __init__(self, read: Callable[[AgentWatches, AgentStream], Callable[[], None]]) -> None:
        """`read` starts reading a stream in the background, and returns a function that stops it."""
        self._read = read
        self._lock = threading.Lock()
        self._streams: dict[str, tuple[AgentStream, Callable[[], None]]] = {}

    def hold(self, agent_id: str) -> AgentStream:
        """Returns the agent's stream, which is open or opening. It MUST be released."""
        with self._lock:
            held = self._streams.get(agent_id)
            if held is not None:
                held[0].holders += 1
                return held[0]
            stream = AgentStream(agent_id)
            stream.holders = 1
            self._streams[agent_id] = (stream, self._read(self, stream))
            return stream

    def release(self, stream: AgentStream) -> None:
        """Releases a stream. It closes a second after the last holder has left."""
        with self._lock:
            stream.holders -= 1
            stream.left_at = time.monotonic()

    def close(self) -> None:
        """Closes every stream at once."""
        with self._lock:
            stops = [stop for _, stop in self._streams.values()]
            self._streams.clear()
        for stop in stops:
            stop()

    def is_wanted(self, stream: AgentStream) -> bool:
        """Tests whether a stream is still needed. If not, forgets it at once, so that nobody can hold it any more."""
        with self._lock:
            is_held = stream.holders > 0 or time.monotonic() - stream.left_at < LINGER
            if is_held and not stream.signal.is_set():
                return True
            self._drop(stream)
            return False

    def forget(self, stream: AgentStream) -> None:
        """Forgets a stream that is no longer read. The next watch of its agent gets a new stream."""
        with self._lock:
            self._drop(stream)

    def _drop(self, stream: AgentStream) -> None:
        held = self._streams.get(stream.agent_id)
        if held is not None and held[0] is stream:
            del self._streams[stream.agent_id]


class WatchBase:
    """Watch that reports at once when an agent must stop. It does not decide whether an action is allowed.

    While the control plane is unreachable it reports nothing; only `intercept` fails closed. Close a watch, or use it in a `with`
    statement.
    """

    def __init__(self, watches: AgentWatches, agent_id: str) -> None:
        self._watches = watches
        self._stream = watches.hold(agent_id)
        self._removals: list[Callable[[], None]] = []
        self._is_open = True

    @property
    def signal(self) -> StopSignal:
        """Set with an `AgentStoppedError` when the agent is deactivated or revoked."""
        return self._stream.signal

    @property
    def error(self) -> Optional[BaseException]:
        """The `AgentStoppedError` once the agent must stop."""
        return self._stream.signal.error

    def on_session_killed(self, session_id: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back once when the session is killed, or at once if it is known to be killed.

        A kill before the stream was open, or while it was broken, is reported when the stream is open. Returns a function that
        removes the callback.
        """
        if not self._is_open:
            return lambda: None
        remove = self._stream.kills.listen(session_id, callback)
        self._removals.append(remove)
        return remove

    def close(self) -> None:
        """Releases the stream and removes the callbacks of this watch. Its signal may still be set."""
        if not self._is_open:
            return
        self._is_open = False
        for remove in self._removals:
            remove()
        self._watches.release(self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
