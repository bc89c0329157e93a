"""What the tests of the package share: a service that decides by action type, and a proxy with habits.

The service blocks `danger.*`, escalates `review.*` and allows everything else. `ACP_URL` is its gRPC port, `ACP_KEY` the key of its
administrator.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import logging
import os
import socketserver
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

import agent_control_plane as acp
from agent_control_plane.proto import agent_service_pb2, agent_service_pb2_grpc
from agent_control_plane.proto import authority_service_pb2, authority_service_pb2_grpc
from agent_control_plane.proto import enforcement_service_pb2, enforcement_service_pb2_grpc
from agent_control_plane.proto import escalation_service_pb2 as escalations
from agent_control_plane.proto import escalation_service_pb2_grpc
from agent_control_plane.proto import revocation_service_pb2, revocation_service_pb2_grpc

# A run that hangs says where, before the limit of its caller, 300 seconds.
faulthandler.dump_traceback_later(240, exit=True)

URL, KEY = os.environ["ACP_URL"], os.environ["ACP_KEY"]
#: An address on which nobody listens.
NOWHERE = "127.0.0.1:1"
ADMIN = acp.Client(URL, KEY)
ESCALATIONS = ADMIN.stub(escalation_service_pb2_grpc.EscalationServiceStub)


def register_agent() -> str:
    """Registers an agent; returns its id."""
    request = agent_service_pb2.RegisterAgentRequest(name=f"agent {uuid.uuid4()}")
    return ADMIN.stub(agent_service_pb2_grpc.AgentServiceStub).RegisterAgent(request).agent.agent_id


def revoke(agent_id: str) -> None:
    """Revokes an agent everywhere."""
    request = revocation_service_pb2.RevokeAgentRequest(agent_id=agent_id)
    ADMIN.stub(revocation_service_pb2_grpc.RevocationServiceStub).RevokeAgent(request)


def killed_session(agent_id: str) -> str:
    """Begins a session of an agent and ends it; returns its id."""
    authority = ADMIN.stub(authority_service_pb2_grpc.AuthorityServiceStub)
    session_id = authority.CreateSession(authority_service_pb2.CreateSessionRequest(agent_id=agent_id)).session.session_id
    authority.EndSession(authority_service_pb2.EndSessionRequest(session_id=session_id))
    return session_id


def decisions_of(agent_id: str) -> list[Any]:
    """Returns the decisions on an agent's actions, newest first."""
    request = enforcement_service_pb2.ListDecisionsRequest(agent_id=agent_id)
    return list(ADMIN.stub(enforcement_service_pb2_grpc.EnforcementServiceStub).ListDecisions(request).decisions)


def arguments_of(decision_id: str) -> Any:
    """Returns the arguments that rules saw, from the receipt of a decision."""
    request = enforcement_service_pb2.GetDecisionRequest(decision_id=decision_id)
    found = ADMIN.stub(enforcement_service_pb2_grpc.EnforcementServiceStub).GetDecision(request)
    return json.loads(found.receipt.canonical_body)["action"]["metadata"]["arguments"]


def pending_of(agent_id: str) -> str:
    """Waits for the first escalation that an agent has pending; returns its id."""
    request = escalations.ListEscalationsRequest(agent_id=agent_id, status=escalations.ESCALATION_STATUS_PENDING)
    return until(lambda: next((each.escalation_id for each in ESCALATIONS.ListEscalations(request).escalations), None))


def escalation(escalation_id: str) -> Any:
    """Reads an escalation."""
    return ESCALATIONS.GetEscalation(escalations.GetEscalationRequest(escalation_id=escalation_id)).escalation


def resolve(escalation_id: str, how: str, note: str | None = None) -> None:
    """Approves or rejects."""
    resolution = {"approved": escalations.RESOLUTION_APPROVED, "rejected": escalations.RESOLUTION_REJECTED}[how]
    request = escalations.ResolveEscalationRequest(escalation_id=escalation_id, resolution=resolution, note=note)
    ESCALATIONS.ResolveEscalation(request)


def until(read: Callable[[], Any]) -> Any:
    """Reads until there is something; raises after a minute without."""
    over = time.monotonic() + 60
    while time.monotonic() < over:
        value = read()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("what the test waits for did not come within 60 s")


