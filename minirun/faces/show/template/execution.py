"""A template that has been read makes a text of data.

compile_template(text) → Template       minirun.faces.show.template.reading makes the tree of nodes
Template.render(data)  → str
"""

from __future__ import annotations

from typing import Any, NoReturn

from minirun.core.keeping.visible import clean
from minirun.faces.show.template.functions import FUNCTIONS, OF_HEADINGS
from minirun.faces.show.template.reading import Node, Parser
from minirun.faces.show.template.values import (
    MISSING,
    CallError,
    Fields,
    TemplateError,
    is_true,
    printed,
    type_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Template:
    """A template that has been read."""

    def __init__(self, source: str, body: list[Node]) -> None:
        self.source, self.body = source, body

    def render(self, data: Any, *, strict: bool = False) -> str:
        """Return the text for `data`. Raises TemplateError, with status 1 as docker has it.

        `strict`: what a map has no entry for is an error.
        """
        return "".join(Execution(self.source, data, strict=strict).walk(self.body))

    def heading(self, data: Any) -> str:
        """Return the text for what stands above columns: no function changes these."""
        return "".join(Execution(self.source, data, functions=OF_HEADINGS).walk(self.body))


def compile_template(source: str, status: int = 64, *, escapes: bool = False) -> Template:
    """Return a template. Raises TemplateError; `status`: docker's for the command (64, or 1).

    `escapes`: outside of its actions \\t and \\n mean a tab and a new line.
    """
    try:
        return Template(source, Parser(source, escapes=escapes).template())
    except TemplateError as error:
        error.status = status
        raise


class Execution:
    """One rendering: the data, and the variables that are known at this point."""

    def __init__(
        self, source: str, data: Any, *, strict: bool = False,
        functions: dict[str, Callable[..., Any]] = FUNCTIONS,
    ) -> None:  # fmt: skip
        self.source, self.root, self.strict = source, data, strict
        self.functions = functions
        self.variables: list[tuple[str, Any]] = [("$", data)]

    def walk(self, body: list[Node], dot: Any = MISSING) -> Iterator[str]:
        """Yield the texts of these nodes, with `dot` for {{.}}. Raises TemplateError."""
        dot = self.root if dot is MISSING else dot
        known = len(self.variables)
        for node in body:
            if node.kind == "text":
                yield node.parts[0]
            elif node.kind == "pipe":
                value = self.pipe(node, dot)
                if not node.parts[1]:
                    yield printed(value)
            elif node.kind == "range":
                yield from self._range(node, dot)
            else:
                yield from self._branch(node, dot)
        del self.variables[known:]

    def _branch(self, node: Node, dot: Any) -> Iterator[str]:
        pipe, body, rest = node.parts
        known = len(self.variables)
        value = self.pipe(pipe, dot)
        if is_true(value):
            yield from self.walk(body, value if node.kind == "with" else dot)
        else:
            yield from self.walk(rest, dot)
        del self.variables[known:]

    def _range(self, node: Node, dot: Any) -> Iterator[str]:
        pipe, body, rest = node.parts
        commands, names, assigns = pipe.parts
        known = len(self.variables)
        value = self.pipe(pipe._replace(parts=(commands, [], False)), dot)
        pairs = self._pairs(pipe, value)
        if not assigns:
            self.variables += [(name, None) for name in names]
        for key, each in pairs:
            for name, one in zip(names, [each] if len(names) == 1 else [key, each], strict=False):
                self._assign(name, one)
            yield from self.walk(body, each)
        if not pairs:
            yield from self.walk(rest, dot)
        del self.variables[known:]

    def _pairs(self, pipe: Node, value: Any) -> list[tuple[Any, Any]]:
        if value is None or value is MISSING:
            return []
        if isinstance(value, dict) and not isinstance(value, Fields):
            return sorted(value.items())
        if isinstance(value, list | tuple):
            return list(enumerate(value))
        return self.fail(pipe, f"range can't iterate over {printed(value)[:60]}")

    def _assign(self, name: str, value: Any) -> None:
        for place in range(len(self.variables) - 1, -1, -1):
            if self.variables[place][0] == name:
                self.variables[place] = (name, value)
                return

    def pipe(self, node: Node, dot: Any) -> Any:
        """Return the value of command | command …; a variable may get it. Raises TemplateError."""
        commands, names, assigns = node.parts
        value: Any = None
        for number, command in enumerate(commands):
            value = self._command(command, dot, [value] if number else [])
        if names and assigns:
            self._assign(names[0], value)
        elif names:
            self.variables.append((names[0], value))
        return value

    def _command(self, node: Node, dot: Any, final: list[Any]) -> Any:
        first, *rest = node.parts
        if first.kind == "function":
            return self._call(node, first.parts[0], rest, final, dot)
        if not rest and not final:
            return self._value(first, dot)
        function = self._value(first, dot, bare=True)
        if not callable(function):
            self.fail(first, f"{self._shown(first)} is no method, but has arguments")
        return self._apply(first, function, [self._value(one, dot) for one in rest] + final)

    def _call(self, node: Node, name: str, rest: list[Node], final: list[Any], dot: Any) -> Any:
        if name in ("and", "or"):  # they stop at the first that decides
            if not rest and not final:
                self.fail(node, f"wrong number of args for {name}: want at least 1 got 0")
            value: Any = None
            for one in rest:
                value = self._value(one, dot)
                if is_true(value) == (name == "or"):
                    return value
            return final[0] if final else value
        return self._apply(
            node, self.functions[name], [self._value(one, dot) for one in rest] + final
        )

    def _apply(self, node: Node, function: Callable[..., Any], args: list[Any]) -> Any:
        name = function.__name__
        if node.kind in ("field", "chain"):  # a method: its name is the field's
            name = node.parts[0] if node.kind == "field" else node.parts[1]
        try:
            return function(*args)
        except CallError as error:
            self.fail(node, f"error calling {name}: {error}")
        except TypeError:
            self.fail(node, f"wrong arguments for {name}")

    def _value(self, node: Node, dot: Any, *, bare: bool = False, whole: Node | None = None) -> Any:
        """Return a node's value; a method is called, unless the `bare` one is asked for.

        `whole`: the chain of fields that this node is the begin of, for an error.
        """
        if node.kind == "constant":
            return node.parts[0]
        if node.kind == "dot":
            return dot
        if node.kind == "pipe":
            return self.pipe(node, dot)
        if node.kind == "function":
            return self._call(node, node.parts[0], [], [], dot)
        if node.kind == "variable":
            return next(value for name, value in self.variables[::-1] if name == node.parts[0])
        if node.kind == "field":
            found = self._field(whole or node, node.at, dot, node.parts[0])
        else:
            inner, name, at = node.parts
            value = self._value(inner, dot, whole=whole or node)
            found = self._field(whole or node, at, value, name)
        return self._apply(node, found, []) if callable(found) and not bare else found

    def _field(self, node: Node, at: int, value: Any, name: str) -> Any:
        if isinstance(value, Fields):
            if key := value.of_template(name):
                return value[key]
            what = f"can't evaluate field {name} in type {type_of(value)}"
            self.fail(node._replace(at=at), what, f"one of {', '.join(value)}", node)
        if isinstance(value, dict):
            if self.strict and name not in value:
                known = f"one of {', '.join(value)}" if value else ""
                self.fail(node._replace(at=at), f'map has no entry for key "{name}"', known, node)
            return value.get(name, MISSING)
        if value is None or value is MISSING:
            what = f"nil pointer evaluating interface {{}}.{name}"
        else:
            what = f"can't evaluate field {name} in type {type_of(value)}"
        return self.fail(node._replace(at=at), what, "", node)

    def _shown(self, node: Node) -> str:
        return clean(self.source[node.at : node.end])

    def fail(self, node: Node, what: str, hint: str = "", whole: Node | None = None) -> NoReturn:
        """Raise TemplateError in Go's words: at this node, which is shown, or the `whole`."""
        before = self.source[: node.at]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
        shown = self._shown(whole or node)
        text = f'template: :{line}:{column}: executing "" at <{shown}>: {clean(what)}'
        raise TemplateError(f"template parsing error: {text}", hint, status=1)
