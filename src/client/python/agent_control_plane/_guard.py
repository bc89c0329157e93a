"""The promise that matters: a guarded function MUST NOT run unless exactly this call of it is allowed."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, ParamSpec, Protocol, TypedDict, TypeVar, Union

from ._escalation import (
    DEFAULT_ESCALATION_POLL_INTERVAL,
    DEFAULT_ESCALATION_TIMEOUT,
    WaitOptions,
    wait_for_escalation,
    withdraw_escalation,
)
from ._faults import is_unreachable
from ._intercept import call_intercept
from ._json import copy_json, is_same_json, json_text
from ._model_text import blocked_text, refused_text, rejected_text, unanswered_text, unchecked_text
from ._options import check_positive
from ._request_id import create_request_id, presentation_id
from ._wire import LAST_WORDS, Wire
from .errors import AgentBlockedError, ControlPlaneRequestError, EscalationTimeoutError
from .results import Action, EditedApproval, InterceptResult, PendingApproval, Rejection, Verdict
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class CommonOptions(TypedDict, total=False):
    """Options of single calls and of all calls of a function."""

    #: The session that the agent acts in.
    session_id: Optional[str]
    #: The principal (an agent id) on whose behalf the agent acts.
    on_behalf_of: Optional[str]
    #: The grant to use.
    grant_id: Optional[str]
    #: The intent contract that the actions fall under.
    intent_contract_id: Optional[str]
    #: An approved escalation of the same action.
    escalation_id: Optional[str]
    #: Idempotency key, a UUID: a repeated call with the same id and action gets the first decision. Default: a new one each.
    request_id: Optional[str]
    #: Gives a call of the blocking client up: it raises the signal's error, and the function does not run.
    cancel: Optional[StopSignal]


class _AnyGuardOptions(CommonOptions, total=False):
    #: The tool that the actions call. Default: the registered tool named like the action type.
    tool: Optional[str]
    #: Returns the arguments that rules evaluate. MUST return JSON, and the same for the same arguments: it is called again before
    #: the function runs, and the call is blocked if the result changed in between. Default: the arguments by their names.
    to_arguments: Optional[Callable[..., Mapping[str, Any]]]
    #: Describes the action, in less than 1 MiB. MUST be the same for the same arguments. Default: the arguments as JSON.
    to_content: Optional[Callable[..., str]]
    #: Further input to the rules, beside the arguments.
    metadata: Optional[Mapping[str, Any]]
    #: Seconds that an approver has. Default 300.
    escalation_timeout: float
    #: Seconds between polls of the status while no stream delivers. Default 2.
    escalation_poll_interval: float
    #: Handles a control plane that cannot be reached or does not respond. Default `block`. `allow` runs the function unchecked; it
    #: overrides neither a decision nor an escalation that is waited for, and a wrong address or key is no such fault.
    on_unreachable: Literal["block", "allow"]
    #: Called before a function runs unchecked, with the fault. If it raises, the function does not run.
    on_unchecked: Optional[Callable[[ControlPlaneRequestError, Action], Any]]
    #: Called with every decision before it takes effect. If it raises, the function does not run.
    on_decision: Optional[Callable[[InterceptResult, Action], Any]]
    #: Seconds that one intercept may take, retries included. Default: the client's.
    timeout: Optional[float]
    #: Ends a call whose function is running when the agent is deactivated or revoked, or its session is killed. Default True. In
    #: asyncio the function is cancelled; a blocking function is not interrupted, but its result is discarded.
    abort_when_revoked: bool
    #: Name of a parameter through which the function gets a `StopSignal` to stop by. Default none.
    stop_argument: Optional[str]


class _Required(TypedDict):
    #: The agent that acts.
    agent_id: str
    #: The kind of action: `payment.send`.
    action_type: str


class GuardOptions(_Required, _AnyGuardOptions, total=False):
    """Options of a function whose escalated calls wait for a person."""

    wait_on_escalate: Literal[True]
    #: True: the function runs with other arguments where a person approved those in place of its own. Default: such a call is
    #: rejected.
    accept_edits: bool
    #: Returns the positional and the keyword arguments with which the function runs instead: the reverse of `to_arguments`, called
    #: with the edited arguments and those of the call. Default: by their names.
    from_arguments: Optional[Callable[..., Arguments]]


class UnwaitingGuardOptions(_Required, _AnyGuardOptions, total=False):
    """Options of a function whose calls return a `PendingApproval` at once when they escalate."""

    wait_on_escalate: Literal[False]


class Guarded(Protocol[P, R_co]):
    """A guarded function: takes the arguments of the original."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Runs the function if exactly this call is allowed."""

    def with_options(self, **options: Unpack[CommonOptions]) -> Guarded[P, R_co]:
        """Returns the same guarded function with other options for the calls that are made through it."""

    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R_co]:
        """Binds a method to its object."""


