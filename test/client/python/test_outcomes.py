"""Claims and reports of guarded calls, with both clients against a service."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

import agent_control_plane as acp
from agent_control_plane.proto import enforcement_service_pb2, enforcement_service_pb2_grpc
from agent_control_plane.proto import resources_pb2 as resources
from harness import ADMIN, KEY, URL, StreamProxy, beside, decisions_of, pending_of, register_agent, resolve, revoke, until

_PREFIX = "OUTCOME_STATUS_"


def outcome_of(agent_id: str) -> Any:
    """Returns status, amount and error of the outcome of an agent's last action; None if it is not tracked."""
    decision = decisions_of(agent_id)[0]
    if not decision.HasField("outcome"):
        return None
    outcome = decision.outcome
    status = resources.OutcomeStatus.Name(outcome.status)[len(_PREFIX) :].lower()
    amount = outcome.amount if outcome.HasField("amount") else None
    return status, amount, outcome.error if outcome.HasField("error") else None


class Refusing(StreamProxy):
    """A proxy that refuses one method with UNAVAILABLE."""

    def __init__(self, method: str) -> None:
        super().__init__("passes")
        self.method = method

    def unary(self, path: str, request: bytes, context: Any) -> bytes:
        if path.endswith(f"/{self.method}"):
            context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")
        return super().unary(path, request, context)


