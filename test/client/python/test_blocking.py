"""The blocking client against a service."""

from __future__ import annotations

import decimal
import functools
import inspect
import math
import os
import signal
import socketserver
import sys
import tempfile
import threading
import types
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import grpc

import agent_control_plane as acp
from agent_control_plane.proto import escalation_service_pb2 as escalations
from harness import (
    ADMIN,
    ESCALATIONS,
    KEY,
    NOWHERE,
    URL,
    Answering,
    StreamProxy,
    arguments_of,
    beside,
    certificate,
    decisions_of,
    escalation,
    killed_session,
    pending_of,
    register_agent,
    resolve,
    revoke,
    until,
)


class Intercept(unittest.TestCase):
    def setUp(self) -> None:
        self.agent_id = register_agent()

    def test_gives_every_attribute_of_the_result(self) -> None:
        allowed = ADMIN.intercept("read", "a file", self.agent_id)
        self.assertEqual((allowed.decision, allowed.trust_score), ("allow", 50.0))
        self.assertEqual((allowed.escalation_id, allowed.policy_name, allowed.replayed), (None, None, False))
        self.assertRegex(allowed.decision_id, "^dec_")
        self.assertIsInstance(allowed.latency_ms, int)
        self.assertEqual(allowed.decision_path, "default")
        escalated = ADMIN.intercept("review.pay", "", self.agent_id)
        self.assertEqual((escalated.decision, escalated.policy_name), ("escalate", "house rules"))
        self.assertRegex(escalated.escalation_id or "", "^esc_")
        blocked = ADMIN.intercept("danger.x", "", self.agent_id)
        self.assertEqual((blocked.decision, blocked.reasons[0].code), ("block", "ACTION_MATCHED"))
        self.assertEqual((blocked.reasons[0].rule, blocked.reasons[0].argument), ("rules[0]", None))
        self.assertIsNone(blocked.reasons[0].value_kind)

    def test_gives_the_first_decision_again_for_the_same_request_id(self) -> None:
        request_id = "8f14e45f-ceea-4e7a-9c6f-0242ac120002"
        first = ADMIN.intercept("read", "", self.agent_id, request_id=request_id)
        again = ADMIN.intercept("read", "", self.agent_id, request_id=request_id)
        self.assertEqual((again.decision_id, again.replayed), (first.decision_id, True))
        with self.assertRaises(acp.ControlPlaneRequestError) as raised:
            ADMIN.intercept("write", "", self.agent_id, request_id=request_id)
        self.assertEqual((raised.exception.code, raised.exception.reason), ("ALREADY_EXISTS", "REQUEST_ID_REUSED"))

    def test_says_what_is_wrong_with_a_request(self) -> None:
        with self.assertRaises(acp.ControlPlaneRequestError) as raised:
            ADMIN.intercept("", "", self.agent_id)
        self.assertEqual((raised.exception.code, raised.exception.reason), ("INVALID_ARGUMENT", "INVALID_FIELD"))
        self.assertEqual(raised.exception.violations[0].field, "action_type")
        with self.assertRaises(acp.ControlPlaneRequestError) as raised:
            ADMIN.intercept("read", "", "agt_unknown")
        self.assertEqual((raised.exception.code, raised.exception.reason), ("NOT_FOUND", "AGENT_NOT_FOUND"))
        self.assertIn("agt_unknown", raised.exception.metadata.values())

    def test_names_the_fault_when_nothing_listens(self) -> None:
        with self.assertRaisesRegex(acp.ControlPlaneRequestError, "^the control plane did not answer: ") as raised:
            acp.Client(NOWHERE, KEY).intercept("read", "", self.agent_id, timeout=0.2)
        self.assertEqual((raised.exception.code, raised.exception.reason), ("UNAVAILABLE", None))


