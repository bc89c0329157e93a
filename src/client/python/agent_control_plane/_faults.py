"""Converts the faults of gRPC."""

from __future__ import annotations

import re
from typing import Any, Optional

import grpc

from .errors import ControlPlaneRequestError, FieldViolation
from .proto import rpc_error_details_pb2 as error_details
from .proto import rpc_status_pb2

_DETAILS_KEY = "grpc-status-details-bin"
#: gRPC reports every failed connection as UNAVAILABLE; only the text gives the cause.
_CONNECTION_FAILED = re.compile(r"failed to connect to all addresses|connections to all backends failing", re.IGNORECASE)
#: Faults of the network. Any other cause of a failed connection counts as a wrong address, such as TLS to a server without TLS,
#: an invalid certificate, or another protocol. So an unknown fault never lets a function run unchecked.
_NETWORK_FAULT = re.compile(
    r"failed to connect to remote host|socket closed|recvmsg|sendmsg|connection (refused|reset|closed|timed out)|no route to host"
    r"|network is unreachable|broken pipe|time-?out|timed out|shutdown|endpoint closing|goaway|\(HTTP status 50[234]\)",
    re.IGNORECASE,
)
#: Faults after which nothing was sent: the system's own connect failed, or the name of the host has no address.
_NOT_CONNECTED = re.compile(r"failed to connect to remote host|dns resolution failed|domain name not found", re.IGNORECASE)
#: Faults of an open connection that show another protocol.
_OTHER_PROTOCOL = re.compile(r"http1\.x server|failed parsing HTTP/2", re.IGNORECASE)
#: Faults of a service whose certificate is not trusted.
_UNTRUSTED = re.compile(r"certificate.verify.failed", re.IGNORECASE)
#: Faults of a connection that the other side ended at once, as a service does without the certificate that it asks for.
_TURNED_AWAY = re.compile(
    r"endpoint read failed|socket closed|connection reset|certificate.required|bad.certificate|unknown.ca", re.IGNORECASE
)
_TOO_MANY_REQUESTS = "http2 header with status: 429"
#: Code of a fault that only another configuration fixes.
_CONFIGURATION_CODE = "FAILED_PRECONDITION"


def request_error_from(error: Any) -> ControlPlaneRequestError:
    """Converts the error of a gRPC call, with the control plane's reason, metadata and violations."""
    code, text = error.code().name, error.details() or ""
    status = _status_from(error.trailing_metadata())
    info = _detail(status, error_details.ErrorInfo)
    if info is None:
        return _foreign_error(code, text)
    bad_request = _detail(status, error_details.BadRequest)
    fields = [] if bad_request is None else bad_request.field_violations
    return ControlPlaneRequestError(
        code,
        text,
        reason=info.reason or None,
        metadata=info.metadata,
        violations=[FieldViolation(each.field, each.description, each.reason) for each in fields],
    )


def _status_from(metadata: Any) -> Optional[rpc_status_pb2.Status]:
    for key, value in metadata or ():
        if key == _DETAILS_KEY:
            try:
                return rpc_status_pb2.Status.FromString(value)
            except Exception:  # Bytes of something that is not the control plane.
                return None
    return None


def _detail(status: Optional[rpc_status_pb2.Status], kind: Any) -> Any:
    for detail in [] if status is None else status.details:
        if detail.type_url.endswith(f"/google.rpc.{kind.DESCRIPTOR.name}"):
            return kind.FromString(detail.value)
    return None


def _foreign_error(code: str, text: str) -> ControlPlaneRequestError:
    """Converts a fault that did not come from the control plane."""
    if code == "DEADLINE_EXCEEDED":
        return ControlPlaneRequestError(code, "the control plane did not answer in time")
    if code != "UNAVAILABLE":
        return ControlPlaneRequestError(code, text)
    if _TOO_MANY_REQUESTS in text:
        return ControlPlaneRequestError("RESOURCE_EXHAUSTED", text)
    is_foreign = _CONNECTION_FAILED.search(text) or _OTHER_PROTOCOL.search(text)
    if is_foreign and not _NETWORK_FAULT.search(text):
        return ControlPlaneRequestError(
            _CONFIGURATION_CODE, f"there is no control plane at the address: {text}{_advice_for(text)}"
        )
    advice = _advice_for(text) if _CONNECTION_FAILED.search(text) else ""
    reached = _NOT_CONNECTED.search(text) is None
    return ControlPlaneRequestError(code, f"the control plane did not answer: {text}{advice}", reached=reached)


def _advice_for(text: str) -> str:
    """Says what to set for a connection that failed for want of a certificate; empty for a fault of another kind."""
    if _UNTRUSTED.search(text):
        return "; `credentials` must trust the issuer of the service's certificate"
    if _TURNED_AWAY.search(text):
        return "; if the service asks for certificates of clients, `credentials` must have one of an issuer that it takes"
    return ""


def broken_stream(error: Exception) -> ControlPlaneRequestError:
    """Converts a fault of gRPC's own code in a stream: the stream is broken, and may be opened again."""
    return ControlPlaneRequestError("UNAVAILABLE", f"the stream broke: {error!r}")


def is_unreachable(error: ControlPlaneRequestError) -> bool:
    """Tests for a fault without a response: the control plane or the connection to it is down, or was not made."""
    return error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def is_transient(error: ControlPlaneRequestError) -> bool:
    """Tests for a fault after which the same call, with the same `request_id`, may succeed a little later."""
    return error.code == "UNAVAILABLE" or error.reason in ("OVERLOADED", "RATE_LIMITED")
