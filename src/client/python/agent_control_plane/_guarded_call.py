"""One call of a guarded function: its arguments, and the action that they make."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Optional

from ._guard_options import Arguments, GuardSettings
from ._json import copy_json, is_same_json, json_text
from ._refusals import asked_in, refusal_error
from .results import Action, EditedApproval, InterceptResult, PendingApproval


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
class GuardedCall:
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


def edited_call(call: GuardedCall, edit: EditedApproval, escalated: InterceptResult) -> GuardedCall:
    """Returns a call with the arguments that an approver's edit stands for. Raises unless they stand for exactly that."""
    settings = call.settings
    values = copy_json(edit.arguments, "arguments")
    if settings.from_arguments is not None:
        args, kwargs = settings.from_arguments(values, *call.args, **call.kwargs)
    else:
        try:
            args, kwargs = call.guarding.binding.edited(values, call.args, call.kwargs)
        except TypeError as error:
            text = f"the arguments of `{settings.action_type}` that were approved do not fit it: {error}"
            raise refusal_error(call.action(), text, "escalate", escalated) from error
    edited = replace(call, args=tuple(args), kwargs=kwargs, content=edit.action_content)
    if is_same_json((edited.action().metadata or {})["arguments"], edit.arguments):
        return edited
    text = f"`from_arguments` gave other arguments for `{settings.action_type}` than those that were approved"
    raise refusal_error(call.action(), text, "escalate", escalated)


def check_unchanged(call: GuardedCall, action: Action, result: InterceptResult) -> None:
    """Raises if the caller changed the arguments between request and decision: that call was not decided on."""
    now = call.action()
    is_same = is_same_json(now.metadata, action.metadata)
    if is_same and replace(now, metadata=None) == replace(action, metadata=None):
        return
    raise refusal_error(action, f"the arguments of `{action.action_type}` changed while it was decided", "block", result)


def pending_approval(result: InterceptResult, action: Action) -> PendingApproval:
    """Converts the escalation of a call that does not wait for it."""
    values: dict[str, Any] = {field.name: getattr(result, field.name) for field in fields(result)}
    values.update(escalation_id=asked_in(result, action), action=action)
    return PendingApproval(**values)
