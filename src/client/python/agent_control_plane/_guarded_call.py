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


#: Wrappers around a method that are looked through.
_MAX_WRAPPERS = 20


class Binding:
    """Parameters of a guarded function. What rules see is bound as Python binds it, before anything is asked."""

    def __init__(self, function: Callable[..., Any], settings: GuardSettings) -> None:
        if isinstance(function, (classmethod, staticmethod)):
            raise TypeError(f"`@{type(function).__name__}` belongs above `guard`, which guards the function itself")
        parameters = inspect.signature(function).parameters
        stop = settings.stop_argument
        if stop is not None:
            _check_stop(stop, parameters)
        kept = [parameter for name, parameter in parameters.items() if name != stop]
        #: The signature for callers, without the parameter for the `StopSignal`.
        self.signature = inspect.signature(function).replace(parameters=kept)
        self._function = function
        self._first = kept[0] if kept and kept[0].kind in (kept[0].POSITIONAL_ONLY, kept[0].POSITIONAL_OR_KEYWORD) else None
        self._rest = next((each.name for each in kept if each.kind is each.VAR_KEYWORD), None)
        #: Names that have a meaning of their own, so that they cannot be told apart in `**` arguments.
        self._own = frozenset(name for name in parameters if name != self._rest)
        is_amid = stop is not None and parameters[stop].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        #: Number of positional arguments that may be passed by position: those before the parameter for the `StopSignal`.
        self._positional = list(parameters).index(stop) if stop is not None and is_amid else None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Binds the arguments of a call. Raises a `TypeError` if the function cannot be called with them.

        Also raises one for a name that is given twice, by position and in `**` arguments: Python allows this after `/` and `*`,
        but rules see one value for each name.
        """
        bound = self.signature.bind(*args, **kwargs)
        for name in bound.arguments.get(self._rest or "", ()):
            if name in self._own:
                called = getattr(self._function, "__qualname__", "function")
                raise TypeError(f"{called}() got multiple values for argument '{name}'")
        return bound

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call by their names, with defaults. The object of a method is not an argument of the tool."""
        bound = self.bind(args, kwargs)
        bound.apply_defaults()
        left_out = (self._receiver(args), self._rest)
        named = {name: value for name, value in bound.arguments.items() if name not in left_out}
        return {**named, **bound.arguments.get(self._rest or "", {})}

    def edited(self, edited: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Returns the arguments of a call with edited values. Raises a `TypeError` if they do not fit the function."""
        own = self.signature.parameters
        receiver = self._receiver(args)
        rest = {name: value for name, value in edited.items() if name not in own or name == self._rest}
        if rest and self._rest is None:
            raise TypeError(f"the function has no argument `{next(iter(rest))}`")
        values = {name: value for name, value in edited.items() if name not in rest}
        if receiver is not None:
            values[receiver] = args[0]
        if self._rest is not None:
            values[self._rest] = rest
        bound = self.bind(args, kwargs)
        bound.arguments = OrderedDict((name, values[name]) for name in own if name in values)
        return bound.args, bound.kwargs

    def to_run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], has_defaults: bool) -> Arguments:
        """Returns the arguments to call the function with. `has_defaults` adds the defaults that rules saw: a wrapper around the
        function may have others.
        """
        bound = self.bind(args, kwargs)
        given = set(bound.arguments)
        if has_defaults:
            bound.apply_defaults()
        added = {name: value for name, value in bound.arguments.items() if name not in given}
        kinds = {name: parameter.kind for name, parameter in self.signature.parameters.items()}
        args = (*args, *(value for name, value in added.items() if kinds[name] is inspect.Parameter.POSITIONAL_ONLY))
        named = {name: value for name, value in added.items() if kinds[name] in _BY_NAME}
        if self._positional is None:
            return args, {**kwargs, **named}
        # The `StopSignal` is passed by name, so what follows it is too.
        after = dict(zip(list(kinds)[self._positional :], args[self._positional :]))
        return args[: self._positional], {**kwargs, **named, **after}

    def _receiver(self, args: tuple[Any, ...]) -> Optional[str]:
        """Returns the parameter for the object, or the class, whose method the function is called as."""
        return self._first.name if self._first is not None and args and _is_method_of(args[0], self._function) else None


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _check_stop(name: str, parameters: Mapping[str, inspect.Parameter]) -> None:
    """Raises a `TypeError` unless a `StopSignal` can be passed to a parameter by its name, whatever the other arguments are."""
    if name not in parameters:
        raise TypeError(f"`stop_argument` names `{name}`, which is not a parameter of the function")
    kind = parameters[name].kind
    takes_more = any(each.kind is each.VAR_POSITIONAL for each in parameters.values())
    if kind not in _BY_NAME or (kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and takes_more):
        raise TypeError(f"`stop_argument` names `{name}`, which cannot be passed by its name; move it behind `*`")


def _is_method_of(value: Any, function: Callable[..., Any]) -> bool:
    """Tests for a function that Python calls with `value` first: a method of its class, or a class method of the class itself."""
    if any(_leads_to(each, function) for base in type(value).__mro__ for each in vars(base).values()):
        return True
    classes = value.__mro__ if isinstance(value, type) else ()
    found = (each for base in classes for each in vars(base).values() if isinstance(each, classmethod))
    return any(_leads_to(each.__func__, function) for each in found)


def _leads_to(attribute: Any, function: Callable[..., Any]) -> bool:
    """Tests for an attribute of a class that is the function, or wraps it, and gets its object first."""
    if isinstance(attribute, (classmethod, staticmethod)):
        return False
    found = attribute.fget if isinstance(attribute, property) else attribute
    for _ in range(_MAX_WRAPPERS):
        if found is None or found is function:
            break
        # Not `getattr`, which an object may answer for every name.
        found = getattr(found, "__dict__", {}).get("__wrapped__")
    return found is function


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
    #: Id of this call's claim: another call with the same `request_id` must not hold the same.
    claim_id: str
    #: Arguments of the call, or of the edited call.
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Content that the approval of an edited action covers. None means the content of the arguments.
    content: Optional[str] = None

    @property
    def settings(self) -> GuardSettings:
        return self.guarding.settings

    def to_run(self) -> Arguments:
        """Returns the arguments to call the function with: exactly those that were decided."""
        has_defaults = self.settings.to_arguments is None
        return self.guarding.binding.to_run(self.args, self.kwargs, has_defaults)

    def action(self) -> Action:
        """Builds the action from the current arguments. They are copied, so that later changes do not change what was sent."""
        settings, args, kwargs = self.settings, self.args, self.kwargs
        named = self.guarding.binding.arguments(args, kwargs)
        values = copy_json(settings.to_arguments(*args, **kwargs) if settings.to_arguments else named, "arguments")
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
            report=None if settings.report else False,
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
