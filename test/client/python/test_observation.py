"""What guarded functions tell their sessions, with both clients against a service."""

from __future__ import annotations

import asyncio
import traceback
import unittest
from typing import Any, Optional

import agent_control_plane as acp
from agent_control_plane.proto import authority_service_pb2, authority_service_pb2_grpc
from agent_control_plane.proto import enforcement_service_pb2 as enforcement
from agent_control_plane.proto import enforcement_service_pb2_grpc
from harness import ADMIN, KEY, URL, decisions_of, register_agent, revoke
from test_outcomes import Refusing


def begin_session(agent_id: str) -> str:
    stub = ADMIN.stub(authority_service_pb2_grpc.AuthorityServiceStub)
    return stub.CreateSession(authority_service_pb2.CreateSessionRequest(agent_id=agent_id)).session.session_id


def told(session_id: str, content: str, decision_id: Optional[str] = None, prompt: bool = False) -> Any:
    """Tells a session a content; `replayed` says whether it had observed just this before."""
    source = enforcement.OBSERVATION_SOURCE_PROMPT if prompt else enforcement.OBSERVATION_SOURCE_RESULT
    request = enforcement.ObserveRequest(
        session_id=session_id, source=source, content=content, decision_id=decision_id
    )
    return ADMIN.stub(enforcement_service_pb2_grpc.EnforcementServiceStub).Observe(request)


def last_decision(agent_id: str) -> str:
    return decisions_of(agent_id)[0].decision_id


