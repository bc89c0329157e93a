"""Tells the developer of what a call cannot raise."""

from __future__ import annotations

import logging

_LOGGER = logging.getLogger("agent_control_plane")


def tell(message: str) -> None:
    """Logs a warning. A fault of a handler does not change how a call ends."""
    try:
        _LOGGER.warning(message)
    except Exception:
        return
