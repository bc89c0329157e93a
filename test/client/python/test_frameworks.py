"""Guarded functions under decorators that read a tool as those of frameworks do: its signature, its hints, whether it is a coroutine.

The frameworks themselves are not installed here. Each decorator does what the framework's own one does with a function: how it
describes it to a model, and how it calls it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import typing
import unittest
from collections.abc import Awaitable, Callable
from typing import Any

import agent_control_plane as acp
from harness import ADMIN, KEY, URL, arguments_of, decisions_of, register_agent


class Context:
    """What a framework passes to a tool first, if its first parameter has this type."""


@dataclasses.dataclass
class Tool:
    """A tool as a framework describes and calls it."""

    name: str
    description: str
    parameters: dict[str, tuple[Any, Any]]
    is_async: bool
    invoke: Callable[[dict[str, Any]], Awaitable[Any]]


def parameters_of(function: Callable[..., Any], takes_context: bool) -> dict[str, tuple[Any, Any]]:
    """Returns type and default of each parameter for a model."""
    hints = typing.get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1 if takes_context else 0 :]
    return {each.name: (hints.get(each.name, Any), each.default) for each in parameters}


def has_context(function: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(function).parameters), None)
    return first is not None and typing.get_type_hints(function).get(first) is Context


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Awaits a coroutine function; runs another in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def openai_agents(function: Callable[..., Any]) -> Tool:
    """As `function_tool`: every parameter that may be is passed by position, and an exception becomes a text."""
    takes_context = has_context(function)
    parameters = parameters_of(function, takes_context)

    async def invoke(arguments: dict[str, Any]) -> Any:
        args, kwargs = [Context()] if takes_context else [], {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in parameters:
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[name] = arguments[name]
            else:
                args.append(arguments[name])
        try:
            return await call(function, *args, **kwargs)
        except Exception:
            return "an error occurred, please try again"

    is_async = inspect.iscoroutinefunction(function)
    return Tool(function.__name__, inspect.getdoc(function) or "", parameters, is_async, invoke)


def langchain(function: Callable[..., Any]) -> Tool:
    """As `tool` of `langchain_core`: all arguments are passed by name, and exceptions are passed on."""
    if not function.__doc__:
        raise ValueError("a docstring is needed")
    parameters = parameters_of(function, False)

    async def invoke(arguments: dict[str, Any]) -> Any:
        return await call(function, **arguments)

    return Tool(function.__name__, function.__doc__, parameters, inspect.iscoroutinefunction(function), invoke)


def crewai(function: Callable[..., Any]) -> Tool:
    """As `tool` of `crewai`: reads `__annotations__`, passes arguments by name, and calls three times if there is an exception."""
    if function.__doc__ is None or function.__annotations__ is None:
        raise ValueError("a docstring and annotations are needed")
    parameters = parameters_of(function, False)
    assert {*function.__annotations__} == {*parameters, "return"}

    async def invoke(arguments: dict[str, Any]) -> Any:
        for _ in range(3):
            try:
                result = await asyncio.to_thread(function, **arguments)
                return await result if inspect.isawaitable(result) else result
            except Exception as error:
                last = error
        return f"the tool failed: {last}"

    return Tool(function.__name__, function.__doc__, parameters, inspect.iscoroutinefunction(function), invoke)


def pydantic_ai(function: Callable[..., Any]) -> Tool:
    """As `Agent.tool`: a context comes first, positional-only parameters by position, others by name."""
    takes_context = has_context(function)
    parameters = parameters_of(function, takes_context)

    async def invoke(arguments: dict[str, Any]) -> Any:
        kinds = inspect.signature(function).parameters
        args = [arguments[name] for name in parameters if kinds[name].kind is inspect.Parameter.POSITIONAL_ONLY]
        named = {name: value for name, value in arguments.items() if kinds[name].kind is not inspect.Parameter.POSITIONAL_ONLY}
        return await call(function, *([Context()] if takes_context else []), *args, **named)

    is_async = inspect.iscoroutinefunction(function)
    return Tool(function.__name__, inspect.getdoc(function) or "", parameters, is_async, invoke)


FRAMEWORKS = (openai_agents, langchain, crewai, pydantic_ai)
WITH_CONTEXT = (openai_agents, pydantic_ai)


def pay(amount: int, to: str = "Ann") -> str:
    """Pays somebody."""
    return f"paid {amount} to {to}"


async def pay_async(amount: int, to: str = "Ann") -> str:
    """Pays somebody."""
    return f"paid {amount} to {to}"


def pay_within(context: Context, amount: int) -> str:
    """Pays somebody."""
    assert isinstance(context, Context)
    return f"paid {amount}"


class Decorators(unittest.IsolatedAsyncioTestCase):
    def options(self, action_type: str = "pay", **more: Any) -> dict[str, Any]:
        self.agent_id = register_agent()
        return {"agent_id": self.agent_id, "action_type": action_type, "when_refused": "result", **more}

    async def test_describe_a_guarded_function_as_they_describe_the_function(self) -> None:
        async with acp.AsyncClient(URL, KEY) as client:
            for framework in FRAMEWORKS:
                for guard, function in ((ADMIN.guard, pay), (client.guard, pay_async)):
                    guarded, plain = framework(guard(**self.options())(function)), framework(function)
                    self.assertEqual(dataclasses.replace(guarded, invoke=plain.invoke), plain, framework.__name__)

    async def test_leave_out_the_parameter_for_a_signal(self) -> None:
        @ADMIN.guard(**self.options(), stop_argument="stop")
        def work(text: str, *, stop: acp.StopSignal) -> str:
            """Works."""
            return f"{text} {stop.is_set()}"

        for framework in FRAMEWORKS:
            tool = framework(work)
            self.assertEqual(tool.parameters, {"text": (str, inspect.Parameter.empty)}, framework.__name__)
            self.assertEqual(await tool.invoke({"text": "a"}), "a False")

    async def test_call_a_function_that_is_allowed_and_rules_see_its_arguments(self) -> None:
        async with acp.AsyncClient(URL, KEY) as client:
            for framework in FRAMEWORKS:
                for guard, function in ((ADMIN.guard, pay), (client.guard, pay_async)):
                    tool = framework(guard(**self.options())(function))
                    self.assertEqual(await tool.invoke({"amount": 3, "to": "Bob"}), "paid 3 to Bob")
                    decision_id = decisions_of(self.agent_id)[0].decision_id
                    self.assertEqual(arguments_of(decision_id), {"amount": 3, "to": "Bob"})

    async def test_hand_the_refusal_to_the_model_and_ask_once(self) -> None:
        async with acp.AsyncClient(URL, KEY) as client:
            for framework in FRAMEWORKS:
                for guard, function in ((ADMIN.guard, pay), (client.guard, pay_async)):
                    tool = framework(guard(**self.options("danger.pay"))(function))
                    self.assertRegex(await tool.invoke({"amount": 3, "to": "Bob"}), "was not carried out.*too dangerous")
                    self.assertEqual(len(decisions_of(self.agent_id)), 1, framework.__name__)

    async def test_pass_their_context_which_is_no_argument_of_the_action(self) -> None:
        for framework in WITH_CONTEXT:
            options = self.options(to_arguments=lambda _context, amount: {"amount": amount})
            tool = framework(ADMIN.guard(**options)(pay_within))
            self.assertEqual(tool.parameters, {"amount": (int, inspect.Parameter.empty)})
            self.assertEqual(await tool.invoke({"amount": 3}), "paid 3")
            self.assertEqual(arguments_of(decisions_of(self.agent_id)[0].decision_id), {"amount": 3})


if __name__ == "__main__":
    unittest.main()
