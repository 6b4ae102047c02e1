"""A lesson's Markdown, part by part: text, commands, what they print, questions and reasons.

> **Predict.** What will happen?        a question; each choice has a key, its first code span
>
> - `EPERM`: the rule is missing
> - `ENXIO`

```shell answer                          commands whose last line is the key of what happened
```console                               what they print
> **Why.** A node is only a name. …      the reason, directly after it

<!-- cell … -->                          Python that only the notebook has
<!-- skeleton 3 -->                      level 3's skeleton, in a cell of the notebook

In Korean the marks are 예측 and 왜.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from minirun.faces.api.course.text import key_of

QUESTION = ("Predict", "예측")
REASON = ("Why", "왜")
_PART = re.compile(
    r"^```(?P<kind>\w+)(?P<answer> answer)?\n(?P<body>.*?)^```$"
    r"|^<!-- cell\n(?P<cell>.*?)^-->$"
    r"|^<!-- skeleton (?P<level>\d) -->$"
    rf"|^> \*\*(?P<mark>{'|'.join(QUESTION + REASON)})\.\*\* (?P<quote>.*?)(?=^(?!>)|\Z)",
    re.MULTILINE | re.DOTALL,
)


class Part(NamedTuple):
    """A part: text, shell, answer, console, cell, skeleton, question or reason; and its text."""

    kind: str
    body: str


class Asked(NamedTuple):
    """A question, and its choices."""

    question: str
    choices: list[str]


def parts(markdown: str) -> Iterator[Part]:
    """Return the parts of a lesson in their order. Other fenced blocks belong to the text."""
    end = 0
    for found in _PART.finditer(markdown):
        if (part := _part(found)) is None:
            continue
        if text := markdown[end : found.start()].strip():
            yield Part("text", text)
        yield part
        end = found.end()
    if text := markdown[end:].strip():
        yield Part("text", text)


def _part(found: re.Match[str]) -> Part | None:
    if found["mark"]:
        quote = re.sub(r"^> ?", "", found["quote"], flags=re.MULTILINE).strip()
        return Part("question" if found["mark"] in QUESTION else "reason", quote)
    if found["cell"] is not None:
        return Part("cell", found["cell"].strip())
    if found["level"]:
        return Part("skeleton", found["level"])
    if found["kind"] in ("shell", "console"):
        return Part("answer" if found["answer"] else found["kind"], found["body"])
    return None


def asked(body: str) -> Asked:
    """Return the question and the choices of a question's text, each on one line."""
    question, *choices = re.split(r"^- ", body, flags=re.MULTILINE)
    return Asked(" ".join(question.split()), [" ".join(choice.split()) for choice in choices])


def keys(body: str) -> list[str]:
    """Return the keys of a question's choices: what its look may print."""
    return [key_of(choice) for choice in asked(body).choices]
