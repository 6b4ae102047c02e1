"""--format of docker's lists: a template for each row, `table …` with headings, or json.

'{{.ID}} {{.Names}}' prints a line for each row, 'table {{.ID}}\\t{{.Names}}' a table whose columns
are at \\t, and json a line of JSON with all fields for each row.
"""

from __future__ import annotations

from minirun.common import table
from minirun.faces.show.template.execution import Template, compile_template
from minirun.faces.show.template.values import Fields, Safe, TemplateError, as_map, json_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JSON = "{{json .}}"


def read(form: str, status: int = 64) -> tuple[Template, bool]:
    """Return the template of a list's --format, and True if it is a `table …`.

    `json` stands for {{json .}}; \\t and \\n mean a tab and a new line, also outside of quotes.
    Raises TemplateError; `status` is docker's for the command.
    """
    is_table = form == "table" or form.startswith("table ")
    form = form.removeprefix("table").strip() if is_table else form
    form = JSON if form == "json" else form
    return compile_template(form, status, escapes=True), is_table


def lines(form: str, rows: Sequence[Fields], headings: dict[str, str], status: int = 64) -> str:
    """Return the rows as text for standard output. Raises TemplateError.

    `headings`: field → what stands above its column.
    """
    template, is_table = read(form, status)
    if not is_table:
        return "".join(f"{template.render(row)}\n" for row in rows)
    heads: dict[str, str | Callable[[str], str]] = {
        name: Safe(text) for name, text in headings.items()
    }
    names = {name for row in rows for name, value in row.items() if callable(value)}
    heads |= dict.fromkeys({"Label", *names}, _heading_of_label)
    shown = [template.heading(Fields(heads)), *(template.render(row) for row in rows)]
    cells = [text.replace("\n", " ").split("\t") for text in shown]
    widest = max(map(len, cells))
    return table.text([[*row, *[""] * (widest - len(row))] for row in cells], 3)


def documents(form: str, rows: Sequence[Fields]) -> str:
    """Return what `inspect` prints: a list as JSON, for `json` in one line, or a line of a template
    for each; without one an empty line, as docker does. Raises TemplateError."""
    if form in ("", "json"):
        return json_of(rows, None if form else 4) + "\n"
    template = compile_template(form)
    return "".join(f"{_rendered(template, row)}\n" for row in rows) or "\n"


def check(form: str) -> None:
    """Raise TemplateError if this is no --format of `inspect`."""
    compile_template("" if form == "json" else form)


def _rendered(template: Template, row: Fields) -> str:
    """Return a document by a template. Raises TemplateError.

    As docker does it: a template that fits no fields may fit the names that JSON has.
    """
    try:
        return template.render(row)
    except TemplateError:
        return template.render(as_map(row), strict=True)


def _heading_of_label(name: str) -> str:
    """Return what docker has above {{.Label "com.example.some_name"}}: SOME NAME."""
    return name.rpartition(".")[2].replace("-", " ").replace("_", " ").upper()