class Guard(unittest.TestCase):
    def setUp(self) -> None:
        self.agent_id = register_agent()
        self.runs: list[Any] = []

    def guarded(self, action_type: str, client: acp.Client = ADMIN, **options: Any) -> Any:
        @client.guard(agent_id=self.agent_id, action_type=action_type, **options)
        def pay(amount: int, currency: str = "EUR") -> str:
            self.runs.append((amount, currency))
            return f"paid {amount} {currency}"

        return pay

    def test_shows_the_rules_the_arguments_by_their_names(self) -> None:
        seen: list[str] = []

        class Account:
            @ADMIN.guard(
                agent_id=self.agent_id, action_type="pay", on_decision=lambda result, _: seen.append(result.decision_id)
            )
            def pay(self, amount: int, *, currency: str = "EUR", **more: object) -> str:
                return f"{type(self).__name__} paid {amount} {currency} {more}"

        self.assertEqual(Account().pay(3, note="rent"), "Account paid 3 EUR {'note': 'rent'}")
        self.assertEqual(arguments_of(seen[0]), {"amount": 3, "currency": "EUR", "note": "rent"})
        self.assertEqual(Account.pay.__name__, "pay")

    def test_does_not_run_on_a_block_and_says_why_to_people_and_models(self) -> None:
        with self.assertRaisesRegex(acp.AgentBlockedError, "danger.pay.*too dangerous") as raised:
            self.guarded("danger.pay")(1)
        error = raised.exception
        self.assertEqual((error.decision, error.escalation_id, error.reasons[0].code), ("block", None, "ACTION_MATCHED"))
        self.assertIn("not permitted", error.for_model)
        self.assertIn("too dangerous", error.for_model)
        self.assertNotIn("dec_", error.for_model)
        self.assertEqual(self.runs, [])

    def test_hands_the_note_of_a_rejection_to_the_model(self) -> None:
        call = beside(lambda: self.guarded("review.pay")(100))
        resolve(pending_of(self.agent_id), "rejected", "ask for an invoice first")
        error = call.exception()
        assert isinstance(error, acp.AgentBlockedError)
        self.assertEqual(error.note, "ask for an invoice first")
        self.assertIn('a person rejected it. They said: "ask for an invoice first".', error.for_model)

    def test_runs_with_the_arguments_that_a_person_approved(self) -> None:
        call = beside(lambda: self.guarded("review.pay", accept_edits=True)(100))
        request = escalations.EditEscalationRequest(escalation_id=pending_of(self.agent_id))
        request.arguments.update({"amount": 40, "currency": "USD"})
        ESCALATIONS.EditEscalation(request)
        self.assertEqual(call.result(), "paid 40 USD")
        self.assertEqual(self.runs, [(40, "USD")])
        self.assertIsInstance(self.runs[0][0], int)

    def test_does_not_run_with_arguments_that_do_not_fit_or_are_not_those_approved(self) -> None:
        for options, says in (
            ({}, "has no argument `speed`"),
            ({"from_arguments": lambda edited, *args: (args, {})}, "`from_arguments` returned other arguments"),
        ):
            self.agent_id = register_agent()
            call = beside(lambda: self.guarded("review.pay", accept_edits=True, **options)(100))
            request = escalations.EditEscalationRequest(escalation_id=pending_of(self.agent_id))
            request.arguments.update({"amount": 40, "currency": "USD", "speed": 1})
            ESCALATIONS.EditEscalation(request)
            self.assertIn(says, str(call.exception()))
            self.assertIsInstance(call.exception(), acp.AgentBlockedError)
        self.assertEqual(self.runs, [])

    def test_returns_the_escalation_at_once_when_it_must_not_wait(self) -> None:
        pay = self.guarded("review.pay", wait_on_escalate=False)
        pending = pay(100)
        self.assertIsInstance(pending, acp.PendingApproval)
        self.assertEqual((pending.decision, pending.decision_path), ("escalate", "policy"))
        self.assertEqual(pending.action.metadata["arguments"], {"amount": 100, "currency": "EUR"})
        resolve(pending.escalation_id, "approved")
        approved = pay.with_options(escalation_id=pending.escalation_id)
        self.assertEqual(approved(100), "paid 100 EUR")
        self.assertIsInstance(approved(100), acp.PendingApproval)

    def test_admits_one_of_two_calls_by_an_approval_and_the_other_by_the_next(self) -> None:
        calls = [beside(lambda: self.guarded("review.pay")(100)) for _ in range(2)]
        first = pending_of(self.agent_id)
        until(lambda: escalation(first).asked == 2)
        resolve(first, "approved")
        until(lambda: escalation(first).HasField("replaced_by") and self.runs)
        self.assertEqual(len(self.runs), 1)
        resolve(escalation(first).replaced_by, "approved")
        self.assertEqual([call.result() for call in calls], ["paid 100 EUR"] * 2)

    def test_refuses_arguments_that_json_does_not_hold_exactly_before_anything_is_sent(self) -> None:
        pay = self.guarded("pay")
        for value, says in (
            (decimal.Decimal("1.1"), "`arguments.amount` has the type Decimal"),
            (2**53 + 1, "beyond 2^53"),
            (math.nan, "not a JSON number"),
            ({1: "one"}, "the key 1"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), says.replace("^", r"\^")):
                pay(value)
        self.assertEqual((self.runs, decisions_of(self.agent_id)), ([], []))

    def test_never_runs_unchecked_after_a_fault_of_the_own_code_or_a_refused_call(self) -> None:
        def audit(*_: object) -> None:
            raise acp.ControlPlaneRequestError("UNAVAILABLE", "the audit is away")

        with self.assertRaisesRegex(acp.ControlPlaneRequestError, "the audit is away"):
            self.guarded("danger.pay", on_decision=audit, on_unreachable="allow")(1)
        with self.assertRaisesRegex(acp.ControlPlaneRequestError, "the audit is away"):
            away = acp.Client(NOWHERE, KEY, timeout=0.2)
            self.guarded("pay", away, on_unchecked=audit, on_unreachable="allow", abort_when_revoked=False)(1)
        self.agent_id = "agt_unknown"
        with self.assertRaisesRegex(acp.ControlPlaneRequestError, "agt_unknown"):
            self.guarded("pay", on_unreachable="allow")(1)
        self.assertEqual(self.runs, [])

    def test_never_runs_unchecked_where_something_else_listens(self) -> None:
        class Mail(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.sendall(b"220 mail.example.com ESMTP\r\n")

        for server in (socketserver.TCPServer(("127.0.0.1", 0), Mail), HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)):
            with server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                other = acp.Client(f"127.0.0.1:{server.server_address[1]}", KEY, timeout=2)
                with self.assertRaisesRegex(acp.ControlPlaneRequestError, "there is no control plane at the address"):
                    self.guarded("pay", other, on_unreachable="allow", abort_when_revoked=False)(1)
                server.shutdown()
        self.assertEqual(self.runs, [])

    def unchecked_at(self, url: str, faults: list[acp.ControlPlaneRequestError]) -> str:
        """Calls a function that may run unchecked; the faults for which it did are added to the list."""
        with acp.Client(url, KEY, timeout=1) as client:
            pay = self.guarded(
                "pay",
                client,
                on_unreachable="allow",
                on_unchecked=lambda fault, _: faults.append(fault),
                abort_when_revoked=False,
            )
            return pay(1)

    def test_never_runs_unchecked_behind_a_proxy_whatever_it_answers(self) -> None:
        # A proxy that says unavailable may have passed the request on before.
        for status in (502, 503, 504, 301, 400, 401, 403, 404, 429, 500, 501, 505):
            faults: list[acp.ControlPlaneRequestError] = []
            kind = acp.AgentBlockedError if status in (502, 503, 504) else acp.ControlPlaneRequestError
            with Answering(status) as proxy, self.assertRaises(kind, msg=str(status)):
                self.unchecked_at(proxy.url, faults)
            self.assertEqual(faults, [])
        self.assertEqual(self.runs, [])

    def test_runs_unchecked_where_nothing_listens_and_where_no_host_is(self) -> None:
        for url in (NOWHERE, "control-plane.invalid:7090"):
            faults: list[acp.ControlPlaneRequestError] = []
            self.assertEqual(self.unchecked_at(url, faults), "paid 1 EUR")
            self.assertEqual([(fault.code, fault.reached) for fault in faults], [("UNAVAILABLE", False)])

    def test_withdraws_its_ask_when_the_program_is_interrupted(self) -> None:
        # `_thread.interrupt_main` does not wake a thread that waits for a lock; the signal of a keyboard does.
        main = threading.main_thread().ident
        assert main is not None
        interrupting = beside(lambda: (pending_of(self.agent_id), signal.pthread_kill(main, signal.SIGINT)))
        with self.assertRaises(KeyboardInterrupt):
            self.guarded("review.pay")(100)
        found = escalation(interrupting.result()[0])
        self.assertEqual((found.status, found.resolved_by), (escalations.ESCALATION_STATUS_REJECTED, "withdrawal"))

    def test_runs_nothing_of_grpc_in_the_main_thread(self) -> None:
        # An interrupt there can leave a lock of grpc held, on which every later call waits.
        entered: set[str] = set()

        def note(frame: types.FrameType, *_: object) -> None:
            if f"{os.sep}grpc{os.sep}" not in frame.f_code.co_filename:
                return
            at: types.FrameType | None = frame
            while at is not None:
                # Garbage is collected in any thread; nobody calls on it any more.
                if at.f_code.co_name == "__del__":
                    return
                at = at.f_back
            entered.add(f"{frame.f_code.co_filename}: {frame.f_code.co_name}")

        approving = beside(lambda: resolve(pending_of(self.agent_id), "approved"))
        sys.setprofile(note)
        try:
            with acp.Client(URL, KEY) as client:
                client.intercept("read", "", self.agent_id)
                self.guarded("pay", client)(1)
                self.guarded("review.pay", client)(2)
                with self.assertRaises(acp.ControlPlaneRequestError):
                    client.intercept("", "", self.agent_id)
                stop = acp.StopSignal()
                threading.Timer(0.2, stop.set).start()
                with self.assertRaises(acp.CallCancelledError):
                    self.guarded("review.pay", client, cancel=stop)(3)
        finally:
            sys.setprofile(None)
        approving.result()
        self.assertEqual(entered, set())
        self.assertEqual([amount for amount, _ in self.runs], [1, 2])

    def test_hands_the_function_a_signal_and_discards_its_result_when_the_agent_must_stop(self) -> None:
        running = threading.Event()

        @ADMIN.guard(agent_id=self.agent_id, action_type="work", stop_argument="stop")
        def work(text: str, stop: acp.StopSignal | None = None) -> str:
            running.set()
            assert stop is not None
            stop.wait()
            return text

        call = beside(lambda: work("a"))
        until(lambda: running.is_set() or call.done())
        revoke(self.agent_id)
        error = call.exception(timeout=60)
        assert isinstance(error, acp.AgentStoppedError)
        self.assertEqual((error.change, error.agent_id, error.decision), ("revoked", self.agent_id, "block"))
        self.assertEqual(error.for_model, "Stop now: you were revoked. Take no further action.")

    def test_passes_on_what_the_function_raises(self) -> None:
        @ADMIN.guard(agent_id=self.agent_id, action_type="work")
        def failing() -> None:
            raise LookupError("own fault")

        with self.assertRaisesRegex(LookupError, "own fault"):
            failing()

    def test_refuses_options_that_cannot_be_right(self) -> None:
        for options in (
            {"on_unreachable": "ignore"},
            {"wait_on_escalate": None},
            {"accept_edits": True, "wait_on_escalate": False},
            {"when_refused": "return"},
            {"when_refused": "result", "wait_on_escalate": False},
            {"escalation_timeout": -1},
            {"escalation_poll_interval": 0},
            {"timeout": 0},
            {"stop_argument": "signal"},
            {"on_unreached": "allow"},
        ):
            with self.assertRaises((TypeError, ValueError), msg=str(options)) as raised:
                self.guarded("pay", **options)
            self.assertIn(next(iter(options)), str(raised.exception))
        with self.assertRaisesRegex(TypeError, "AsyncClient"):

            @ADMIN.guard(agent_id=self.agent_id, action_type="pay")
            async def pay() -> None:
                pass

        with self.assertRaisesRegex(TypeError, "generator"):

            @ADMIN.guard(agent_id=self.agent_id, action_type="pay")
            def parts() -> Any:
                yield 1

        with self.assertRaisesRegex(TypeError, "not an option of single calls"):
            self.guarded("pay").with_options(on_unreachable="allow")

    def test_shares_one_watch_of_its_agent_with_the_calls_before_and_after(self) -> None:
        with StreamProxy("passes") as proxy, acp.Client(proxy.url, KEY) as client:
            pay = self.guarded("pay", client)
            for amount in range(3):
                pay(amount)
            self.assertEqual(proxy.count("WatchAgent"), 1)

    def test_is_neither_let_through_nor_blocked_by_a_way_that_breaks_streams(self) -> None:
        for habit in ("cuts", "holds back"):
            with StreamProxy(habit) as proxy, acp.Client(proxy.url, KEY) as client:
                self.assertEqual(self.guarded("pay", client)(1), "paid 1 EUR")
                with self.assertRaises(acp.AgentBlockedError):
                    self.guarded("danger.pay", client)(1)