class _Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Outcomes(unittest.TestCase):
    """Each test runs with the blocking client and with the asyncio client."""

    def setUp(self) -> None:
        self.agent_id = register_agent()
        self.told = _Told()
        logger = logging.getLogger("agent_control_plane")
        logger.addHandler(self.told)
        self.addCleanup(logger.removeHandler, self.told)

    def each(self, test: Callable[[Callable[..., Any]], None]) -> None:
        """Runs a test with `call(function, url=…, given=…, **options)`, which makes one guarded call."""
        for client, call in (("blocking", self.blocking), ("asyncio", self.asyncio)):
            with self.subTest(client):
                self.agent_id = register_agent()
                self.told.texts.clear()
                test(call)

    def blocking(self, function: Callable[[], Any], url: str = URL, **options: Any) -> Any:
        with acp.Client(url, KEY) as client:

            @client.guard(**{"agent_id": self.agent_id, "action_type": "pay", **options})
            def pay() -> Any:
                return function()

            return pay()

    def asyncio(self, function: Callable[[], Any], url: str = URL, **options: Any) -> Any:
        async def main() -> Any:
            async with acp.AsyncClient(url, KEY) as client:

                @client.guard(**{"agent_id": self.agent_id, "action_type": "pay", **options})
                async def pay() -> Any:
                    return function()

                return await pay()

        return asyncio.run(main())

    def test_reports_a_result_as_succeeded_with_its_amount(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            self.assertEqual(call(lambda: {"paid": 6.25}, amount=lambda result: result["paid"]), {"paid": 6.25})
            self.assertEqual(outcome_of(self.agent_id), ("succeeded", 6.25, None))
            self.assertEqual(call(lambda: "a file"), "a file")
            self.assertEqual(outcome_of(self.agent_id), ("succeeded", None, None))
            decision = decisions_of(self.agent_id)[0]
            self.assertTrue(uuid.UUID(decision.claim.claim_id))

        self.each(check)

    def test_reports_an_error_as_failed_by_its_name_alone(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            fault = LookupError("the card 4111 1111 1111 1111 of ann@example.com")

            def fail() -> None:
                raise fault

            with self.assertRaises(LookupError) as caught:
                call(fail)
            self.assertIs(caught.exception, fault)
            self.assertEqual(outcome_of(self.agent_id), ("failed", None, "LookupError"))
            self.assertEqual(call(lambda: {"ok": False}, is_failure=lambda result: not result["ok"]), {"ok": False})
            self.assertEqual(outcome_of(self.agent_id), ("failed", None, None))

        self.each(check)

    def test_reports_nothing_after_a_time_out(self) -> None:
        class ReadTimeout(OSError):
            pass

        def fail(error: Exception, cause: Exception | None) -> None:
            raise error from cause

        def check(call: Callable[..., Any]) -> None:
            for error, cause in (
                (TimeoutError(), None),
                (asyncio.TimeoutError(), None),
                (ReadTimeout(), None),
                (RuntimeError(), ReadTimeout()),
                (subprocess.TimeoutExpired("pay", 1), None),
            ):
                with self.assertRaises(type(error)):
                    call(lambda: fail(error, cause))
                self.assertEqual(outcome_of(self.agent_id), ("pending", None, None))

        self.each(check)

    def test_reports_an_interrupt_as_cancelled(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            def interrupt() -> None:
                raise KeyboardInterrupt

            with self.assertRaises(KeyboardInterrupt):
                call(interrupt)
            self.assertEqual(outcome_of(self.agent_id), ("cancelled", None, "KeyboardInterrupt"))

        self.each(check)

    def test_reports_a_cancelled_call_as_cancelled(self) -> None:
        cancel = acp.StopSignal()

        def leave() -> None:
            cancel.set()
            cancel.raise_if_set()

        with self.assertRaises(acp.CallCancelledError):
            self.blocking(leave, cancel=cancel)
        self.assertEqual(outcome_of(self.agent_id), ("cancelled", None, "CallCancelledError"))

        async def main() -> None:
            async with acp.AsyncClient(URL, KEY) as client:
                for abort_when_revoked in (True, False):
                    running = asyncio.Event()

                    @client.guard(agent_id=self.agent_id, action_type="pay", abort_when_revoked=abort_when_revoked)
                    async def pay() -> None:
                        running.set()
                        await asyncio.sleep(60)

                    call = asyncio.ensure_future(pay())
                    await running.wait()
                    call.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await call
                    found = await asyncio.to_thread(outcome_of, self.agent_id)
                    self.assertEqual(found, ("cancelled", None, "CancelledError"))

        self.agent_id = register_agent()
        asyncio.run(main())

    def test_reports_a_function_whose_agent_was_stopped_by_its_own_end(self) -> None:
        def work() -> str:
            revoke(self.agent_id)
            return "done after all"

        running = threading.Event()

        def blocking() -> str:
            running.set()
            until(lambda: stop.is_set())
            return "done after all"

        stop = acp.StopSignal()
        with acp.Client(URL, KEY) as client:

            @client.guard(agent_id=self.agent_id, action_type="pay", stop_argument="stopped")
            def pay(stopped: acp.StopSignal) -> str:
                stopped.relay_to(stop)
                return blocking()

            call = beside(pay)
            running.wait()
            revoke(self.agent_id)
            self.assertIsInstance(call.exception(60), acp.AgentStoppedError)
        self.assertEqual(outcome_of(self.agent_id), ("succeeded", None, None))

        async def main() -> None:
            async with acp.AsyncClient(URL, KEY) as client:
                started, end = asyncio.Event(), asyncio.Event()

                @client.guard(agent_id=self.agent_id, action_type="pay")
                async def stubborn() -> str:
                    started.set()
                    while not end.is_set():
                        try:
                            await end.wait()
                        except asyncio.CancelledError:
                            continue
                    return "done after all"

                call = asyncio.ensure_future(stubborn())
                await started.wait()
                await asyncio.to_thread(revoke, self.agent_id)
                with self.assertRaises(acp.AgentStoppedError):
                    await call
                self.assertEqual(await asyncio.to_thread(outcome_of, self.agent_id), ("pending", None, None))
                end.set()
                await asyncio.to_thread(until, lambda: outcome_of(self.agent_id) == ("succeeded", None, None))

        self.agent_id = register_agent()
        asyncio.run(main())

    def test_claims_after_an_approval_and_reports(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            claims: list[Any] = []
            running = beside(
                lambda: call(lambda: "paid", action_type="review.pay", on_decision=lambda result, _: claims.append(result.claimed))
            )
            resolve(pending_of(self.agent_id), "approved")
            self.assertEqual(running.result(60), "paid")
            self.assertEqual(claims, [None, None])
            self.assertEqual(outcome_of(self.agent_id), ("succeeded", None, None))
            allowed, asked = decisions_of(self.agent_id)
            self.assertTrue(allowed.HasField("claim"))
            self.assertFalse(asked.HasField("claim"))

        self.each(check)

    def test_only_claims_without_reports(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            self.assertEqual(call(lambda: "paid", report=False), "paid")
            running = beside(lambda: call(lambda: "paid", action_type="review.pay", report=False))
            resolve(pending_of(self.agent_id), "approved")
            self.assertEqual(running.result(60), "paid")
            for decision in decisions_of(self.agent_id):
                is_allowed = decision.decision == resources.DECISION_ALLOW
                self.assertEqual(decision.HasField("claim"), is_allowed)
                self.assertFalse(decision.HasField("outcome"))

        self.each(check)

    def test_runs_once_for_one_request_id(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            runs: list[int] = []
            request_id = str(uuid.uuid4())
            calls = [beside(lambda: call(lambda: runs.append(1), request_id=request_id)) for _ in range(4)]
            errors = [each.exception(60) for each in calls]
            refused = [error for error in errors if error is not None]
            self.assertEqual((len(refused), len(runs)), (3, 1))
            for error in refused:
                self.assertIsInstance(error, acp.AlreadyClaimedError)
                self.assertRegex(str(error), r"^`pay` does not run: decision `dec_\w+` is claimed by another call")
                self.assertNotIn("dec_", error.for_model)
            self.assertEqual(outcome_of(self.agent_id), ("succeeded", None, None))
            self.assertIn("runs it, or has run it", call(lambda: runs.append(1), request_id=request_id, when_refused="result"))

        self.each(check)

    def test_runs_nothing_if_its_claim_has_no_response(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            runs: list[int] = []
            with Refusing("ClaimDecision") as proxy:
                options = {"action_type": "review.pay", "on_unreachable": "allow", "timeout": 0.5}
                running = beside(lambda: call(lambda: runs.append(1), url=proxy.url, **options))
                resolve(pending_of(self.agent_id), "approved")
                error = running.exception(60)
                self.assertGreater(proxy.count("ClaimDecision"), 1)
            self.assertIsInstance(error, acp.AgentBlockedError)
            self.assertIsNone(error.decision)
            self.assertRegex(str(error), r"^`review\.pay` does not run: its claim has no answer: ")
            self.assertEqual(runs, [])

        self.each(check)

    def test_runs_nothing_unchecked_that_an_earlier_call_may_have_claimed(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            runs: list[int] = []
            options = {"url": "127.0.0.1:1", "on_unreachable": "allow", "timeout": 0.5, "abort_when_revoked": False}
            for given in ({"request_id": str(uuid.uuid4())}, {"escalation_id": "esc_1"}):
                with self.assertRaises(acp.AgentBlockedError):
                    call(lambda: runs.append(1), **options, **given)
            self.assertEqual(runs, [])
            call(lambda: runs.append(1), **options)
            self.assertEqual(runs, [1])

        self.each(check)

    def test_runs_nothing_if_the_agent_is_revoked_between_allow_and_claim(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            runs: list[int] = []

            def on_decision(result: acp.InterceptResult, _: acp.Action) -> None:
                if result.decision == "allow":
                    revoke(self.agent_id)

            running = beside(lambda: call(lambda: runs.append(1), action_type="review.pay", on_decision=on_decision))
            resolve(pending_of(self.agent_id), "approved")
            error = running.exception(60)
            self.assertIsInstance(error, acp.AgentBlockedError)
            self.assertEqual(error.decision, "block")
            self.assertRegex(str(error), r"does not run: decision `dec_\w+` may not be run: .*revoked")
            self.assertRegex(error.for_model, "revoked")
            self.assertNotIn("dec_", error.for_model)
            self.assertEqual(runs, [])

        self.each(check)

    def test_reports_a_call_that_does_not_run_after_its_claim_as_cancelled(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            runs: list[int] = []

            def on_decision(*_: Any) -> None:
                raise OSError("the audit is away")

            with self.assertRaises(OSError):
                call(lambda: runs.append(1), on_decision=on_decision)
            self.assertEqual(outcome_of(self.agent_id), ("cancelled", None, "did not run"))
            self.assertEqual(runs, [])

        self.each(check)

    def test_tells_once_of_a_report_that_is_not_delivered(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            with Refusing("ReportOutcome") as proxy:
                self.assertEqual(call(lambda: "paid", url=proxy.url, timeout=0.5), "paid")
                self.assertGreater(proxy.count("ReportOutcome"), 1)
            self.assertEqual(len(self.told.texts), 1)
            self.assertRegex(self.told.texts[0], r"^the outcome `succeeded` of `pay` \(decision `dec_\w+`\) is not reported: ")
            self.assertEqual(outcome_of(self.agent_id), ("pending", None, None))

        self.each(check)

    def test_reports_without_an_amount_that_is_none_or_is_refused(self) -> None:
        def check(call: Callable[..., Any]) -> None:
            def fail(_: Any) -> float:
                raise ValueError("no amount")

            amounts: list[Callable[[Any], Any]] = [
                lambda _: float("nan"),
                lambda _: -1,
                lambda _: 0.12345678,
                lambda _: 10**400,
                lambda _: "7",
                fail,
            ]
            for amount in amounts:
                self.told.texts.clear()
                self.assertEqual(call(lambda: "paid", amount=amount), "paid")
                self.assertEqual(outcome_of(self.agent_id), ("succeeded", None, None))
                self.assertEqual(len(self.told.texts), 1)

        self.each(check)

    def test_claims_and_reports_for_callers_that_decide_themselves(self) -> None:
        with acp.Client(URL, KEY) as client:
            claimed = client.intercept("pay", "", self.agent_id, claim_id=str(uuid.uuid4()))
            self.assertEqual((claimed.claimed, claimed.report_outcome), (True, True))
            client.report_outcome(claimed.decision_id, "succeeded", amount=2.5)
            self.assertEqual(outcome_of(self.agent_id), ("succeeded", 2.5, None))
            later = client.intercept("pay", "", self.agent_id)
            self.assertEqual((later.claimed, later.report_outcome), (None, False))
            claim_id = str(uuid.uuid4())
            self.assertFalse(client.claim(later.decision_id, claim_id, report=False).report_outcome)
            with self.assertRaises(acp.ControlPlaneRequestError) as caught:
                client.claim(later.decision_id, str(uuid.uuid4()))
            self.assertEqual(caught.exception.reason, "ALREADY_CLAIMED")
            with self.assertRaises(ValueError):
                client.report_outcome(later.decision_id, "unknown")  # type: ignore[arg-type]


#: A guarded function that appends to a file. It stays where it is told, after the decision or when it has run, until it is killed.
_PROGRAM = """
import json, sys, time
import agent_control_plane as acp

given = json.loads(sys.argv[1])

def at(place):
    if place == given["stays_at"]:
        print(place, flush=True)
        time.sleep(3600)

with acp.Client(given["url"], given["key"]) as client:
    options = {"on_decision": lambda *_: at("decided"), "request_id": given["request_id"]}

    @client.guard(agent_id=given["agent_id"], action_type="pay", **options)
    def pay():
        with open(given["file"], "a") as file:
            file.write("paid\\n")
        at("ran")
        return "paid"

    try:
        print(pay(), flush=True)
    except acp.AgentBlockedError as error:
        print(type(error).__name__, flush=True)
"""


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.agent_id = register_agent()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "runs"
        self.request_id = str(uuid.uuid4())

    def runs(self) -> int:
        return len(self.file.read_text().splitlines()) if self.file.exists() else 0

    def start(self, stays_at: str | None = None) -> subprocess.Popen[str]:
        given = {
            "url": URL,
            "key": KEY,
            "agent_id": self.agent_id,
            "request_id": self.request_id,
            "file": str(self.file),
            "stays_at": stays_at,
        }
        program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        assert program.stdout is not None
        self.addCleanup(program.stdout.close)
        return program

    def line_of(self, program: subprocess.Popen[str]) -> str:
        assert program.stdout is not None
        return program.stdout.readline().strip()

    def test_run_at_most_once_wherever_they_are_killed(self) -> None:
        for stays_at, runs in (("decided", 0), ("ran", 1)):
            self.setUp()
            first = self.start(stays_at)
            self.assertEqual(self.line_of(first), stays_at)
            first.kill()
            first.wait()
            self.assertEqual(self.runs(), runs)
            self.assertEqual(self.line_of(self.start()), "AlreadyClaimedError")
            self.assertEqual(self.runs(), runs)
            self.assertEqual(outcome_of(self.agent_id), ("pending", None, None))

    def test_run_once_where_several_start_with_one_request_id(self) -> None:
        lines = [self.line_of(each) for each in [self.start(), self.start(), self.start()]]
        self.assertEqual(sorted(lines), ["AlreadyClaimedError", "AlreadyClaimedError", "paid"])
        self.assertEqual(self.runs(), 1)

    @unittest.skipIf(os.name == "nt", "a process cannot send itself an interrupt there")
    def test_report_cancelled_when_they_are_interrupted(self) -> None:
        for stays_at, error in (("decided", "did not run"), ("ran", "KeyboardInterrupt")):
            self.setUp()
            program = self.start(stays_at)
            self.assertEqual(self.line_of(program), stays_at)
            program.send_signal(signal.SIGINT)
            program.wait()
            self.assertEqual(outcome_of(self.agent_id), ("cancelled", None, error))


if __name__ == "__main__":
    unittest.main()
