"""What a lesson ships beside its notebook: a JSON file of minirun/faces/recordings/lessons.

    {"system": "Debian GNU/Linux 12, Linux 6.1.0",             where its blocks were run
     "blocks": [{"commands": "ls\\n", "said": "a  b\\n"}, …],    each block, what it printed, and
                                           "answers": the number of the question that it answers
     "questions": [{"en": {"question": "…", "choices": ["`5`: …", …], "why": "…"}, "ko": {…}}, …]}

The reasons are here and not in the notebook, whose text a learner reads before the answer.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from minirun.core.errors import UsageError

FOLDER = Path(__file__).parents[2] / "recordings" / "lessons"
_KEY = re.compile(r"`([^`]+)`")
_MARKED = re.compile(r"`([^`]+)`|\*\*?([^*\s](?:[^*]*[^*\s])?)\*\*?")
"""Markdown's code, and its emphasis: a `*` in code is the shell's."""


@dataclass(frozen=True)
class Question:
    """A question, its choices, and why the right one is right."""

    question: str
    choices: tuple[str, ...]
    why: str

    def chosen(self, key: str) -> str:
        """Return the choice with this key; the key itself if no choice has it."""
        return next((choice for choice in self.choices if key_of(choice) == key), key)


@dataclass(frozen=True)
class Text:
    """What a lesson ships, in one language."""

    system: str
    """Where its blocks were run: a distribution and a kernel."""
    said: dict[str, str]
    """A block's commands → what they printed."""
    happened: dict[int, str]
    """The number of a question → the key of what happened when it was recorded."""
    questions: tuple[Question, ...]


def key_of(choice: str) -> str:
    """Return what a look prints if this choice is right: its first code span, or all of it."""
    found = _KEY.search(choice)
    return found[1] if found else choice


def plain(markdown: str) -> str:
    """Return a text without the marks of code and emphasis: for buttons and verdicts."""
    return _MARKED.sub(lambda found: found[1] or found[2], markdown)


def last_line(said: str) -> str:
    """Return what a look has found: the last line that it printed."""
    return (said.strip().splitlines() or [""])[-1].strip()


def names() -> list[str]:
    """Return the names of all lessons, in their order."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str, language: str) -> Text:
    """Return what the lesson of this name ships. Raises UsageError for a name that is none."""
    if name not in names():
        raise UsageError(f"unknown lesson {name!r} ({', '.join(names())})")
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    asked = [each[language] for each in found["questions"]]
    return Text(
        found["system"],
        {block["commands"].strip(): block["said"] for block in found["blocks"]},
        {b["answers"]: last_line(b["said"]) for b in found["blocks"] if "answers" in b},
        tuple(Question(q["question"], tuple(q["choices"]), q["why"]) for q in asked),
    )