@contextlib.contextmanager
def no_task_forgotten() -> Iterator[None]:
    """Fails if asyncio reports a task whose error nobody has read, or one that is left running when it is collected."""
    reported: list[str] = []

    class Reports(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            # gRPC's own poller writes other lines when one event loop follows another.
            if "never retrieved" in text or "destroyed but it is pending" in text:
                reported.append(text)

    handler = Reports()
    logging.getLogger("asyncio").addHandler(handler)
    try:
        yield
        gc.collect()
    finally:
        logging.getLogger("asyncio").removeHandler(handler)
    assert not reported, reported


def beside(work: Callable[[], Any]) -> futures.Future[Any]:
    """Runs work in a thread; the future has its result."""
    future: futures.Future[Any] = futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class StreamProxy:
    """A gRPC proxy in front of the service that has its habits with streams, and passes every other call.

    `passes`, `cuts` a stream after its first message, or `holds back` whatever the service sends on it.
    """

    def __init__(self, habit: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self.habit = habit
        self.calls: list[str] = []
        self._streams: set[Any] = set()
        self._onward = grpc.insecure_channel(URL)
        self._server = grpc.server(futures.ThreadPoolExecutor(20), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([_Forwarding(self)])
        if credentials is None:
            self.url = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        else:
            self.url = f"https://localhost:{self._server.add_secure_port('localhost:0', credentials)}"
        self._server.start()

    def count(self, name: str) -> int:
        """Counts the calls of a method."""
        return sum(path.endswith(f"/{name}") for path in self.calls)

    def cut(self) -> None:
        """Breaks every open stream."""
        for messages in list(self._streams):
            messages.cancel()

    def __enter__(self) -> StreamProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)
        self._onward.close()

    def unary(self, path: str, request: bytes, context: Any) -> bytes:
        try:
            return self._onward.unary_unary(path)(request, metadata=_key_of(context), timeout=10)
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata())
            context.abort(error.code(), error.details())
            raise

    def stream(self, path: str, request: bytes, context: Any) -> Iterator[bytes]:
        messages = self._onward.unary_stream(path)(request, metadata=_key_of(context))
        context.add_callback(messages.cancel)
        self._streams.add(messages)
        try:
            for message in messages:
                if self.habit != "holds back":
                    yield message
                if self.habit == "cuts":
                    context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        except grpc.RpcError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        finally:
            self._streams.discard(messages)


def _key_of(context: Any) -> list[tuple[str, str]]:
    return [(key, value) for key, value in context.invocation_metadata() if key == "x-api-key"]


def certificate(folder: str) -> tuple[bytes, bytes]:
    """Makes a key and a certificate for `localhost` that signs itself."""
    key, cert = f"{folder}/key.pem", f"{folder}/cert.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    with open(key, "rb") as key_file, open(cert, "rb") as cert_file:
        return key_file.read(), cert_file.read()


class Answering(socketserver.ThreadingTCPServer):
    """Something that is not the service: it answers every HTTP/2 request with a status."""

    daemon_threads = True

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status = status
        self.url = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Answer(socketserver.StreamRequestHandler):
    """Frames of HTTP/2 (RFC 9113): three bytes of length, type, flags, four bytes of stream."""

    server: Answering

    def handle(self) -> None:
        self.rfile.read(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        self._send(_SETTINGS, 0, bytes(4), b"")
        while len(header := self.rfile.read(9)) == 9:
            kind, flags, stream = header[3], header[4], header[5:]
            self.rfile.read(int.from_bytes(header[:3], "big"))
            if kind == _SETTINGS and not flags & _ACK:
                self._send(_SETTINGS, _ACK, bytes(4), b"")
            if kind == _HEADERS:
                # `:status` as a literal with an indexed name (RFC 7541), END_HEADERS and END_STREAM.
                self._send(_HEADERS, 5, stream, b"\x08\x03" + str(self.server.status).encode())

    def _send(self, kind: int, flags: int, stream: bytes, payload: bytes) -> None:
        self.wfile.write(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream + payload)


_HEADERS, _SETTINGS, _ACK = 1, 4, 1


class _Forwarding(grpc.GenericRpcHandler):
    def __init__(self, proxy: StreamProxy) -> None:
        self._proxy = proxy

    def service(self, details: Any) -> Any:
        path = details.method
        self._proxy.calls.append(path)
        if path.endswith(("/WaitEscalation", "/WatchAgent")):
            return grpc.unary_stream_rpc_method_handler(lambda *call: self._proxy.stream(path, *call))
        return grpc.unary_unary_rpc_method_handler(lambda *call: self._proxy.unary(path, *call))
