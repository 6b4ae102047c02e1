"""Runs the shell blocks of a Markdown text, and compares what they print with what it promises.

```shell      commands, run by bash in one session for the whole text, in order; a command that
…             fails ends it, as `set -e` and `pipefail` have it; "shell answer": the last line
             that they print is the key of what happened (source.py)
```
```console    directly after it: what they print on both streams. A line that is only … stands
…             for any lines, … within a line for any characters; runs of blanks count as one
```
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DRIVER = """
set -eEuo pipefail
trap 'echo "$BASH_COMMAND" > "$notes/failed"' ERR
for number in $(seq "$count"); do
    { . "$notes/$number.sh"; } > "$notes/$number.out" 2>&1 < /dev/null
done
"""


class Block(NamedTuple):
    """Commands, and what they print; `line` is where they stand in the text."""

    line: int
    commands: str
    expected: str | None


def blocks(text: str) -> list[Block]:
    """Return the shell blocks of a text. Raises ValueError for a console block without one."""
    found: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        kind, body = fence.groups()
        if kind == "shell":
            found.append(Block(text.count("\n", 0, fence.start()) + 2, body, None))
        elif kind == "console":
            if not found or text[end : fence.start()].strip() or found[-1].expected is not None:
                raise ValueError(f"output without commands: {body[:40]!r}")
            found[-1] = found[-1]._replace(expected=body)
        end = fence.end()
    return found


def run(todo: list[Block], notes: Path, cwd: Path, env: dict[str, str]) -> list[str]:
    """Run the blocks in one session; return what each printed.

    Raises AssertionError with the block's line, the command and the output, where one fails.
    """
    for number, block in enumerate(todo, 1):
        (notes / f"{number}.sh").write_text(block.commands)
    values = env | {"notes": str(notes), "count": str(len(todo))}
    done = subprocess.run(["bash", "-c", _DRIVER], cwd=cwd, env=values, timeout=100, check=False)
    said = [path.read_text() if path.exists() else "" for path in _outputs(notes, len(todo))]
    if done.returncode:
        last = sum(path.exists() for path in _outputs(notes, len(todo))) - 1
        failed = notes / "failed"
        command = failed.read_text().strip() if failed.exists() else todo[last].commands
        where = f"line {todo[last].line}: exit status {done.returncode}"
        raise AssertionError(f"{where}: {command}\n{said[last]}")
    return said


def _outputs(notes: Path, count: int) -> list[Path]:
    return [notes / f"{number}.out" for number in range(1, count + 1)]


def matches(expected: str, said: str) -> bool:
    """Tell whether `said` is what the text promises."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(_one_blank(part)) for part in line.split("…")) + r"\n"
    said = said.replace("/sbin/ldconfig.real", "/sbin/ldconfig")  # Ubuntu's name of the program
    lines = "".join(f"{_one_blank(line.rstrip())}\n" for line in said.splitlines())
    return re.fullmatch(pattern, lines) is not None


def _one_blank(text: str) -> str:
    return re.sub(r"\s+", " ", text)