class Arguments(unittest.TestCase):
    """What rules see is what the function is called with."""

    def setUp(self) -> None:
        self.agent_id = register_agent()
        self.runs: list[Any] = []
        self.seen: list[Any] = []

    def guard(self, **options: Any) -> Any:
        def note(_: acp.InterceptResult, action: acp.Action) -> None:
            self.seen.append((action.metadata or {})["arguments"])

        return ADMIN.guard(agent_id=self.agent_id, action_type="pay", on_decision=note, abort_when_revoked=False, **options)

    def test_a_name_given_twice_is_refused_before_anything_is_asked(self) -> None:
        @self.guard()
        def pay(amount: int, /, **more: int) -> None:
            self.runs.append((amount, more))

        @self.guard()
        def spread(*amounts: int, **more: int) -> None:
            self.runs.append((amounts, more))

        @self.guard(stop_argument="stop")
        def work(text: str, *, stop: acp.StopSignal, **more: int) -> None:
            self.runs.append((text, stop, more))

        for call in (
            lambda: pay(9000, amount=1),
            lambda: spread(9000, amounts=1),
            lambda: work("a", stop=1),
        ):
            with self.assertRaisesRegex(TypeError, "got multiple values for argument '(amount|amounts|stop)'"):
                call()
        self.assertEqual((self.runs, decisions_of(self.agent_id)), ([], []))
        pay(9000, amounts=1)
        self.assertEqual((self.seen, self.runs), ([{"amount": 9000, "amounts": 1}], [(9000, {"amounts": 1})]))

    def test_arguments_that_do_not_fit_are_refused_before_anything_is_asked(self) -> None:
        for options in ({}, {"to_arguments": lambda *args, **kwargs: {"all": [*args, *kwargs.values()]}}):

            @self.guard(**options)
            def pay(amount: int, to: str = "Ann") -> None:
                self.runs.append((amount, to))

            for args, kwargs in (((), {}), ((1, "Ann", 3), {}), ((1,), {"amount": 2}), ((1,), {"too": "Ann"})):
                with self.assertRaises(TypeError):
                    pay(*args, **kwargs)
        self.assertEqual((self.runs, decisions_of(self.agent_id)), ([], []))

    def test_defaults_are_those_that_rules_saw_also_behind_a_wrapper_with_others(self) -> None:
        def generous(function: Any) -> Any:
            @functools.wraps(function)
            def wrapper(fee: int = 9000, /, amount: int = 9000, *, to: str = "evil") -> Any:
                return function(fee, amount, to=to)

            return wrapper

        @self.guard()
        @generous
        def pay(fee: int = 0, /, amount: int = 1, *, to: str = "Ann") -> None:
            self.runs.append((fee, amount, to))

        pay()
        pay(2, to="Bob")
        self.assertEqual([tuple(each.values()) for each in self.seen], self.runs)
        self.assertEqual(self.runs, [(0, 1, "Ann"), (2, 1, "Bob")])

    def test_a_signal_before_other_arguments_moves_none_of_them(self) -> None:
        @self.guard(stop_argument="stop")
        def work(text: str, stop: acp.StopSignal | None = None, times: int = 1) -> None:
            self.runs.append((text, type(stop), times))

        work("a", 5)
        self.assertEqual((self.seen, self.runs), ([{"text": "a", "times": 5}], [("a", acp.StopSignal, 5)]))
        self.assertEqual(str(inspect.signature(work)), "(text: 'str', times: 'int' = 1) -> 'None'")
        self.assertEqual(set(work.__annotations__), {"text", "times", "return"})
        with self.assertRaisesRegex(TypeError, "`stop_argument` names `stop`, which cannot be passed by its name"):

            @self.guard(stop_argument="stop")
            def amid(stop: acp.StopSignal, *texts: str) -> None: ...

    def test_the_object_of_a_method_is_no_argument(self) -> None:
        guard, runs = self.guard, self.runs

        def logged(function: Any) -> Any:
            return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))

        class Account:
            @guard()
            def pay(this, amount: int) -> None:
                runs.append((type(this).__name__, amount))

            @classmethod
            @guard()
            def open(cls, amount: int) -> None:
                runs.append((cls.__name__, amount))

            @staticmethod
            @guard()
            def between(self: int, amount: int) -> None:
                runs.append((self, amount))

            @logged
            @guard()
            def audited(self, amount: int) -> None:
                runs.append((type(self).__name__, amount))

            @property
            @guard()
            def balance(self) -> None:
                runs.append((type(self).__name__, None))

            def plain(self, amount: int) -> None:
                runs.append((type(self).__name__, amount))

        class Savings(Account): ...

        account = Savings()
        for call in (account.pay, account.audited, account.open, Savings.open, guard()(account.plain)):
            call(3)
            self.assertEqual((self.seen.pop(), runs.pop()), ({"amount": 3}, ("Savings", 3)))
        Account.pay.with_options(request_id=str(uuid.uuid4()))(account, 4)
        self.assertEqual((self.seen.pop(), runs.pop()), ({"amount": 4}, ("Savings", 4)))
        account.balance
        self.assertEqual((self.seen.pop(), runs.pop()), ({}, ("Savings", None)))
        account.between(1, 2)
        self.assertEqual((self.seen.pop(), runs.pop()), ({"self": 1, "amount": 2}, (1, 2)))

    def test_a_parameter_that_is_called_self_is_an_argument_like_any_other(self) -> None:
        @self.guard()
        def pay(self: int, amount: int) -> int:
            return self + amount

        self.assertEqual(pay(9000, 1), 9001)
        self.assertEqual(self.seen, [{"self": 9000, "amount": 1}])

    def test_methods_that_are_guarded_above_their_kind_are_refused(self) -> None:
        for kind in (classmethod, staticmethod):
            with self.assertRaisesRegex(TypeError, f"`@{kind.__name__}` belongs above `guard`"):
                self.guard()(kind(lambda amount: None))


