"""Plans of an agent's own, with both clients against a service."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from typing import Any

import agent_control_plane as acp
from agent_control_plane.proto import authority_service_pb2 as authority
from agent_control_plane.proto import authority_service_pb2_grpc, tool_service_pb2, tool_service_pb2_grpc
from harness import ADMIN, URL, register_agent

AUTHORITY = ADMIN.stub(authority_service_pb2_grpc.AuthorityServiceStub)
GOAL = "send Bob the report"
TO_BOB = {"field": "to", "operator": "==", "value": "bob@example.com"}


def own_key(agent_id: str) -> str:
    """Makes a key of an agent alone."""
    return str(AUTHORITY.CreateCredential(authority.CreateCredentialRequest(agent_id=agent_id)).secret)


def status_of(session_id: str) -> str:
    """Returns the status of a session."""
    session = AUTHORITY.GetSession(authority.GetSessionRequest(session_id=session_id)).session
    return str(authority.AuthorityStatus.Name(session.status))


class Plans(unittest.TestCase):
    """Calls inside of a plan run, others do not."""

    def setUp(self) -> None:
        self.agent_id = register_agent()
        self.key = own_key(self.agent_id)
        self.send, self.read = f"send_{uuid.uuid4().hex}", f"read_{uuid.uuid4().hex}"
        tools = ADMIN.stub(tool_service_pb2_grpc.ToolServiceStub)
        for name in (self.send, self.read):
            request = tool_service_pb2.RegisterToolRequest(name=name)
            request.input_schema.update({"type": "object", "properties": {"to": {"type": "string"}}})
            tools.RegisterTool(request)
        self.steps = [acp.PlanStep(self.read), acp.PlanStep(self.send, [TO_BOB], max_calls=1)]
        self.runs: list[str] = []

    def options(self, tool: str) -> Any:
        return {"agent_id": self.agent_id, "action_type": "call", "tool": tool}

    def assert_outside(self, error: acp.AgentBlockedError) -> None:
        self.assertEqual([reason.code for reason in error.reasons], ["OUTSIDE_CONTRACT"])

    def test_run_their_calls_and_no_other(self) -> None:
        with acp.Client(URL, self.key) as client, client.plan(self.agent_id, GOAL, self.steps) as plan:

            @client.guard(**self.options(self.send))
            def send(to: str) -> None:
                self.runs.append(to)

            planned = plan.within(send)
            with self.assertRaises(acp.AgentBlockedError) as caught:
                planned("eve@evil.example")
            self.assert_outside(caught.exception)
            planned("bob@example.com")
            with self.assertRaises(acp.AgentBlockedError):
                planned("bob@example.com")
            self.assertEqual(self.runs, ["bob@example.com"])
            self.assertEqual(status_of(plan.session_id), "AUTHORITY_STATUS_ACTIVE")
        self.assertEqual(status_of(plan.session_id), "AUTHORITY_STATUS_ENDED")

    def test_run_in_asyncio_as_well(self) -> None:
        async def go() -> str:
            async with acp.AsyncClient(URL, self.key) as client:
                async with await client.plan(self.agent_id, GOAL, self.steps) as plan:

                    @client.guard(**self.options(self.read))
                    async def read(to: str) -> None:
                        self.runs.append(to)

                    @client.guard(**self.options("delete_file"))
                    async def delete(to: str) -> None:
                        self.runs.append(f"deleted {to}")

                    await plan.within(read)("x")
                    with self.assertRaises(acp.AgentBlockedError) as caught:
                        await plan.within(delete)("x")
                    self.assert_outside(caught.exception)
                    return plan.session_id

        session_id = asyncio.run(go())
        self.assertEqual(self.runs, ["x"])
        self.assertEqual(status_of(session_id), "AUTHORITY_STATUS_ENDED")

    def test_end_with_the_error_of_their_block(self) -> None:
        with acp.Client(URL, self.key) as client:
            with self.assertRaisesRegex(LookupError, "mine"), client.plan(self.agent_id, GOAL, self.steps) as plan:
                raise LookupError("mine")
            self.assertEqual(status_of(plan.session_id), "AUTHORITY_STATUS_ENDED")

    def test_leave_a_session_open_that_was_there(self) -> None:
        begun = AUTHORITY.CreateSession(authority.CreateSessionRequest(agent_id=self.agent_id))
        session_id = begun.session.session_id
        with acp.Client(URL, self.key) as client:
            with client.plan(self.agent_id, GOAL, self.steps, session_id=session_id) as plan:
                self.assertEqual(plan.session_id, session_id)
            self.assertEqual(status_of(session_id), "AUTHORITY_STATUS_ACTIVE")
            with self.assertRaises(acp.ControlPlaneRequestError) as caught:
                client.plan(self.agent_id, GOAL, self.steps, session_id=session_id)
            self.assertEqual(caught.exception.reason, "SESSION_HAS_CONTRACT")

    def test_leave_no_session_when_a_step_does_not_compile(self) -> None:
        steps = [acp.PlanStep(self.send, [{**TO_BOB, "field": "recipient"}])]
        with acp.Client(URL, self.key) as client, self.assertRaises(acp.ControlPlaneRequestError) as caught:
            client.plan(self.agent_id, GOAL, steps, ttl=60)
        self.assertEqual(caught.exception.reason, "PLAN_INVALID")
        sessions = AUTHORITY.ListSessions(authority.ListSessionsRequest(agent_id=self.agent_id)).sessions
        self.assertEqual([status_of(each.session_id) for each in sessions], ["AUTHORITY_STATUS_ENDED"])

    def test_are_refused_for_another_agent_and_for_options_that_are_none(self) -> None:
        with acp.Client(URL, self.key) as client:
            with self.assertRaises(acp.ControlPlaneRequestError) as caught:
                client.plan(register_agent(), GOAL, self.steps)
            self.assertEqual(caught.exception.reason, "AGENT_NOT_ALLOWED")
            with self.assertRaisesRegex(ValueError, "`outside`"):
                client.plan(self.agent_id, GOAL, self.steps, outside="rules")  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, f"conditions of the step `{self.send}`"):
                client.plan(self.agent_id, GOAL, [acp.PlanStep(self.send, [{"path": "to"}])])


if __name__ == "__main__":
    unittest.main()
