"""Waits for a person's verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._asyncio import AsyncStream, AsyncWire
from .._back_off import BackOff
from .._json import json_from
from .._messages import optional
from .._methods import (
    GET_ESCALATION,
    GET_ESCALATION_STATUS,
    SILENCE,
    WAIT_ESCALATION,
    WITHDRAW_ESCALATION,
    StreamEndedError,
)
from .._wait_options import MIN_POLL_INTERVAL, WaitOptions
from ..errors import ControlPlaneRequestError, EscalationTimeoutError
from ..proto import escalation_service_pb2 as escalations
from ..results import EditedApproval, Rejection, Verdict

#: Time limit of one poll, seconds.
_POLL_TIMEOUT = 10.0
#: Back-off in seconds before the next stream: if streams are always cut, one is tried twice a minute.
_FIRST_PAUSE = 1.0
_MAX_PAUSE = 30.0
#: Codes of faults that do not pass with time.
_FINAL_CODES = frozenset(["INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED"])


@dataclass
class _Wait:
    """State of one wait. Times are of the monotonic clock."""

    wire: AsyncWire
    escalation_id: str
    options: WaitOptions
    ends_at: float
    poll_every: float
    polls_at: float
    opens_at: float = 0.0
    opened_at: float = 0.0
    #: Time at which the stream last delivered.
    heard_at: float = 0.0
    #: True from a stream's first message to its end. Stays False if a proxy buffers streams.
    is_delivering: bool = False
    stream: Optional[AsyncStream[escalations.WaitEscalationResponse]] = None
    back_off: BackOff = field(default_factory=lambda: BackOff(_FIRST_PAUSE, _MAX_PAUSE))
    #: The last fault that did not end the wait.
    last_fault: Optional[ControlPlaneRequestError] = None


async def wait_for_escalation(
    wire: AsyncWire, escalation_id: str, options: WaitOptions
) -> Union[Verdict, EditedApproval]:
    """Waits until an escalation is resolved: with a stream, and by polling every `poll_interval` while no stream delivers.

    Raises `EscalationTimeoutError` when the time is up, and a `ControlPlaneRequestError` for a permanent fault.
    """
    options.check()
    return await _outcome(wire, escalation_id, options, time.monotonic() + options.timeout)


async def _outcome(
    wire: AsyncWire, escalation_id: str, options: WaitOptions, ends_at: float
) -> Union[Verdict, EditedApproval]:
    now = time.monotonic()
    # Polls at least once, however short the wait.
    poll_every = max(MIN_POLL_INTERVAL, min(options.poll_interval, options.timeout / 2))
    wait = _Wait(wire, escalation_id, options, ends_at, poll_every, now + poll_every)
    try:
        verdict = await _verdict(wait)
    finally:
        _close(wait)
    if verdict == "approved":
        return verdict
    if options.on_rejected is not None:
        await _read_rejection(wait, options.on_rejected)
    edit = await _read_edit(wait) if options.accept_edits else None
    if edit is None:
        return verdict
    if edit.is_approved or edit.approval.escalation_id is None:
        return edit.approval
    # Another person has to answer the edited action, and may edit it again.
    answer = await _outcome(wire, edit.approval.escalation_id, options, ends_at)
    return edit.approval if answer == "approved" else answer


async def _verdict(wait: _Wait) -> Verdict:
    while True:
        now = time.monotonic()
        _check_time(wait, now)
        if wait.stream is None and now >= wait.opens_at:
            request = escalations.WaitEscalationRequest(escalation_id=wait.escalation_id)
            wait.stream, wait.opened_at, wait.heard_at = wait.wire.open(WAIT_ESCALATION, request), now, now
        verdict = await _listen(wait, _next_event(wait) - now)
        if verdict is None and not wait.is_delivering and time.monotonic() >= wait.polls_at:
            verdict = await _poll(wait)
            wait.polls_at = time.monotonic() + wait.poll_every
        if verdict is not None:
            return verdict


def _check_time(wait: _Wait, now: float) -> None:
    if now >= wait.ends_at:
        raise EscalationTimeoutError(wait.escalation_id, wait.options.timeout) from wait.last_fault


def _next_event(wait: _Wait) -> float:
    """Returns the time until which the wait only listens."""
    silent_at = math.inf if wait.stream is None else wait.heard_at + SILENCE
    opens_at = wait.opens_at if wait.stream is None else math.inf
    polls_at = math.inf if wait.is_delivering else wait.polls_at
    return min(wait.ends_at, silent_at, opens_at, polls_at)


async def _listen(wait: _Wait, seconds: float) -> Optional[Verdict]:
    """Waits for the stream's next message; returns its verdict."""
    if wait.stream is None:
        await wait.wire.sleep(max(0.0, seconds))
        return None
    try:
        message = await wait.stream.receive(max(0.0, seconds))
    except StreamEndedError:
        _break(wait)
        return None
    except ControlPlaneRequestError as fault:
        _note(wait, fault)
        _break(wait)
        return None
    now = time.monotonic()
    if message is None:
        if now - wait.heard_at >= SILENCE:
            _note(wait, ControlPlaneRequestError("UNAVAILABLE", f"the stream was silent for {SILENCE:g} s"))
            _break(wait)
        return None
    wait.heard_at, wait.is_delivering = now, True
    return _verdict_from(message.escalation.status) if message.HasField("escalation") else None