class ObservationTest(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = register_agent()
        self.session = begin_session(self.agent)
        self.options: Any = {
            "agent_id": self.agent,
            "action_type": "read",
            "session_id": self.session,
            "observe": True,
        }

    def assert_knows(self, content: str, decision_id: Optional[str] = None) -> None:
        self.assertTrue(told(self.session, content, decision_id).replayed, content)

    def test_results_and_errors_are_observed(self) -> None:
        with acp.Client(URL, KEY) as client:
            self.assertEqual(client.guard(**self.options)(lambda: "from eve@evil.example")(), "from eve@evil.example")
            self.assert_knows("from eve@evil.example", last_decision(self.agent))
            self.assertEqual(client.guard(**self.options)(lambda: {"from": "bob@evil.example"})(), {"from": "bob@evil.example"})
            self.assert_knows('{"from":"bob@evil.example"}', last_decision(self.agent))
            self.assertIsNone(client.guard(**self.options)(lambda: None)())

            def fail() -> str:
                raise LookupError("no trudy@evil.example")

            with self.assertRaises(LookupError):
                client.guard(**self.options)(fail)()
            self.assert_knows("no trudy@evil.example")

    def test_results_are_observed_in_asyncio(self) -> None:
        async def main() -> None:
            async with acp.AsyncClient(URL, KEY) as client:
                await client.observe_prompt("mail ann@home.example", self.session)

                async def read() -> list[str]:
                    return ["from eve@evil.example"]

                self.assertEqual(await client.guard(**self.options)(read)(), ["from eve@evil.example"])

        asyncio.run(main())
        self.assertTrue(told(self.session, "mail ann@home.example", prompt=True).replayed)
        self.assert_knows('["from eve@evil.example"]', last_decision(self.agent))

    def test_prompts_and_long_results_are_observed(self) -> None:
        with acp.Client(URL, KEY) as client:
            client.observe_prompt("mail ann@home.example", self.session)
            self.assertTrue(told(self.session, "mail ann@home.example", prompt=True).replayed)
            for text in ["a\0b \ud800 c", "\x01é" * 1_000_000]:
                self.assertEqual(client.guard(**self.options)(lambda: text)(), text)
            self.assertTrue(told(self.session, "a", prompt=True).observations_full)

    def test_a_result_that_cannot_be_observed_is_withheld(self) -> None:
        with Refusing("Observe") as proxy, acp.Client(proxy.url, KEY, timeout=1) as client:
            with self.assertRaises(acp.ResultWithheldError) as raised:
                client.guard(**self.options)(lambda: "swordfish")()
            self.assertIn("`read` ran, and its result is withheld: session `ses_", str(raised.exception))
            self.assertNotIn("swordfish", str(raised.exception))
            self.assertEqual(raised.exception.session_id, self.session)
            self.assertEqual(client.guard(**{**self.options, "session_id": None})(lambda: "a")(), "a")
            self.assertEqual(client.guard(**{**self.options, "observe": False})(lambda: "a")(), "a")
        with acp.Client(URL, KEY) as client:
            with self.assertRaises(acp.ResultWithheldError):
                client.guard(**self.options)(lambda: object())()

    def test_a_withheld_error_stands_in_no_traceback(self) -> None:
        def fail() -> None:
            raise LookupError("swordfish")

        async def fail_in_asyncio(url: str) -> None:
            async with acp.AsyncClient(url, KEY, timeout=1) as client:
                await client.guard(**self.options)(fail)()

        with Refusing("Observe") as proxy, acp.Client(proxy.url, KEY, timeout=1) as client:
            for call in (client.guard(**self.options)(fail), lambda: asyncio.run(fail_in_asyncio(proxy.url))):
                try:
                    call()
                except acp.ResultWithheldError:
                    self.assertNotIn("swordfish", traceback.format_exc())
                else:
                    self.fail("nothing was withheld")

    def test_a_stop_is_raised_although_the_key_has_ended(self) -> None:
        def read(stop: acp.StopSignal) -> str:
            revoke(self.options["agent_id"])
            self.assertTrue(stop.wait(60))
            return "swordfish"

        def fail(stop: acp.StopSignal) -> str:
            raise LookupError(read(stop))

        def heed(stop: acp.StopSignal) -> None:
            read(stop)
            stop.raise_if_set()

        async def read_in_asyncio(key: str, function: Any) -> None:
            async def stubborn(stop: acp.StopSignal) -> Any:
                revoke(self.options["agent_id"])
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    return function(stop)

            async with acp.AsyncClient(URL, key, timeout=1) as client:
                await client.guard(**self.options, stop_argument="stop")(stubborn)()

        authority = ADMIN.stub(authority_service_pb2_grpc.AuthorityServiceStub)
        for in_asyncio in (False, True):
            for function in (read, fail, heed):
                with self.subTest(function.__name__, in_asyncio=in_asyncio):
                    agent_id = register_agent()
                    self.options |= {"agent_id": agent_id, "session_id": begin_session(agent_id)}
                    request = authority_service_pb2.CreateCredentialRequest(agent_id=agent_id)
                    key = authority.CreateCredential(request).secret
                    with self.assertRaises(acp.AgentStoppedError):
                        if in_asyncio:
                            asyncio.run(read_in_asyncio(key, function))
                        else:
                            with acp.Client(URL, key, timeout=1) as client:
                                client.guard(**self.options, stop_argument="stop")(function)()

    def test_a_cancelled_call_keeps_what_its_function_came_to(self) -> None:
        with Refusing("Observe") as proxy, acp.Client(URL, KEY) as client, acp.Client(proxy.url, KEY, timeout=1) as deaf:
            cancel = acp.StopSignal()

            def read() -> str:
                cancel.set()
                return "from eve@evil.example"

            self.assertEqual(client.guard(**self.options, cancel=cancel)(read)(), "from eve@evil.example")
            self.assert_knows("from eve@evil.example", last_decision(self.agent))
            again = acp.StopSignal()

            def heed(stop: acp.StopSignal) -> None:
                again.set()
                stop.raise_if_set()

            with self.assertRaises(acp.CallCancelledError):
                deaf.guard(**self.options, cancel=again, stop_argument="stop")(heed)()

    def test_a_result_counts_although_another_was_told_before(self) -> None:
        def read() -> str:
            self.assertFalse(told(self.session, "nothing to see", last_decision(self.agent)).replayed)
            return "from eve@evil.example"

        with acp.Client(URL, KEY) as client:
            client.guard(**self.options)(read)()
        self.assert_knows("from eve@evil.example")

    def test_a_result_of_an_ended_session_is_returned(self) -> None:
        def end() -> str:
            stub = ADMIN.stub(authority_service_pb2_grpc.AuthorityServiceStub)
            stub.EndSession(authority_service_pb2.EndSessionRequest(session_id=self.session))
            return "a"

        with acp.Client(URL, KEY) as client:
            self.assertEqual(client.guard(**self.options, abort_when_revoked=False)(end)(), "a")

    def test_the_option_is_checked(self) -> None:
        with acp.Client(URL, KEY) as client, self.assertRaises(TypeError):
            client.guard(**{**self.options, "observe": "yes"})


if __name__ == "__main__":
    unittest.main()
