"""Generates the blocking form of the client from its handwritten asyncio form.

`npm run build:python` runs this for the wheel; `python3 src/client/python/write_blocking.py FOLDER` only writes the modules.

`async` and `await` are removed, and names get their blocking form. Strings and comments do not change, so their words have to be
true for both forms. Two marks are for the places where the forms differ: a statement that ends with `# only asyncio` is left out,
and a comment `# only blocking: …` becomes code. A remaining word of asyncio stops the build.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "agent_control_plane"
#: The handwritten modules, and the modules that are generated from them.
FORMS = {"aio.py": "client.py", **{f"_async/{path.name}": f"_sync/{path.name}" for path in PACKAGE.glob("_async/*.py")}}
#: Names and their blocking form, besides names that lose the prefix `Async`.
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "_async": "_sync",
    "_asyncio": "_blocking",
    "_asyncio_run": "_blocking_run",
}
ONLY_ASYNCIO, ONLY_BLOCKING = "# only asyncio", "# only blocking: "
_LEFT_OVER = re.compile(r"async|await|coroutine|event loop|\btasks?\b|only blocking", re.IGNORECASE)


def blocking_form(source: str) -> str:
    """Returns the blocking form of a module. Raises a `ValueError` for a word that is true only for asyncio."""
    starts = [0, *itertools.accumulate(map(len, io.StringIO(source)))]
    text, statement, has_code, is_left_out, end = "", "", False, False, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        gap, start, end = end, starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        statement += source[gap:start] + blocking_token(token.type, source[start:end])
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            # The blanks after the word are removed too.
            end += len(source[end:]) - len(source[end:].lstrip(" "))
        has_code = has_code or token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
        # Comments and empty lines before a statement stay when it is left out.
        if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and not has_code):
            text, statement, has_code = text if is_left_out else text + statement, "", False
        is_left_out = token.type == tokenize.COMMENT and token.string == ONLY_ASYNCIO
    left_over = _LEFT_OVER.search(text)
    if left_over is not None:
        raise ValueError(f"`{left_over[0]}` is left in line {text.count(chr(10), 0, left_over.start()) + 1} of:\n{text}")
    ast.parse(text)
    return text


def blocking_token(kind: int, string: str) -> str:
    """Returns the blocking form of one token."""
    if kind == tokenize.COMMENT:
        return string.removeprefix(ONLY_BLOCKING)
    if kind != tokenize.NAME:
        return string
    return "" if string in ("async", "await") else NAMES.get(string, re.sub(r"^Async(?=[A-Z])", "", string))


def write_blocking(package: Path) -> None:
    """Writes the blocking modules into a folder."""
    for name, form in FORMS.items():
        target = package / form
        target.parent.mkdir(parents=True, exist_ok=True)
        header = f"# Generated from {name} by write_blocking.py; edit that file.\n"
        target.write_text(header + blocking_form((PACKAGE / name).read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write_blocking(Path(sys.argv[1]))
