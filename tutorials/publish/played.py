"""A lesson's notebook as a page: played from its recording, each cell with what it shows.

It is played as a user without privileges, as most readers would: the outputs are the recorded ones,
and the same on every machine.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from minirun.core.lazy import lazy
from tutorials.publish import play
from tutorials.publish.notebooks import ROOT

with lazy:
    import nbformat

_NOBODY = 65534
AS_NOBODY = [
    "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search",
]  # fmt: skip
"""setpriv(1): user nobody, who may read a clone that lies below /root, and nothing more."""


def pages(names: list[str], language: str) -> list[str]:
    """Return notebooks as Markdown. Raises CalledProcessError; ValueError if a cell fails."""
    files = [ROOT / "notebooks" / language / f"{name}.ipynb" for name in names]
    return ["\n\n".join(map(_cell, played.cells)) + "\n" for played in _play(files)]


def _play(files: list[Path]) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="minirun-site.") as home:
        who: list[str] = []
        if os.geteuid() == 0:
            os.chown(home, _NOBODY, _NOBODY)
            who = AS_NOBODY
        env = {"HOME": home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
               "MINIRUN_ROOT": f"{home}/root", "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        done = subprocess.run(
            [*who, sys.executable, "-m", play.__name__], env=env, cwd=home, text=True,
            input="".join(play.Request(str(file), home, env).line() for file in files),
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if failed := [answer for answer in answers if isinstance(answer, str)]:
        raise ValueError("\n".join(failed))
    return [nbformat.from_dict(answer) for answer in answers]


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    kind = "shell" if cell.source.startswith("%%") else "python"
    parts = [_fenced(cell.source, kind), *(_output(output) for output in cell.outputs)]
    return "\n\n".join(filter(None, parts))


def _output(output: Any) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        html = str(data["text/html"])
        return _fenced(f'<div class="shown">{html}</div>', "{raw} html")
    text = str(output.get("text") or data.get("text/plain") or "")
    return _fenced(text, "text") if text.strip() else ""


def _fenced(text: str, info: str) -> str:
    """Return a block whose fence is longer than any in the text."""
    longest = max([2, *(len(ticks) for ticks in re.findall("`+", text))])
    fence = "`" * (longest + 1)
    return f"{fence}{info}\n{text.rstrip()}\n{fence}"
