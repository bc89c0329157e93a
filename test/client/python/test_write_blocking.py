"""The generator of the blocking client."""

from __future__ import annotations

import ast
import sys
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "src" / "client" / "python"
sys.path.insert(0, str(SOURCES))

from write_blocking import FORMS, blocking_form, write_blocking  # noqa: E402


class BlockingForm(unittest.TestCase):
    def test_leaves_out_what_makes_code_asynchronous(self) -> None:
        for source, form in (
            ("async def f() -> None: ...\n", "def f() -> None: ...\n"),
            ("x = (await f()).y + -await g()\n", "x = (f()).y + -g()\n"),
            ("return_value = not await(f())\n", "return_value = not (f())\n"),
            ("x = (await\n  f())\n", "x = (\n  f())\n"),
            ("async with a as b, c():\n    async for d in b: await d\n", "with a as b, c():\n    for d in b: d\n"),
            ("x = [[y async for y in await z] async for z in f()]\n", "x = [[y for y in z] for z in f()]\n"),
            ("x = lambda: f(await_=1)  \n", None),
            ("async def __aenter__(self) -> AsyncClient: ...\n", "def __enter__(self) -> Client: ...\n"),
            ("from ._asyncio import AsyncWire as Async\n", None),
            ("from .._asyncio_run import AsyncAgentWatch\n", "from .._blocking_run import AgentWatch\n"),
        ):
            with self.subTest(source):
                if form is None:
                    self.assertRaises(ValueError, blocking_form, source)
                else:
                    self.assertEqual(blocking_form(source), form)

    def test_changes_nothing_else(self) -> None:
        source = 'x = """a\x0c\u2028\n  b""" \\\n  + f"{{{y!r:>{z}}}} {1}"\n\n\nif x:\n\n  # Why.\n  y = (  1,\n)\n\n# End.\n'
        self.assertEqual(blocking_form(source), source)

    def test_takes_the_marked_places_from_one_form(self) -> None:
        source = '''\
class A:
    """One
    form."""  # only asyncio
    # only blocking: """The other
    # only blocking: form."""

    def f(
        self,
        # only blocking: cancel: int = 0,
    ) -> None:
        # Why.
        g(
            1,  # One.
        )  # only asyncio
        # only blocking: g(cancel)
        h()  # only asyncio
        i("# only blocking: stays")
'''
        form = '''\
class A:
    """The other
    form."""

    def f(
        self,
        cancel: int = 0,
    ) -> None:
        # Why.
        g(cancel)
'''
        self.assertEqual(blocking_form(source.replace('        i("# only blocking: stays")\n', "")), form)
        with self.assertRaisesRegex(ValueError, "only blocking"):
            blocking_form(source)

    def test_stops_at_words_that_are_not_true_of_the_blocking_form(self) -> None:
        for source in (
            '"""Awaits a call."""\n',
            "# Runs in a task of its own.\n",
            'raise TypeError("use AsyncClient")\n',
            'x = "asyncio"\n',
            "import asyncio\n",
            "x = inspect.iscoroutinefunction(f)\n",
            "f(\n    x,  # only asyncio\n)\n",
            "x = 1  # only  asyncio\n",
            "#only blocking: x = 1\n",
        ):
            with self.subTest(source), self.assertRaisesRegex(ValueError, "is left in line [12] of"):
                blocking_form(source)

    def test_stops_at_awaits_inside_of_f_strings_which_are_one_token_before_python_3_12(self) -> None:
        source = 'x = f"{await f()}"\n'
        if sys.version_info < (3, 12):
            self.assertRaises(ValueError, blocking_form, source)
        else:
            self.assertEqual(blocking_form(source), 'x = f"{f()}"\n')

    def test_stops_at_a_block_that_is_left_empty(self) -> None:
        with self.assertRaises(SyntaxError):
            blocking_form("if x:\n    f()  # only asyncio\n")


class Modules(unittest.TestCase):
    def test_have_one_source_each_and_say_so(self) -> None:
        package = SOURCES / "agent_control_plane"
        with tempfile.TemporaryDirectory() as folder:
            write_blocking(Path(folder))
            written = {str(path.relative_to(folder)): path.read_text("utf-8") for path in Path(folder).rglob("*.py")}
        self.assertEqual(set(written), set(FORMS.values()))
        for source, form in FORMS.items():
            self.assertFalse((package / form).exists(), form)
            self.assertEqual(written[form].split("\n", 1)[0], f"# Generated from {source} by write_blocking.py; edit that file.")
            for node in ast.walk(ast.parse(written[form])):
                self.assertNotRegex(type(node).__name__, "Async|Await")

    def test_begin_no_call_before_they_await_it(self) -> None:
        # The blocking form of such a call runs where it stands.
        package = SOURCES / "agent_control_plane"
        trees = {str(path.relative_to(package)): ast.parse(path.read_text("utf-8")) for path in package.rglob("*.py")}
        nodes = [node for tree in trees.values() for node in ast.walk(tree)]
        names = {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}
        # A name that a plain function has too does not say which is called.
        names -= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        self.assertIn("call_intercept", names)
        for source in FORMS:
            nodes = list(ast.walk(trees[source]))
            awaited = [node.value for node in nodes if isinstance(node, ast.Await)]
            handed_on = [node.body for node in nodes if isinstance(node, ast.Lambda)]
            for node in nodes:
                if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in names:
                    self.assertIn(node, [*awaited, *handed_on], f"{source}: {ast.unparse(node)}")


if __name__ == "__main__":
    unittest.main()
