"""Runs guarded calls for the scenarios, as lines of JSON on the standard input ask for them: `driver.py blocking|asyncio`.

In: `{"call": id, "url", "key", "arguments", "options", "call_options"}`, `{"cancel": id}`, `{"answer": number, "value"}`.
Out: `{"ask": number, "call": id, "what", "value"}`, `{"done": id, "result"}` or `{"done": id, "error"}`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import itertools
import json
import sys
import threading
from datetime import datetime
from typing import Any

import agent_control_plane as acp


def text_of(value: object) -> str:
    """The text of a time, which JSON does not have."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a line cannot hold a {type(value).__name__}")


class Link:
    """The lines to and from the tests. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, concurrent.futures.Future[Any]] = {}

    def send(self, line: dict[str, Any]) -> None:
        with self._lock:
            print(json.dumps(line, default=text_of), flush=True)

    def ask(self, call: int, what: str, value: Any = None) -> concurrent.futures.Future[Any]:
        """Asks the tests; the future has their answer."""
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        number = next(self._numbers)
        self._asked[number] = answer
        self.send({"ask": number, "call": call, "what": what, "value": value})
        return answer

    def answer(self, number: int, value: Any) -> None:
        future = self._asked.pop(number)
        if not future.done():
            future.set_result(value)


LINK = Link()


def options_of(line: dict[str, Any]) -> dict[str, Any]:
    """The options of the guard: those that were sent, and hooks that ask the tests."""
    call, own = line["call"], line["arguments"]

    def to_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments is own:
            own.update(LINK.ask(call, "arguments").result())
        return arguments

    def on_unchecked(fault: acp.ControlPlaneRequestError, _action: acp.Action) -> None:
        LINK.ask(call, "unchecked", fields_of(fault)).result()

    options = {**line["options"], "to_arguments": to_arguments, "on_unchecked": on_unchecked}
    if options.get("accept_edits"):
        options["from_arguments"] = lambda edited, arguments: ((edited,), {})
    return options


def fields_of(error: BaseException) -> dict[str, Any]:
    """The attributes of an error, its class and its cause."""
    fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    reasons = [dataclasses.asdict(reason) for reason in fields.pop("reasons", ())]
    violations = [dataclasses.asdict(violation) for violation in fields.pop("violations", ())]
    cause = error.__cause__
    return {
        **fields,
        "name": type(error).__name__,
        "message": str(error),
        "reasons": reasons,
        "violations": violations,
        "cause": fields_of(cause) if isinstance(cause, acp.ControlPlaneRequestError) else None,
    }


def result_of(value: Any) -> Any:
    return {"pending": dataclasses.asdict(value)} if isinstance(value, acp.PendingApproval) else {"value": value}


class BlockingCalls:
    """Calls of the blocking client, each in a thread."""

    def __init__(self) -> None:
        self._cancels: dict[int, acp.StopSignal] = {}

    def start(self, line: dict[str, Any]) -> None:
        cancel = self._cancels[line["call"]] = acp.StopSignal()
        if line["cancelled"]:
            cancel.set()
        threading.Thread(target=self._run, args=(line, cancel), daemon=True).start()

    def cancel(self, call: int) -> None:
        self._cancels[call].set()

    def _run(self, line: dict[str, Any], cancel: acp.StopSignal) -> None:
        call = line["call"]
        try:
            with acp.Client(line["url"], line["key"]) as client:

                @client.guard(**options_of(line), stop_argument="stop")
                def function(arguments: dict[str, Any], stop: acp.StopSignal) -> Any:
                    ended = threading.Event()
                    answer = LINK.ask(call, "run", arguments)
                    answer.add_done_callback(lambda _: ended.set())
                    stop.add_callback(ended.set)
                    ended.wait()
                    return answer.result() if answer.done() else None

                result = function.with_options(cancel=cancel, **line["call_options"])(line["arguments"])
            LINK.send({"done": call, "result": result_of(result)})
        except BaseException as error:
            LINK.send({"done": call, "error": fields_of(error)})


class AsyncCalls:
    """Calls of the asyncio client, each in a task."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def start(self, line: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self._start, line)

    def cancel(self, call: int) -> None:
        self._loop.call_soon_threadsafe(lambda: self._tasks[call].cancel())

    def _start(self, line: dict[str, Any]) -> None:
        task = self._tasks[line["call"]] = self._loop.create_task(self._run(line))
        task.add_done_callback(lambda done: self._ended(line["call"], done))
        if line["cancelled"]:
            task.cancel()

    def _ended(self, call: int, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        LINK.send({"done": call, "result": task.result()} if error is None else {"done": call, "error": fields_of(error)})

    async def _run(self, line: dict[str, Any]) -> Any:
        async with acp.AsyncClient(line["url"], line["key"]) as client:

            @client.guard(**options_of(line))
            async def function(arguments: dict[str, Any]) -> Any:
                return await asyncio.wrap_future(LINK.ask(line["call"], "run", arguments))

            return result_of(await function.with_options(**line["call_options"])(line["arguments"]))


def main() -> None:
    calls = {"blocking": BlockingCalls, "asyncio": AsyncCalls}[sys.argv[1]]()
    for text in sys.stdin:
        line = json.loads(text)
        if "answer" in line:
            LINK.answer(line["answer"], line["value"])
        elif "cancel" in line:
            calls.cancel(line["cancel"])
        else:
            calls.start(line)


if __name__ == "__main__":
    main()
