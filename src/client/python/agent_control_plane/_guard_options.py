"""Options of guarded functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, ParamSpec, Protocol, TypedDict, TypeVar

from ._options import check_positive
from ._wait_options import DEFAULT_ESCALATION_POLL_INTERVAL, DEFAULT_ESCALATION_TIMEOUT, WaitOptions
from .errors import ControlPlaneRequestError
from .results import Action, InterceptResult
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
#: A function that is passed to `guard`.
Function = Callable[P, R]
AsyncFunction = Callable[P, Awaitable[R]]


class CommonOptions(TypedDict, total=False):
    """Options of single calls and of all calls of a function."""

    #: The session in which the agent acts.
    session_id: Optional[str]
    #: The principal (an agent id) on whose behalf the agent acts.
    on_behalf_of: Optional[str]
    #: The grant to use.
    grant_id: Optional[str]
    #: The intent contract that covers the actions.
    intent_contract_id: Optional[str]
    #: An approved escalation of the same action.
    escalation_id: Optional[str]
    #: Idempotency key, a UUID: a repeated call with the same id and action gets the first decision. Default: a new id for each
    #: call.
    request_id: Optional[str]
    #: Cancels a call of the blocking client: the call raises the signal's error, and the function does not run.
    cancel: Optional[StopSignal]


class _AnyGuardOptions(CommonOptions, total=False):
    #: The tool that the actions call. Default: the registered tool named like the action type.
    tool: Optional[str]
    #: Returns the arguments that rules evaluate. MUST return JSON, and the same value for the same arguments: it is called again
    #: before the function runs, and the call is blocked if the value has changed. Default: the arguments by their names.
    to_arguments: Optional[Callable[..., Mapping[str, Any]]]
    #: Describes the action, in less than 1 MiB. MUST be the same for the same arguments. Default: the arguments as JSON.
    to_content: Optional[Callable[..., str]]
    #: Further input to the rules, besides the arguments.
    metadata: Optional[Mapping[str, Any]]
    #: Seconds to wait for a person. Default 300.
    escalation_timeout: float
    #: Seconds between polls of the status while no stream delivers. Default 2.
    escalation_poll_interval: float
    #: Behaviour if no connection to the control plane can be made: nothing listens, no way to its host, no such name. Default
    #: `block`. `allow` runs the function unchecked. It never does so once a request may have arrived, which may have been decided:
    #: not after a broken connection, no response in time, or an answer of something in between. Nor does it with a `request_id` or an
    #: `escalation_id` of the caller's, which an earlier call may have used, nor for a claim without a response.
    on_unreachable: Literal["block", "allow"]
    #: Called as `on_unchecked(fault, action)` before a function runs unchecked. If it raises, the function does not run.
    on_unchecked: Optional[Callable[[ControlPlaneRequestError, Action], Any]]
    #: Called as `on_decision(result, action)` before a decision takes effect. If it raises, the function does not run.
    on_decision: Optional[Callable[[InterceptResult, Action], Any]]
    #: False leaves reporting to the caller: calls still claim their actions, whose outcomes are then tracked only if they reserved in
    #: a budget, or if the workspace tracks all. Default True.
    report: bool
    #: Returns the amount that an action came to, by the result of the function: budgets capture it in place of what was reserved. At
    #: most six places. Default, and if it raises or returns None: what was reserved.
    amount: Optional[Callable[[Any], Optional[float]]]
    #: Tests for a result that tells of a failure, which is reported as `failed`. Default: only an error is one.
    is_failure: Optional[Callable[[Any], bool]]
    #: True tells the session of a call what the function returned, a text as it is and anything else as JSON, or the text of its error,
    #: before the call ends. If that fails, the call raises a `ResultWithheldError` in place of the result. A call without a session
    #: tells nothing, nor does one that ran unchecked. Default False.
    observe: bool
    #: Time limit of one intercept, claim or report in seconds, retries included. Default: the client's.
    timeout: Optional[float]
    #: Ends a call whose function is running when the agent is deactivated or revoked, or its session is killed. Default True. In
    #: asyncio the function is cancelled; a blocking function is not interrupted, but its result is discarded.
    abort_when_revoked: bool
    #: Name of the function's parameter for a `StopSignal`, which is set when the function should stop.
    stop_argument: Optional[str]


class _Required(TypedDict):
    #: The acting agent.
    agent_id: str
    #: Kind of action, such as `payment.send`.
    action_type: str


class _WaitingGuardOptions(_Required, _AnyGuardOptions, total=False):
    wait_on_escalate: Literal[True]
    #: True runs the function with the arguments that a person approved instead. Default: such a call is rejected.
    accept_edits: bool
    #: Returns the positional and the keyword arguments with which the function runs instead: the reverse of `to_arguments`,
    #: called with the edited arguments and the arguments of the call. Default: by their names.
    from_arguments: Optional[Callable[..., Arguments]]


class GuardOptions(_WaitingGuardOptions, total=False):
    """Options of a function whose escalated calls wait for a person, and whose refused calls raise."""

    when_refused: Literal["raise"]


class _Answers(TypedDict):
    #: `result` returns `for_model` of the error instead of raising an `AgentBlockedError`. Default `raise`. An `AgentStoppedError`
    #: is always raised.
    when_refused: Literal["result"]


class AnsweringGuardOptions(_WaitingGuardOptions, _Answers):
    """Options of a function whose refused calls return the text for the language model that made them."""


class UnwaitingGuardOptions(_Required, _AnyGuardOptions, total=False):
    """Options of a function whose calls return a `PendingApproval` at once when they escalate."""

    wait_on_escalate: Literal[False]
    when_refused: Literal["raise"]


class Guarded(Protocol[P, R_co]):
    """A guarded function: takes the arguments of the original."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Runs the function if exactly this call is allowed."""

    def with_options(self, **options: Unpack[CommonOptions]) -> Guarded[P, R_co]:
        """Returns the same guarded function with other options for its calls."""

    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R_co]:
        """Binds a method to its object."""