class Refused(unittest.TestCase):
    def setUp(self) -> None:
        self.agent_id = register_agent()

    def guarded(self, action_type: str, client: acp.Client = ADMIN, **options: Any) -> Any:
        @client.guard(agent_id=self.agent_id, action_type=action_type, when_refused="result", **options)
        def pay(amount: int) -> str:
            return f"paid {amount}"

        return pay

    def test_calls_return_the_text_for_the_model(self) -> None:
        self.assertEqual(self.guarded("pay")(1), "paid 1")
        self.assertRegex(self.guarded("danger.pay")(1), '^The action "danger.pay" was not carried out.*too dangerous')
        self.assertIn("nobody answered in time", self.guarded("review.pay", escalation_timeout=0.2)(1))
        away = acp.Client(NOWHERE, KEY, timeout=0.2)
        self.assertIn("the check is not available", self.guarded("pay", away)(1))

    def test_calls_still_raise_what_no_model_can_act_on(self) -> None:
        self.agent_id = "agt_unknown"
        with self.assertRaises(acp.ControlPlaneRequestError):
            self.guarded("pay")(1)
        self.agent_id = register_agent()
        running = threading.Event()

        @ADMIN.guard(agent_id=self.agent_id, action_type="work", when_refused="result", stop_argument="stop")
        def work(stop: acp.StopSignal) -> None:
            running.set()
            stop.wait()

        call = beside(work)
        until(running.is_set)
        revoke(self.agent_id)
        self.assertIsInstance(call.exception(timeout=60), acp.AgentStoppedError)

        @ADMIN.guard(agent_id=register_agent(), action_type="work", when_refused="result")
        def outer() -> None:
            raise acp.AgentBlockedError("of another guard", "block")

        with self.assertRaisesRegex(acp.AgentBlockedError, "of another guard"):
            outer()


