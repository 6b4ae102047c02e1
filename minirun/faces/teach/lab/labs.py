"""Which labs there are, in the order of the lessons, with their texts."""

from dataclasses import dataclass
from typing import Any

from minirun.core.errors import UsageError
from minirun.faces.knowledge.texts import ENGLISH, table

SOLVED = "solved"
_WORDS = "words"


@dataclass(frozen=True)
class LabFinding:
    """What a check can find, in words."""

    seen: str
    hint: str


@dataclass(frozen=True)
class LabTexts:
    """One lab's texts, in one language."""

    name: str
    number: int
    lesson: str
    """The lesson that it belongs to: 01-process."""
    title: str
    says: str
    """What is broken, and what has to hold in the end."""
    question: str
    choices: dict[str, str]
    """What may happen: a finding, or "solved" → in words."""
    findings: dict[str, LabFinding]
    """The first is what is found as long as nothing was mended."""
    why: str
    """What is learnt, once it is solved."""

    @property
    def broken(self) -> str:
        """The finding that is announced."""
        return next(iter(self.findings))


def labs(language: str = ENGLISH) -> list[LabTexts]:
    """Return all labs."""
    english, own = table("labs", ENGLISH), table("labs", language)
    names = [name for name in english if name != _WORDS]
    return [_lab(name, number, {**english[name], **own[name]})
            for number, name in enumerate(names, 1)]  # fmt: skip


def _lab(name: str, number: int, texts: dict[str, Any]) -> LabTexts:
    findings = {key: LabFinding(*both) for key, both in texts.pop("findings").items()}
    choices = list(texts.pop("choices").items())
    first = number % len(choices)  # or the first one would always be right
    turned = dict(choices[first:] + choices[:first])
    return LabTexts(name, number, findings=findings, choices=turned, **texts)


def find(text: str, language: str = ENGLISH) -> LabTexts:
    """Return the lab of this name, or number. Raises UsageError."""
    for one in labs(language):
        if text in (one.name, str(one.number)):
            return one
    raise UsageError(f"there is no lab {text!r}", "minirun lab list", status=1)


def words(language: str = ENGLISH) -> dict[str, str]:
    """Return the words around the labs."""
    found: dict[str, str] = table("labs", language)[_WORDS]
    return found
