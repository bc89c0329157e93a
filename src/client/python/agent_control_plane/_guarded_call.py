"""One call of a guarded function: its arguments and its action."""

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
    """Parameters of a guarded function."""

    def __init__(self, function: Callable[..., Any], settings: GuardSettings) -> None:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        names = [parameter.name for parameter in parameters]
        if settings.stop_argument is not None and settings.stop_argument not in names:
            raise TypeError(f"`stop_argument` names `{settings.stop_argument}`, which is not a parameter of the function")
        kept = [parameter for parameter in parameters if parameter.name != settings.stop_argument]
        self._signature = signature.replace(parameters=kept)
        # The object of a method is not an argument of the tool.
        self._receiver = names[0] if names[:1] in (["self"], ["cls"]) else None
        self._rest = next((each.name for each in kept if each.kind is each.VAR_KEYWORD), None)

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call by their names, with defaults."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = {name: value for name, value in bound.arguments.items() if name not in (self._receiver, self._rest)}
        return {**named, **bound.arguments.get(self._rest or "", {})}

    def edited(self, edited: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Returns the arguments of a call with edited values. Raises a `TypeError` if they do not fit the function."""
        bound = self._signature.bind(*args, **kwargs)
        own = self._signature.parameters
        receiver = {} if self._receiver is None else {self._receiver: bound.arguments[self._receiver]}
        rest = {name: value for name, value in edited.items() if name not in own or name == self._rest}
        if rest and self._rest is None:
            raise TypeError(f"the function has no argument `{next(iter(rest))}`")
        values = {**receiver, **{name: value for name, value in edited.items() if name not in rest}}
        if self._rest is not None:
            values[self._rest] = rest
        bound.arguments = OrderedDict((name, values[name]) for name in own if name in values)
        return bound.args, bound.kwargs


@dataclass(frozen=True)
class Guarding:
    """A guarded function: its settings and parameters."""

    settings: GuardSettings
    binding: Binding
    #: Time limit of one intercept, seconds.
    timeout: float


@dataclass(frozen=True)
class GuardedCall:
    """One call of a guarded function."""

    guarding: Guarding
    #: `request_id` of the first attempt, from which the ids of calls with an approval are derived.
    request_id: str
    #: Arguments of the call, or of the edited call.
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Content that the approval of an edited action covers. None means the content of the arguments.
    content: Optional[str] = None

    @property
    def settings(self) -> GuardSettings:
        return self.guarding.settings

    def action(self) -> Action:
        """Builds the action from the current arguments. They are copied, so that later changes do not change what was sent."""
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
    """Returns a call with the arguments of a person's edit. Raises unless these give exactly the approved arguments."""
    settings = call.settings
    values = copy_json(edit.arguments, "arguments")
    if settings.from_arguments is not None:
        args, kwargs = settings.from_arguments(values, *call.args, **call.kwargs)
    else:
        try:
            args, kwargs = call.guarding.binding.edited(values, call.args, call.kwargs)
        except TypeError as error:
            text = f"the approved arguments of `{settings.action_type}` do not fit the function: {error}"
            raise refusal_error(call.action(), text, "escalate", escalated) from error
    edited = replace(call, args=tuple(args), kwargs=kwargs, content=edit.action_content)
    if is_same_json((edited.action().metadata or {})["arguments"], edit.arguments):
        return edited
    text = f"`from_arguments` returned other arguments for `{settings.action_type}` than were approved"
    raise refusal_error(call.action(), text, "escalate", escalated)


def check_unchanged(call: GuardedCall, action: Action, result: InterceptResult) -> None:
    """Raises if the caller changed the arguments between request and decision, because the changed call was not decided."""
    now = call.action()
    is_same = is_same_json(now.metadata, action.metadata)
    if is_same and replace(now, metadata=None) == replace(action, metadata=None):
        return
    raise refusal_error(action, f"the arguments of `{action.action_type}` changed during the decision", "block", result)


def pending_approval(result: InterceptResult, action: Action) -> PendingApproval:
    """Converts the escalation of a call that does not wait for its approval."""
    values: dict[str, Any] = {field.name: getattr(result, field.name) for field in fields(result)}
    values.update(escalation_id=asked_in(result, action), action=action)
    return PendingApproval(**values)
