"""The buttons "run in the tab" of a lesson's command blocks, if `make tab` has put the tab there.

The page of a lesson gets a note, which is not shown; pages/static/machine.js reads it. What does
not run there stands in tab/runs.toml: a row has a reason in each language, and the numbers of the
blocks that it is about (without them: of all).
"""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tutorials.publish.notebooks import lessons

RUNS = Path(__file__).with_name("tab") / "runs.toml"
SCRIPT = "machine.js"


def note(path: str, language: str) -> str:
    """Return what the text at `path` gets at its end; "" if it is no lesson."""
    found = re.fullmatch(rf"tutorials/(.+)\.{language}\.md", path)
    if not found or found[1] not in lessons():
        return ""
    row = rows().get(found[1], {})
    machine = "../" * (path.count("/") + 1) + "tab/index.html"
    why = html.escape(str(row.get(language, "")))
    without = json.dumps(row.get("blocks", []))
    return (
        f'\n\n<div id="in-tab" data-machine="{machine}" data-why="{why}" '
        f'data-without="{without}" hidden></div>\n'
    )


def rows() -> dict[str, dict[str, Any]]:
    """Return what is known of the lessons in the tab: name → row."""
    if not RUNS.exists():
        return {}
    found: dict[str, dict[str, Any]] = tomllib.loads(RUNS.read_text(encoding="utf-8"))["lessons"]
    return found
