"""The asyncio client against a service."""

from __future__ import annotations

import asyncio
import inspect
import unittest
from typing import Any

import grpc

import agent_control_plane as acp
from agent_control_plane.proto import escalation_service_pb2 as escalations
from agent_control_plane.proto import tool_service_pb2, tool_service_pb2_grpc
from harness import (
    KEY,
    URL,
    decisions_of,
    escalation,
    no_task_forgotten,
    pending_of,
    register_agent,
    resolve,
    revoke,
)

CALLS = 200


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.agent_id = register_agent()
        self.client = acp.AsyncClient(URL, KEY)
        self.runs: list[int] = []

    async def asyncTearDown(self) -> None:
        await self.client.close()

    def guarded(self, action_type: str, **options: Any) -> Any:
        @self.client.guard(agent_id=self.agent_id, action_type=action_type, **options)
        async def pay(amount: int) -> str:
            self.runs.append(amount)
            return f"paid {amount}"

        return pay

    async def test_decides_calls_at_the_same_time_each_on_its_own(self) -> None:
        pay = self.guarded("pay")
        self.assertTrue(inspect.iscoroutinefunction(pay))
        results = await asyncio.gather(*(pay(amount) for amount in range(CALLS)))
        self.assertEqual(results, [f"paid {amount}" for amount in range(CALLS)])
        self.assertEqual(len({each.decision_id for each in decisions_of(self.agent_id)}), 50)

    async def test_waits_for_a_person_and_returns_the_verdict(self) -> None:
        call = asyncio.ensure_future(self.guarded("review.pay")(100))
        escalation_id = await asyncio.to_thread(pending_of, self.agent_id)
        waiting = asyncio.ensure_future(self.client.wait(escalation_id))
        resolve(escalation_id, "approved")
        self.assertEqual((await call, await waiting), ("paid 100", "approved"))

    async def test_raises_the_errors_of_the_blocking_client(self) -> None:
        with self.assertRaisesRegex(acp.AgentBlockedError, "too dangerous"):
            await self.guarded("danger.pay")(1)
        with self.assertRaises(acp.EscalationTimeoutError):
            await self.guarded("review.pay", escalation_timeout=0.2)(1)
        with self.assertRaises(acp.ControlPlaneRequestError):
            await self.client.intercept("read", "", "agt_unknown")
        self.assertEqual(self.runs, [])

    async def test_withdraws_its_ask_when_its_task_is_cancelled(self) -> None:
        for leave in ("waits", "asks"):
            agent_id = self.agent_id = register_agent()
            call = asyncio.ensure_future(self.guarded("review.pay")(100))
            if leave == "waits":
                await asyncio.to_thread(pending_of, agent_id)
            else:
                # The request is on its way, and nothing is known of its decision.
                await asyncio.sleep(0.001)
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            for decision in decisions_of(agent_id):
                found = escalation(decision.escalation_id)
                self.assertEqual((found.status, found.resolved_by), (escalations.ESCALATION_STATUS_REJECTED, "withdrawal"))
        self.assertEqual(self.runs, [])

    async def test_cancels_the_running_function_when_its_agent_is_revoked(self) -> None:
        running, ended = asyncio.Event(), asyncio.Event()

        @self.client.guard(agent_id=self.agent_id, action_type="work")
        async def work() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        call = asyncio.ensure_future(work())
        await asyncio.wait_for(running.wait(), 60)
        await asyncio.to_thread(revoke, self.agent_id)
        with self.assertRaises(acp.AgentStoppedError) as raised:
            await call
        self.assertEqual(raised.exception.change, "revoked")
        self.assertTrue(ended.is_set())

    async def test_leaves_the_end_of_a_running_call_to_its_function_when_the_caller_cancels(self) -> None:
        running = asyncio.Event()

        @self.client.guard(agent_id=self.agent_id, action_type="work")
        async def work() -> str:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "tidied up"
            return "never"

        call = asyncio.ensure_future(work())
        await asyncio.wait_for(running.wait(), 60)
        call.cancel()
        self.assertEqual(await call, "tidied up")

    async def test_leaves_no_task_with_an_error_that_nobody_sees_whenever_its_caller_cancels(self) -> None:
        with no_task_forgotten():
            for step in range(40):
                action_type = ("pay", "danger.pay", "review.pay")[step % 3]
                call = asyncio.ensure_future(self.guarded(action_type)(step))
                await asyncio.sleep(step / 1000)
                call.cancel()
                await asyncio.wait([call])
            del call

    async def test_discards_what_a_cancelled_function_raises_also_if_its_caller_cancels_meanwhile(self) -> None:
        running, stopping = asyncio.Event(), asyncio.Event()

        @self.client.guard(agent_id=self.agent_id, action_type="work")
        async def work() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopping.set()
                await asyncio.sleep(0.1)
                raise RuntimeError("tidying up failed")

        with no_task_forgotten():
            call = asyncio.ensure_future(work())
            await asyncio.wait_for(running.wait(), 60)
            await asyncio.to_thread(revoke, self.agent_id)
            await asyncio.wait_for(stopping.wait(), 60)
            call.cancel()
            await asyncio.wait([call])
            del call
            await asyncio.sleep(0.2)

    async def test_awaits_hooks_and_fails_closed_when_they_raise(self) -> None:
        seen: list[str] = []

        async def on_decision(result: acp.InterceptResult, action: acp.Action) -> None:
            await asyncio.sleep(0)
            seen.append(result.decision)
            if action.metadata == {"arguments": {"amount": 2}}:
                raise RuntimeError("the audit is full")

        pay = self.guarded("pay", on_decision=on_decision)
        self.assertEqual(await pay(1), "paid 1")
        with self.assertRaisesRegex(RuntimeError, "audit"):
            await pay(2)
        self.assertEqual((seen, self.runs), (["allow", "allow"], [1]))

    async def test_watches_an_agent(self) -> None:
        with self.client.watch(self.agent_id) as watch:
            await watch.wait_ready()
            await asyncio.to_thread(revoke, self.agent_id)
            self.assertEqual((await watch.stopped()).change, "revoked")

    async def test_offers_every_service_by_its_generated_stub(self) -> None:
        stub = self.client.stub(tool_service_pb2_grpc.ToolServiceStub)
        self.assertEqual(list((await stub.ListTools(tool_service_pb2.ListToolsRequest())).tools), [])
        with self.assertRaises(grpc.RpcError) as raised:
            await stub.GetTool(tool_service_pb2.GetToolRequest(name="unknown"))
        self.assertEqual(acp.request_error_from(raised.exception).reason, "TOOL_NOT_FOUND")


class Loops(unittest.TestCase):
    def test_serves_one_event_loop_after_another(self) -> None:
        agent_id, client = register_agent(), acp.AsyncClient(URL, KEY)

        @client.guard(agent_id=agent_id, action_type="read")
        async def read() -> str:
            return "read"

        self.assertEqual([asyncio.run(read()), asyncio.run(read())], ["read", "read"])

    def test_ends_with_the_program_when_its_function_does(self) -> None:
        agent_id, client = register_agent(), acp.AsyncClient(URL, KEY)
        for error in (SystemExit(3), KeyboardInterrupt()):

            @client.guard(agent_id=agent_id, action_type="read")
            async def leave() -> None:
                raise error

            with no_task_forgotten(), self.assertRaises(type(error)):
                asyncio.run(leave())


if __name__ == "__main__":
    unittest.main()