class Wait(unittest.TestCase):
    def setUp(self) -> None:
        self.agent_id = register_agent()

    def escalate(self) -> str:
        return ADMIN.intercept("review.pay", "", self.agent_id).escalation_id or ""

    def test_returns_the_verdict_over_the_stream_alone(self) -> None:
        for verdict in ("approved", "rejected"):
            with StreamProxy("passes") as proxy, acp.Client(proxy.url, KEY) as client:
                escalation_id = self.escalate()
                waiting = beside(lambda: client.wait(escalation_id, poll_interval=0.3))
                until(lambda: proxy.count("WaitEscalation"))
                resolve(escalation_id, verdict)
                self.assertEqual(waiting.result(), verdict)
                self.assertEqual(client.wait(escalation_id), verdict)

    def test_polls_where_streams_do_not_deliver(self) -> None:
        for habit in ("cuts", "holds back"):
            with StreamProxy(habit) as proxy, acp.Client(proxy.url, KEY) as client:
                escalation_id = self.escalate()
                waiting = beside(lambda: client.wait(escalation_id, poll_interval=0.05))
                until(lambda: proxy.count("GetEscalationStatus") >= 3)
                resolve(escalation_id, "approved")
                self.assertEqual(waiting.result(), "approved")
                if habit == "cuts":
                    ended = self.escalate()
                    resolve(ended, "rejected")
                    self.assertEqual(client.wait(ended, timeout=2, poll_interval=60), "rejected")

    def test_raises_when_nobody_resolves_in_time(self) -> None:
        escalation_id = self.escalate()
        with self.assertRaises(acp.EscalationTimeoutError) as raised:
            ADMIN.wait(escalation_id, timeout=0.2)
        self.assertEqual((raised.exception.escalation_id, raised.exception.timeout), (escalation_id, 0.2))
        self.assertIsInstance(raised.exception, acp.AgentBlockedError)
        with self.assertRaises(acp.EscalationTimeoutError) as raised:
            acp.Client(NOWHERE, KEY).wait("esc_any", timeout=0.3, poll_interval=0.1)
        self.assertEqual(raised.exception.__cause__.code, "UNAVAILABLE")  # type: ignore[union-attr]

    def test_ends_at_once_for_an_escalation_that_does_not_exist_and_for_a_caller_who_gives_up(self) -> None:
        with self.assertRaises(acp.ControlPlaneRequestError) as raised:
            ADMIN.wait("esc_unknown")
        self.assertEqual(raised.exception.reason, "ESCALATION_NOT_FOUND")
        cancel = acp.StopSignal()
        waiting = beside(lambda: ADMIN.wait(self.escalate(), cancel=cancel))
        pending_of(self.agent_id)
        cancel.set(RuntimeError("changed my mind"))
        self.assertEqual(str(waiting.exception()), "changed my mind")

    def test_refuses_times_that_cannot_be_waited(self) -> None:
        for options in ({"timeout": -1}, {"timeout": math.nan}, {"poll_interval": 0}):
            with self.assertRaisesRegex(ValueError, next(iter(options))):
                ADMIN.wait("esc_any", **options)  # type: ignore[call-overload]


