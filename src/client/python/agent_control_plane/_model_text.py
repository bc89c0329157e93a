"""Sentences that tell a language model why its tool call did not run and what it may do instead.

They contain no ids, which mean nothing to a model, and no causes that a model cannot act on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Optional

from .results import InterceptReason, Rejection, retry_after_from

_UNCHANGED = "Do not try it again unchanged."


def _not_carried_out(action_type: str, why: str) -> str:
    return f'The action "{action_type}" was not carried out: {why}'


def _sentence(text: str) -> str:
    trimmed = text.strip()
    return trimmed if trimmed.endswith((".", "!", "?")) else f"{trimmed}."


def _moment_text(at: datetime, now: datetime) -> str:
    """Writes a time up to the next full second, with its day if that is another one than today's: `14:05:10 UTC`."""
    whole = at if at.microsecond == 0 else at.replace(microsecond=0) + timedelta(seconds=1)
    return whole.strftime("%H:%M:%S UTC" if whole.date() == now.date() else "%Y-%m-%d %H:%M:%S UTC")


def _retry_text(at: datetime, now: Optional[datetime]) -> str:
    return f"You may try it again after {_moment_text(at, now or datetime.now(timezone.utc))}."


def blocked_text(action_type: str, reasons: Sequence[InterceptReason], now: Optional[datetime] = None) -> str:
    """Text about a block. Where limits alone refused the action, it says when it may be tried again."""
    why = [_sentence(reason.message) for reason in reasons]
    would_pass = dict.fromkeys(_sentence(reason.would_pass) for reason in reasons if reason.would_pass is not None)
    retry_after = retry_after_from(reasons)
    then = _UNCHANGED if retry_after is None else _retry_text(retry_after, now)
    return " ".join([_not_carried_out(action_type, "it is not permitted."), *why, *would_pass, then])


def rejected_text(action_type: str, rejection: Optional[Rejection]) -> str:
    """Text about a rejection, with the person's own words."""
    if rejection is None:
        rejection = Rejection(None, None, None)
    if rejection.resolved_by == "expiry":
        return unanswered_text(action_type)
    if rejection.resolved_by == "withdrawal":
        return _not_carried_out(action_type, "the request for its approval was withdrawn.")
    words = [f'They said: "{rejection.note}".'] if rejection.note else []
    edited = rejection.edited_arguments
    text = json.dumps(edited, ensure_ascii=False, separators=(",", ":"))
    instead = [] if edited is None else [f"They would approve it with these arguments: {text}."]
    return " ".join([_not_carried_out(action_type, "a person rejected it."), *words, *instead, _UNCHANGED])


def unanswered_text(
    action_type: str, reasons: Sequence[InterceptReason] = (), now: Optional[datetime] = None
) -> str:
    """Text about an approval that did not come. `reasons` asked for it."""
    why = "it needs a person's approval, and nobody answered in time."
    retry_after = retry_after_from(reasons)
    then = "You may ask for it again later." if retry_after is None else _retry_text(retry_after, now)
    return f"{_not_carried_out(action_type, why)} {then}"


def unchecked_text(action_type: str) -> str:
    """Text about a control plane that could not be asked."""
    why = "it has to be checked first, and the check is not available at the moment."
    return f"{_not_carried_out(action_type, why)} You may try again later."


def already_run_text(action_type: str) -> str:
    """Text about an action that another call runs or has run."""
    return f"{_not_carried_out(action_type, 'an equal call with the same id runs it, or has run it already.')} Do not try it again."


def claim_refused_text(action_type: str, message: str) -> str:
    """Text about an allowed action that may no longer run, with the message of the control plane."""
    return _not_carried_out(action_type, _sentence(re.sub(r"^decision `[^`]*`", "it", message)))


def refused_text(action_type: str, message: str) -> str:
    """Text about a call that was refused for another reason, with the message of its error."""
    return _not_carried_out(action_type, _sentence(message))