#: A guarded coroutine function.
AsyncGuarded = Guarded[P, Awaitable[R]]


@dataclass(frozen=True)
class GuardSettings:
    """All options of a guarded function, with defaults."""

    agent_id: str
    action_type: str
    tool: Optional[str] = None
    session_id: Optional[str] = None
    on_behalf_of: Optional[str] = None
    grant_id: Optional[str] = None
    intent_contract_id: Optional[str] = None
    escalation_id: Optional[str] = None
    request_id: Optional[str] = None
    cancel: Optional[StopSignal] = None
    to_arguments: Optional[Callable[..., Mapping[str, Any]]] = None
    to_content: Optional[Callable[..., str]] = None
    metadata: Optional[Mapping[str, Any]] = None
    wait_on_escalate: bool = True
    accept_edits: bool = False
    from_arguments: Optional[Callable[..., Arguments]] = None
    escalation_timeout: float = DEFAULT_ESCALATION_TIMEOUT
    escalation_poll_interval: float = DEFAULT_ESCALATION_POLL_INTERVAL
    on_unreachable: str = "block"
    on_unchecked: Optional[Callable[[ControlPlaneRequestError, Action], Any]] = None
    on_decision: Optional[Callable[[InterceptResult, Action], Any]] = None
    report: bool = True
    observe: bool = False
    amount: Optional[Callable[[Any], Optional[float]]] = None
    is_failure: Optional[Callable[[Any], bool]] = None
    timeout: Optional[float] = None
    when_refused: str = "raise"
    abort_when_revoked: bool = True
    stop_argument: Optional[str] = None

    def __post_init__(self) -> None:
        if self.on_unreachable not in ("block", "allow"):
            raise ValueError(f"`on_unreachable` must be `block` or `allow`, not `{self.on_unreachable}`")
        if not isinstance(self.wait_on_escalate, bool):
            raise TypeError(f"`wait_on_escalate` must be True or False, not `{self.wait_on_escalate}`")
        if not isinstance(self.report, bool):
            raise TypeError(f"`report` must be True or False, not `{self.report}`")
        if not isinstance(self.observe, bool):
            raise TypeError(f"`observe` must be True or False, not `{self.observe}`")
        if self.when_refused not in ("raise", "result"):
            raise ValueError(f"`when_refused` must be `raise` or `result`, not `{self.when_refused}`")
        if self.accept_edits and not self.wait_on_escalate:
            raise ValueError("`accept_edits` needs `wait_on_escalate`: edited arguments come with the approval")
        if self.when_refused == "result" and not self.wait_on_escalate:
            raise ValueError("`when_refused` needs `wait_on_escalate`: a `PendingApproval` is no text for a model")
        WaitOptions(self.escalation_timeout, self.escalation_poll_interval).check("escalation_")
        if self.timeout is not None:
            check_positive("timeout", self.timeout)

    def with_options(self, options: CommonOptions) -> GuardSettings:
        """Returns the settings with the options of a single call merged in. None changes nothing."""
        allowed = CommonOptions.__annotations__
        unknown = [name for name in options if name not in allowed]
        if unknown:
            raise TypeError(f"`{unknown[0]}` is not an option of single calls; these are {', '.join(sorted(allowed))}")
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return dataclasses.replace(self, **given)
