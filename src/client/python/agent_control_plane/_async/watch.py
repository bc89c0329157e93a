"""Reads the streams of watched agents."""

from __future__ import annotations

import time

from .._asyncio import AsyncConnection, AsyncWire
from .._back_off import BackOff
from .._methods import SILENCE, WATCH_AGENT, StreamEndedError
from .._watches import LINGER, AgentStream, AgentWatches
from ..errors import ControlPlaneRequestError
from ..proto import agent_service_pb2 as agents

_FIRST_PAUSE = 0.1
_MAX_PAUSE = 10.0


def create_watches(connection: AsyncConnection) -> AgentWatches:
    """Creates the watches of a client, whose streams use its connection."""
    return AgentWatches(lambda watches, stream: connection.spawn(lambda wire: _keep_reading(wire, watches, stream)))


async def _keep_reading(wire: AsyncWire, watches: AgentWatches, stream: AgentStream) -> None:
    back_off = BackOff(_FIRST_PAUSE, _MAX_PAUSE)
    try:
        while watches.is_wanted(stream):
            opened_at = time.monotonic()
            try:
                await _read(wire, watches, stream)
            except (ControlPlaneRequestError, StreamEndedError):
                # Every fault counts as temporary, even a refusal by a proxy; the next stream's first message reports what was
                # missed.
                pass
            if time.monotonic() - opened_at > _MAX_PAUSE:
                back_off.reset()
            if watches.is_wanted(stream) and not stream.kills.has_more_to_ask:
                await wire.sleep(back_off.next())
    finally:
        watches.forget(stream)


async def _read(wire: AsyncWire, watches: AgentWatches, stream: AgentStream) -> None:
    request = agents.WatchAgentRequest(agent_id=stream.agent_id, session_ids=stream.kills.ask())
    messages = wire.open(WATCH_AGENT, request)
    opened_at = heard_at = time.monotonic()
    try:
        while watches.is_wanted(stream):
            message = await messages.receive(LINGER)
            if message is not None:
                heard_at = time.monotonic()
                stream.receive(message)
            elif time.monotonic() - heard_at >= SILENCE:
                return
            if stream.kills.has_more_to_ask and time.monotonic() - opened_at >= LINGER:
                return
    finally:
        messages.close()