@dataclass(frozen=True)
class GuardSettings:
    """All options of a guarded function, complete."""

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
    timeout: Optional[float] = None
    abort_when_revoked: bool = True
    stop_argument: Optional[str] = None

    def __post_init__(self) -> None:
        if self.on_unreachable not in ("block", "allow"):
            raise ValueError(f"`on_unreachable` must be `block` or `allow`, not `{self.on_unreachable}`")
        if not isinstance(self.wait_on_escalate, bool):
            raise TypeError(f"`wait_on_escalate` must be True or False, not `{self.wait_on_escalate}`")
        if self.accept_edits and not self.wait_on_escalate:
            raise ValueError("`accept_edits` needs `wait_on_escalate`: edited arguments come with the approval")
        WaitOptions(self.escalation_timeout, self.escalation_poll_interval).check("escalation_")
        if self.timeout is not None:
            check_positive("timeout", self.timeout)

    def with_options(self, options: CommonOptions) -> GuardSettings:
        """Returns the settings with those of single calls in their place. None changes nothing."""
        allowed = CommonOptions.__annotations__
        unknown = [name for name in options if name not in allowed]
        if unknown:
            raise TypeError(f"`{unknown[0]}` is no option of single calls, which are: {', '.join(sorted(allowed))}")
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return dataclasses.replace(self, **given)