class Watch(unittest.TestCase):
    def test_tells_once_when_the_agent_is_revoked(self) -> None:
        agent_id = register_agent()
        with ADMIN.watch(agent_id) as watch:
            self.assertTrue(watch.wait_ready(30))
            self.assertFalse(watch.signal.is_set())
            revoke(agent_id)
            self.assertTrue(watch.signal.wait(30))
            self.assertEqual((watch.error.change, watch.error.agent_id), ("revoked", agent_id))  # type: ignore[union-attr]
            self.assertRegex(watch.error.revocation_id, "^rev_")  # type: ignore[union-attr]
        with ADMIN.watch(agent_id) as late:
            self.assertTrue(late.signal.wait(30))

    def test_keeps_one_stream_and_lets_go_of_it_after_the_last_watch(self) -> None:
        agent_id = register_agent()
        with StreamProxy("passes") as proxy, acp.Client(proxy.url, KEY) as client:
            watches = [client.watch(agent_id) for _ in range(3)]
            for watch in watches:
                self.assertTrue(watch.wait_ready(30))
                watch.close()
                watch.close()
            self.assertEqual(proxy.count("WatchAgent"), 1)
            until(lambda: not client._watches._streams)
            with client.watch(agent_id) as again:
                self.assertTrue(again.wait_ready(30))
            self.assertEqual(proxy.count("WatchAgent"), 2)

    def test_hears_what_it_missed_when_the_stream_is_whole_again(self) -> None:
        agent_id = register_agent()
        with StreamProxy("passes") as proxy, acp.Client(proxy.url, KEY) as client, client.watch(agent_id) as watch:
            self.assertTrue(watch.wait_ready(30))
            proxy.habit = "holds back"
            proxy.cut()
            until(lambda: proxy.count("WatchAgent") == 2)
            revoke(agent_id)
            self.assertFalse(watch.signal.is_set())
            proxy.habit = "passes"
            proxy.cut()
            self.assertTrue(watch.signal.wait(30))


    def test_tells_of_sessions_that_were_killed_before_the_stream_was_open(self) -> None:
        agent_id = register_agent()
        early, late = killed_session(agent_id), killed_session(agent_id)
        with ADMIN.watch(agent_id) as watch:
            told: list[str] = []
            watch.on_session_killed(early, lambda: told.append(early))
            until(lambda: told == [early])
            self.assertTrue(watch.wait_ready(30))
            watch.on_session_killed(late, lambda: told.append(late))
            until(lambda: told == [early, late])
            self.assertFalse(watch.signal.is_set())


