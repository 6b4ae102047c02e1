"""Predict first, then see: a question with choices, and its check against what happened.

What is true is never written down beside the question: the lesson reads it from the kernel, or from
the events, and hands it to check(). In a notebook each choice is a button (needs anywidget);
anywhere else the answer is the number of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from minirun.core.lazy import lazy
from minirun.faces.api import mime
from minirun.faces.api.table import Shown
from minirun.faces.knowledge import texts

with lazy:
    from minirun.faces.api import buttons

_BORDER = {True: "#2e8540", False: "#a86500", None: "#6b7280"}
_WORDS = {True: "right", False: "wrong", None: "none"}
"""What a verdict is called in lessons.toml."""


@dataclass(eq=False, repr=False)
class Verdict(Shown):
    """What came of a prediction. `right` is None if none was made."""

    right: bool | None
    happened: str
    why: str
    language: str = texts.ENGLISH
    differs: bool = False
    """True if something else happened when the lesson was recorded: then there is no verdict."""

    @property
    def word(self) -> str:
        """The verdict in words."""
        word = "differs" if self.differs else _WORDS[self.right]
        return texts.lesson(word, self.language)

    def __str__(self) -> str:
        head = f"{self.word}: {self.happened}"
        return f"{head}\n{self.why}" if self.why else head

    def _repr_html_(self) -> str:
        style = f"border-left:4px solid {_BORDER[self.right]};padding:2px 12px;margin:4px 0"
        style += ";word-break:keep-all"  # Korean is broken between words
        why = f"<br>{escape(self.why)}" if self.why else ""
        happened = f"<b>{escape(self.word)}</b>: {escape(self.happened)}"
        return f'<div style="{style}">{happened}{why}</div>'


class Prediction(Shown):
    """A question, and what the learner believes."""

    def __init__(
        self,
        question: str,
        choices: Sequence[object],
        answer: int | None,
        language: str = texts.ENGLISH,
    ) -> None:
        self.question = question
        self.choices = tuple(map(str, choices))
        if len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError("a prediction needs two choices or more, all different")
        if answer is not None and answer not in range(1, len(self.choices) + 1):
            raise ValueError(f"answer {answer!r} is none of 1 to {len(self.choices)}")
        self._answer = answer
        self.language = language
        self._widget: Any = None

    @property
    def answer(self) -> int | None:
        """The number of the choice, from 1 on; None until one was chosen."""
        return (self._widget.answer or None) if self._widget else self._answer

    def check(self, happened: object, why: str = "") -> Verdict:
        """Compare the prediction with what happened: the text of a choice, or a value like it.

        If what happened is none of the choices it says so, and no answer is right. `why` is shown
        with the verdict.
        """
        truth = str(happened)
        if self._widget:
            self._widget.checked = self.answer is not None
        if truth not in self.choices:
            said = texts.lesson("stranger", self.language).format(happened=truth)
            return Verdict(False if self.answer else None, said, why, self.language)
        right = None if self.answer is None else self.choices[self.answer - 1] == truth
        return Verdict(right, truth, why, self.language)

    def __str__(self) -> str:
        numbered = enumerate(self.choices, 1)
        rows = [f"{'>' if n == self.answer else ' '} {n}  {text}" for n, text in numbered]
        return "\n".join([self.question, *rows])

    def _repr_html_(self) -> str:
        yours = escape(texts.lesson("yours", self.language))
        rows = "".join(
            f"<li>{'<b>' if n == self.answer else ''}{escape(text)}"
            f"{f'</b> {yours}' if n == self.answer else ''}</li>"
            for n, text in enumerate(self.choices, 1)
        )
        return f'<p>{escape(self.question)}</p><ol style="margin:0 0 0 2em">{rows}</ol>'

    def _repr_mimebundle_(self, **kinds: Any) -> dict[str, Any]:
        """Return the text; in a notebook that has anywidget, the buttons too."""
        if not self._widget and mime.can_show_widgets():
            self._widget = buttons.ChoiceButtons(
                question=self.question, choices=list(self.choices), answer=self._answer or 0
            )
        return mime.bundle(self._widget, str(self), self._repr_html_())


def predict(question: str, choices: Sequence[object], answer: int | None = None) -> Prediction:
    """Ask a question, with a button for each choice.

    `answer`: the number of the choice that the learner believes in, if there are no buttons.

    Raises ValueError for an answer that is no choice.
    """
    return Prediction(question, choices, answer)