class Binding:
    """The parameters of a guarded function."""

    def __init__(self, function: Callable[..., Any], settings: GuardSettings) -> None:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        names = [parameter.name for parameter in parameters]
        if settings.stop_argument is not None and settings.stop_argument not in names:
            raise TypeError(f"`stop_argument` names `{settings.stop_argument}`, which is no parameter of the function")
        kept = [parameter for parameter in parameters if parameter.name != settings.stop_argument]
        self._signature = signature.replace(parameters=kept)
        # A method's own object is no argument of the tool.
        self._receiver = names[0] if names[:1] in (["self"], ["cls"]) else None
        self._rest = next((each.name for each in kept if each.kind is each.VAR_KEYWORD), None)

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call by their names, with defaults."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = {name: value for name, value in bound.arguments.items() if name not in (self._receiver, self._rest)}
        return {**named, **bound.arguments.get(self._rest or "", {})}

    def edited(self, edited: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Returns the arguments of a call with other values. Raises a `TypeError` where they do not fit the function."""
        bound = self._signature.bind(*args, **kwargs)
        own = self._signature.parameters
        receiver = {} if self._receiver is None else {self._receiver: bound.arguments[self._receiver]}
        rest = {name: value for name, value in edited.items() if name not in own or name == self._rest}
        if rest and self._rest is None:
            raise TypeError(f"the function takes no argument `{next(iter(rest))}`")
        values = {**receiver, **{name: value for name, value in edited.items() if name not in rest}}
        if self._rest is not None:
            values[self._rest] = rest
        bound.arguments = OrderedDict((name, values[name]) for name in own if name in values)
        return bound.args, bound.kwargs


@dataclass(frozen=True)
class Guarding:
    """A guarded function: its settings, and the parameters that it has."""

    settings: GuardSettings
    binding: Binding
    #: Seconds that one intercept may take.
    timeout: float


@dataclass(frozen=True)
class _Call:
    """One call of a guarded function."""

    guarding: Guarding
    #: `request_id` of the first attempt, from which those of presented approvals follow.
    request_id: str
    #: The arguments of the call, or those that an approver's edit led to.
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: The content that the approval of an edited action covers. None: that of the arguments.
    content: Optional[str] = None

    @property
    def settings(self) -> GuardSettings:
        return self.guarding.settings

    def action(self) -> Action:
        """Reads the action from the arguments as they are now. A copy: later changes do not change what was sent."""
        settings, args, kwargs = self.settings, self.args, self.kwargs
        read = settings.to_arguments or (lambda *args, **kwargs: self.guarding.binding.arguments(args, kwargs))
        values = copy_json(read(*args, **kwargs), "arguments")
        if not isinstance(values, dict):
            raise TypeError(f"`to_arguments` must return the arguments by their names, not {type(values).__name__}")
        content = self.content
        if content is None:
            content = settings.to_content(*args, **kwargs) if settings.to_content else json_text(values)
        return Action(
            action_type=settings.action_type,
            action_content=content,
            agent_id=settings.agent_id,
            metadata={**copy_json(settings.metadata or {}, "metadata"), "arguments": values},
            tool=settings.tool,
            session_id=settings.session_id,
            on_behalf_of=settings.on_behalf_of,
            grant_id=settings.grant_id,
            intent_contract_id=settings.intent_contract_id,
            escalation_id=settings.escalation_id,
        )


async def permit(
    wire: Wire, guarding: Guarding, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Union[PendingApproval, Arguments]:
    """Returns the arguments that the function may run with, or the approval that is not waited for; raises otherwise."""
    call = _Call(guarding, guarding.settings.request_id or create_request_id(), args, kwargs)
    action = call.action()
    result = await _decide(wire, call, dataclasses.replace(action, request_id=call.request_id))
    if result is not None and result.decision == "escalate":
        if not guarding.settings.wait_on_escalate:
            return _pending(result, action)
        call = await _await_approval(wire, call, action, result)
    elif result is not None:
        _check_allowed(result, action)
        _check_unchanged(call, action, result)
    return call.args, dict(call.kwargs)


def _pending(result: InterceptResult, action: Action) -> PendingApproval:
    values: dict[str, Any] = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    values.update(escalation_id=_asked_in(result, action), action=action)
    return PendingApproval(**values)


def _asked_in(result: InterceptResult, action: Action) -> str:
    """Returns the id of the escalation that a decision asks for."""
    if result.escalation_id is None:
        raise _refusal(action, f"{_named(action)} escalated without an id", "escalate", result)
    return result.escalation_id


async def _await_approval(wire: Wire, asked: _Call, action: Action, escalated: InterceptResult) -> _Call:
    """Waits until the action is approved and this call is the one that the approval admits.

    Returns the call as approved: with other arguments if an approver edited them and the options accept that.
    """
    ends_at = time.monotonic() + asked.settings.escalation_timeout
    call, waiting = asked, escalated
    while True:
        escalation_id = _asked_in(waiting, action)
        verdict, rejection = await _await_verdict(wire, asked, escalation_id, waiting, ends_at)
        if verdict == "rejected":
            raise _rejected(action, escalation_id, waiting, rejection)
        approved_id: Optional[str] = escalation_id
        if isinstance(verdict, EditedApproval):
            call = _edited_call(call, verdict, waiting)
            action = call.action()
            approved_id = verdict.escalation_id
        # Reads the arguments again: the approval has to cover what would run now, not what was sent for approval.
        request_id = presentation_id(asked.request_id, approved_id or escalation_id)
        changes: dict[str, Any] = {"request_id": request_id}
        if approved_id is not None:
            changes["escalation_id"] = approved_id
        presented = dataclasses.replace(call.action(), **changes)
        result = await _decide(wire, call, presented)
        waits_on = approved_id is None and result is not None and result.decision == "escalate"
        if result is None or not (waits_on or _is_spent(result)):
            if result is not None:
                _check_allowed(result, presented)
            _check_unchanged(call, action, result or waiting)
            return call
        # Another call of the agent asked for the same action and was admitted, or an edited action needs an approval by now: this
        # one waits for the next approval.
        waiting = result


async def _await_verdict(
    wire: Wire, call: _Call, escalation_id: str, escalated: InterceptResult, ends_at: float
) -> tuple[Union[Verdict, EditedApproval], Optional[Rejection]]:
    settings = call.settings
    rejections: list[Rejection] = []
    options = WaitOptions(
        timeout=max(0.0, ends_at - time.monotonic()),
        poll_interval=settings.escalation_poll_interval,
        accept_edits=settings.accept_edits,
        on_rejected=rejections.append,
    )
    try:
        verdict = await wait_for_escalation(wire, escalation_id, options)
    except EscalationTimeoutError as error:
        raise EscalationTimeoutError(
            escalation_id,
            settings.escalation_timeout,
            reasons=escalated.reasons,
            decision_id=escalated.decision_id,
            for_model=unanswered_text(settings.action_type),
        ) from error.__cause__
    except (ControlPlaneRequestError, GeneratorExit):
        raise
    except BaseException:
        # The caller gave up: nobody waits for the approval any more.
        await wire.last_words(lambda last: withdraw_escalation(last, escalation_id, LAST_WORDS))
        raise
    return verdict, rejections[0] if rejections else None


def _rejected(
    action: Action, escalation_id: str, asked: InterceptResult, rejection: Optional[Rejection]
) -> AgentBlockedError:
    return AgentBlockedError(
        f"{_named(action)} {_how_rejected(escalation_id, rejection)}",
        "escalate",
        reasons=asked.reasons,
        escalation_id=escalation_id,
        decision_id=asked.decision_id,
        note=None if rejection is None else rejection.note,
        for_model=rejected_text(action.action_type, rejection),
    )


def _how_rejected(escalation_id: str, rejection: Optional[Rejection]) -> str:
    if rejection is not None and rejection.resolved_by == "expiry":
        return f"was not approved: escalation `{escalation_id}` expired"
    if rejection is not None and rejection.resolved_by == "withdrawal":
        return f"was not approved: escalation `{escalation_id}` was withdrawn"
    is_edited = rejection is not None and rejection.edited_arguments is not None
    instead = ", and approved with other arguments, which the call does not accept" if is_edited else ""
    said = f". The person said: {rejection.note}" if rejection is not None and rejection.note else ""
    return f"was rejected: escalation `{escalation_id}`{instead}{said}"


def _refusal(
    action: Action, message: str, decision: Literal["block", "escalate"], result: InterceptResult
) -> AgentBlockedError:
    """Creates the error of a call that is refused for a reason that its message gives."""
    return AgentBlockedError(
        message,
        decision,
        reasons=result.reasons,
        escalation_id=result.escalation_id,
        decision_id=result.decision_id,
        for_model=refused_text(action.action_type, message),
    )


def _edited_call(call: _Call, edit: EditedApproval, escalated: InterceptResult) -> _Call:
    """Returns a call with the arguments that an approver's edit stands for. Raises unless they stand for exactly that."""
    settings = call.settings
    named = f"`{settings.action_type}`"
    values = copy_json(edit.arguments, "arguments")
    if settings.from_arguments is not None:
        args, kwargs = settings.from_arguments(values, *call.args, **call.kwargs)
    else:
        try:
            args, kwargs = call.guarding.binding.edited(values, call.args, call.kwargs)
        except TypeError as error:
            text = f"the arguments of {named} that were approved do not fit it: {error}"
            raise _refusal(call.action(), text, "escalate", escalated) from error
    edited = dataclasses.replace(call, args=tuple(args), kwargs=kwargs, content=edit.action_content)
    if is_same_json((edited.action().metadata or {})["arguments"], edit.arguments):
        return edited
    text = f"`from_arguments` gave other arguments for {named} than those that were approved"
    raise _refusal(call.action(), text, "escalate", escalated)


#: Codes of the reasons for an approval that covers the action but admits it no more.
_SPENT_CODES = frozenset(["APPROVAL_USED", "APPROVAL_EXPIRED"])


def _is_spent(result: InterceptResult) -> bool:
    return result.decision == "escalate" and any(reason.code in _SPENT_CODES for reason in result.reasons)


async def _decide(wire: Wire, call: _Call, action: Action) -> Optional[InterceptResult]:
    """Returns the decision on an action; None when there is none and the options allow the call without."""
    settings = call.settings

    async def withdraw(last: Wire, late: InterceptResult) -> None:
        if late.escalation_id is not None:
            await withdraw_escalation(last, late.escalation_id, LAST_WORDS)

    # INVARIANT: only a failed intercept can let a call pass unchecked; an exception of `on_decision` never does.
    try:
        result = await wire.finish(lambda sending: call_intercept(sending, action, call.guarding.timeout), withdraw)
    except ControlPlaneRequestError as fault:
        if not is_unreachable(fault):
            raise
        if settings.on_unreachable != "allow":
            message = f"no decision could be had: {fault}"
            raise AgentBlockedError(message, None, for_model=unchecked_text(action.action_type)) from fault
        if settings.on_unchecked is not None:
            await wire.resolve(settings.on_unchecked(fault, action))
        return None
    if settings.on_decision is not None:
        await wire.resolve(settings.on_decision(result, action))
    return result


def _check_allowed(result: InterceptResult, action: Action) -> None:
    if result.decision == "allow":
        return
    why = "; ".join(reason.message for reason in result.reasons)
    is_blocked = result.decision == "block"
    verb = "is blocked" if is_blocked else "needs an approval of its own"
    error = _refusal(action, f"{_named(action)} {verb}{f': {why}' if why else ''}", result.decision, result)
    if is_blocked:
        error.for_model = blocked_text(action.action_type, result.reasons)
    raise error


def _check_unchanged(call: _Call, action: Action, result: InterceptResult) -> None:
    """Raises if the caller changed the arguments between request and decision: that call was not decided on."""
    now = call.action()
    is_same = is_same_json(now.metadata, action.metadata)
    if is_same and dataclasses.replace(now, metadata=None) == dataclasses.replace(action, metadata=None):
        return
    raise _refusal(action, f"the arguments of {_named(action)} changed while it was decided", "block", result)


def _named(action: Action) -> str:
    return f"`{action.action_type}`"