class Options(unittest.TestCase):
    def test_take_no_address_that_cannot_be_right(self) -> None:
        for url in (None, "", "not an address", "localhost:0", "localhost:99999", "ftp://x:1", "https://"):
            with self.assertRaisesRegex((TypeError, ValueError), "^`url` must be an address such as .*, not "):
                acp.Client(url, KEY)  # type: ignore[arg-type]
        for url in ("control.example.com", "localhost", "[::1]"):
            with self.assertRaisesRegex(ValueError, "^`url` must be .* has neither a port nor a scheme$"):
                acp.Client(url, KEY)
        with self.assertRaises(ValueError) as raised:
            acp.Client("https://me:secret@control.example.com", KEY)
        self.assertNotIn("secret", str(raised.exception))
        for url in ("localhost:7090", "[::1]:7090", "http://localhost", "https://control.example.com/", "grpcs://a.b:443"):
            acp.Client(url, KEY).close()

    def test_connect_with_tls_and_the_given_authority(self) -> None:
        agent_id = register_agent()
        with tempfile.TemporaryDirectory() as folder:
            key, cert = certificate(folder)
        with StreamProxy("passes", grpc.ssl_server_credentials([(key, cert)])) as proxy:
            credentials = grpc.ssl_channel_credentials(cert)
            with acp.Client(proxy.url, KEY, credentials=credentials) as client:
                self.assertEqual(client.intercept("read", "", agent_id).decision, "allow")
            for url, given in ((proxy.url, None), (proxy.url.replace("localhost", "127.0.0.1"), credentials)):
                with acp.Client(url, KEY, credentials=given) as client:
                    with self.assertRaises(acp.ControlPlaneRequestError) as raised:
                        client.intercept("read", "", agent_id)
                    self.assertEqual(raised.exception.code, "FAILED_PRECONDITION", str(raised.exception))
        with self.assertRaisesRegex(ValueError, "^`credentials`"):
            acp.Client(URL, KEY, credentials=credentials)

    def test_take_no_key_that_no_header_carries_and_do_not_show_it(self) -> None:
        for key in (None, "", "acp key", "acp_kéy", "acp\n"):
            with self.assertRaisesRegex(ValueError, "^`api_key`") as raised:
                acp.Client(URL, key)  # type: ignore[arg-type]
            if key:
                self.assertNotIn(key, str(raised.exception))
        for timeout in (0, -1, math.nan, True):
            with self.assertRaisesRegex(ValueError, "^`timeout`"):
                acp.Client(URL, KEY, timeout=timeout)


if __name__ == "__main__":
    unittest.main()
