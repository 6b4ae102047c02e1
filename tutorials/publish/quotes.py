"""Quotes of the tree in the pages: a fence names what it quotes, and its text is written into it.

    a function, class or value; a method is Class.name; of it, the lines 3 to 12:
        ```python minirun/core/hooks.py run_prestart 3-12 1f3c9a2b
    how it differs in two files:
        ```diff tutorials/levels/02_root.py tutorials/levels/03_handshake.py launch 88e0d1c4
    lines of a file, of any language:
        ```c tests/faces/teach/levels/level3.c 10-19 0f6b2a11

`make quotes` writes the text of today between the fences. The last word is a hash of the text for
which the sentences around it were written; it is changed by hand, after they were read again, since
only a reader knows whether they still fit. Of a new quote it is `?`, and is written once.
"""

import ast
import difflib
import hashlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"^```(?P<kind>\w+) (?P<what>\S+ (?:\S+ )*?)(?P<hash>[0-9a-f]{8}|\?)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINES = re.compile(r"(\d+)-(\d+)")
_CONTEXT = 2
"""Unchanged lines around each change of a diff."""


class Quote(NamedTuple):
    """A quote in a page."""

    line: int
    """Where its fence begins, from 1 on."""
    what: tuple[str, ...]
    """Its kind, and the words that name what it quotes."""
    hash: str
    body: str


def quotes(page: str) -> Iterator[Quote]:
    """Return the quotes of a page, in their order."""
    for found in _FENCE.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        yield Quote(line, (found["kind"], *found["what"].split()), found["hash"], found["body"])


def text_of(what: tuple[str, ...]) -> str:
    """Return what a quote's words name, as it is in the tree today.

    Raises ValueError if there is no such thing, OSError.
    """
    kind, *words = what
    if kind == "diff":
        old, new, name = words
        before, after = _named(old, name), _named(new, name)
        changes = difflib.unified_diff(before, after, lineterm="", n=_CONTEXT)
        return "".join(f"{line}\n" for line in list(changes)[2:] if not line.startswith("@@"))
    path, *rest = words
    lines = _LINES.fullmatch(rest[-1]) if rest else None
    name = " ".join(rest[:-1] if lines else rest)
    found = _named(path, name) if name else (ROOT / path).read_text().splitlines()
    if lines:
        first, last = int(lines[1]), int(lines[2])
        if not 1 <= first <= last <= len(found):
            raise ValueError(f"{path} {name} has {len(found)} lines")
        found = found[first - 1 : last]
    return textwrap.dedent("\n".join(found)) + "\n"


def _named(path: str, name: str) -> list[str]:
    """Return the lines of a function, a class, a method or a value. Raises ValueError, OSError."""
    text = (ROOT / path).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        for child in getattr(node, "body", []):
            if part in _names(child):
                node = child
                break
        else:
            raise ValueError(f"{path} has no {name}")
    decorators = [each.lineno for each in getattr(node, "decorator_list", [])]
    first, last = min([node.lineno, *decorators]), node.end_lineno  # type: ignore[attr-defined]
    return textwrap.dedent("\n".join(text.splitlines()[first - 1 : last])).splitlines()


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def hash_of(text: str) -> str:
    """Return what a quote's last word is for this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def refreshed(page: str, text_of: Callable[[tuple[str, ...]], str] = text_of) -> str:
    """Return a page with the text of today in each quote. Raises ValueError, OSError."""

    def write(found: re.Match[str]) -> str:
        text = text_of((found["kind"], *found["what"].split()))
        known = hash_of(text) if found["hash"] == "?" else found["hash"]
        return f"```{found['kind']} {found['what']}{known}\n{text}```"

    return _FENCE.sub(write, page)


def unread(page: str) -> list[Quote]:
    """Return the quotes whose text is another than that for which their page was written."""
    return [quote for quote in quotes(page) if quote.hash != hash_of(quote.body)]


def pages() -> list[Path]:
    """Return the pages that may have quotes."""
    return sorted((ROOT / "tutorials").rglob("*.md"))


def main() -> int:
    """Write the quotes of all pages; say which are to be read again."""
    count = 0
    for path in pages():
        before = path.read_text(encoding="utf-8")
        try:
            after = refreshed(before)
        except ValueError as error:
            sys.exit(f"{path.relative_to(ROOT)}: {error}")
        if after != before:
            path.write_text(after, encoding="utf-8")
        for quote in unread(after):
            count += 1
            where = f"{path.relative_to(ROOT)}:{quote.line}: {' '.join(quote.what)}"
            print(f"{where} has changed: read what is said of it, then write {hash_of(quote.body)}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