def _break(wait: _Wait) -> None:
    """Closes the stream, and sets the time at which the next one is opened."""
    now = time.monotonic()
    # Only a stream that lasted shows a good connection; on some connections streams are cut again and again.
    if now - wait.opened_at > _MAX_PAUSE:
        wait.back_off.reset()
    _close(wait)
    wait.opens_at = now + wait.back_off.next()


def _close(wait: _Wait) -> None:
    if wait.stream is not None:
        wait.stream.close()
    wait.stream, wait.is_delivering = None, False


def _note(wait: _Wait, fault: ControlPlaneRequestError) -> None:
    """Keeps a temporary fault; raises a permanent one."""
    if fault.code in _FINAL_CODES:
        raise fault
    wait.last_fault = fault


async def _poll(wait: _Wait) -> Optional[Verdict]:
    request = escalations.GetEscalationStatusRequest(escalation_id=wait.escalation_id)
    limit = min(_POLL_TIMEOUT, max(wait.ends_at - time.monotonic(), MIN_POLL_INTERVAL))
    try:
        return _verdict_from((await wait.wire.unary(GET_ESCALATION_STATUS, request, limit)).status)
    except ControlPlaneRequestError as fault:
        _note(wait, fault)
        return None


def _verdict_from(status: Any) -> Optional[Verdict]:
    if status == escalations.ESCALATION_STATUS_APPROVED:
        return "approved"
    return "rejected" if status == escalations.ESCALATION_STATUS_REJECTED else None


async def _read(wait: _Wait, escalation_id: str) -> escalations.Escalation:
    request = escalations.GetEscalationRequest(escalation_id=escalation_id)
    return (await wait.wire.unary(GET_ESCALATION, request, _POLL_TIMEOUT)).escalation


async def _read_rejection(wait: _Wait, tell: Callable[[Rejection], None]) -> None:
    """Reads the rejection, in a single attempt: the rejection also holds without its reason."""
    try:
        escalation = await _read(wait, wait.escalation_id)
    except ControlPlaneRequestError:
        return
    edited = json_from(escalation.edited_arguments) if escalation.HasField("edited_arguments") else None
    tell(Rejection(optional(escalation, "note"), optional(escalation, "resolved_by"), edited))


@dataclass(frozen=True)
class _Edit:
    """An edit of an escalation."""

    approval: EditedApproval
    #: False while another person still has to answer the edited action.
    is_approved: bool


async def _read_edit(wait: _Wait) -> Optional[_Edit]:
    """Reads the edit of a rejected escalation, if there is one."""
    while True:
        _check_time(wait, time.monotonic())
        try:
            return await _edit(wait)
        except ControlPlaneRequestError as fault:
            _note(wait, fault)
        await wait.wire.sleep(wait.poll_every)


async def _edit(wait: _Wait) -> Optional[_Edit]:
    escalation = await _read(wait, wait.escalation_id)
    if not escalation.HasField("edited_arguments"):
        return None
    arguments = json_from(escalation.edited_arguments)
    if not escalation.HasField("replaced_by"):
        return _Edit(EditedApproval(None, arguments, None), True)
    edited = await _read(wait, escalation.replaced_by)
    approval = EditedApproval(escalation.replaced_by, arguments, edited.action_content)
    return _Edit(approval, edited.status == escalations.ESCALATION_STATUS_APPROVED)


async def withdraw_escalation(wire: AsyncWire, escalation_id: str, timeout: float) -> None:
    """Withdraws one request for an approval; withdrawing the last one ends the escalation."""
    request = escalations.WithdrawEscalationRequest(escalation_id=escalation_id)
    await wire.unary(WITHDRAW_ESCALATION, request, timeout)
