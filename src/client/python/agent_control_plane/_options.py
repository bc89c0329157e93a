"""Checks of the options of a client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Optional

import grpc

from ._version import VERSION

#: Default time limit of an intercept in seconds: far longer than a decision takes, short enough for an agent's run.
DEFAULT_TIMEOUT = 10.0

#: Schemes of an address; True for TLS.
_SCHEMES = {"https": True, "grpcs": True, "http": False, "grpc": False, None: False}
_ADDRESS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?/*"
)
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")

#: Milliseconds between pings, and to wait for their acknowledgement: detects a connection that died silently.
_CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # A channel that replaces an unresponsive one needs a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", f"agent-control-plane-python/{VERSION}"),
)


@dataclass(frozen=True)
class Address:
    """Address of a control plane, with its TLS credentials."""

    target: str
    #: None for a connection without TLS.
    credentials: Optional[grpc.ChannelCredentials]

    @property
    def channel_options(self) -> list[tuple[str, Any]]:
        """Returns the options of a channel."""
        return list(_CHANNEL_OPTIONS)


def address_from(url: Any, credentials: Optional[grpc.ChannelCredentials]) -> Address:
    """Reads the address of the gRPC port. Raises a `TypeError` or `ValueError` that names the option.

    The client for TypeScript reads addresses in the same way.
    """
    wanted = "`url` must be an address such as `control.example.com:7090` or `https://control.example.com`"
    if not isinstance(url, str):
        raise TypeError(f"{wanted}, not {type(url).__name__}")
    match = _ADDRESS.fullmatch(url)
    if match is None or match["scheme"] not in _SCHEMES or not 0 < int(match["port"] or 1) < 65_536:
        raise ValueError(f"{wanted}, not `{_without_password(url)}`")
    is_secure, port = _SCHEMES[match["scheme"]], match["port"]
    if match["scheme"] is None and port is None:
        raise ValueError(f"{wanted}: `{url}` has neither a port nor a scheme")
    if credentials is not None and not is_secure:
        raise ValueError("`credentials` are for connections with TLS: begin `url` with `https://`")
    target = f"{match['host']}:{port or (443 if is_secure else 80)}"
    return Address(target, (credentials or grpc.ssl_channel_credentials()) if is_secure else None)


def _without_password(url: str) -> str:
    """Hides the password in a URL for messages."""
    return re.sub(r"//[^/@]*@", "//…@", url)


def check_api_key(api_key: Any) -> None:
    """Raises a `ValueError` for a key that no header can carry. The message does not show it."""
    if isinstance(api_key, str) and _VISIBLE_ASCII.fullmatch(api_key):
        return
    fault = "is missing" if api_key in (None, "") else "holds a blank or a character that a header cannot carry"
    raise ValueError(f"`api_key` {fault}; copy the key as it was shown when it was created")


def check_positive(name: str, value: Any) -> None:
    """Raises a `ValueError` for a number of seconds that is not above 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return
    raise ValueError(f"`{name}` must be a number of seconds above 0, not `{value}`")


def check_seconds(name: str, value: Any, minimum: float) -> None:
    """Raises a `ValueError` for a number of seconds below the minimum."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= minimum:
        return
    raise ValueError(f"`{name}` must be {minimum:g} seconds or more, not `{value}`")
