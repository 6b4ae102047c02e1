"""The texts of what minirun knows: one TOML file for each room and language, read when needed.

    en/mounts.toml    kind = "system call"        ko/mounts.toml    ["mount overlay"]
                      ["mount overlay"]                             title = "…"
                      title = "…"                                   here = "…"
                      here = "…"
                      man = "mount(2)"

The English file says which topics there are, and holds what every language shares: kind, man, spec,
marks, frame, inner and number; what stands above the first topic is true of all. A file of another
language holds texts alone. A line end in a text is a blank.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SYSTEM_CALL, MESSAGE, NOTE, GATE = "system call", "message", "note", "gate"
STAGE, ERRNO, ERROR, HINT = "stage", "errno", "error", "hint"
PROFILE, OWN, AROUND = "profile", "own", "around"
TEXTS = ("title", "here", "cause", "advice", "real")
"""The fields of a topic that are translated."""
ENGLISH = "en"
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Topic:
    """One thing that a learner may ask for. A text is plain, and empty if there is none."""

    name: str
    """As it stands in the log: a call ("mount", or with its kind "mount overlay"), ENOENT, …"""
    title: str = ""
    """What it is, in a few words."""
    here: str = ""
    """What it means in a minirun container."""
    cause: str = ""
    """Of an error: why it usually happens."""
    advice: str = ""
    """What to try, or what to look at."""
    man: str = ""
    """The manual page: "pivot_root(2), NOTES"."""
    spec: str = ""
    """The section of the OCI runtime-spec: "config-linux.md, Namespaces"."""
    real: str = ""
    """What runc or NVIDIA's stack does at this step, and where minirun differs."""
    kind: str = SYSTEM_CALL
    """One of the words above: system call, message, note, gate, stage, errno, error, …; around for
    the words around a cause, which stand around other causes too."""
    number: int = 0
    """Of an error number: its value in Linux."""
    marks: tuple[str, ...] = ()
    """Other words by which it is found, in lower case; in an error text, `*` is any text of a
    line."""
    frame: str = ""
    """Of an error text: a frame of frames.toml, the words that say which program speaks."""
    inner: tuple[str, ...] = ()
    """Marks that any program may print: they count only in the frame."""


@cache
def room(name: str, language: str = ENGLISH) -> dict[str, Topic]:
    """Return the topics of a file by their names, in its order. Raises FileNotFoundError."""
    english, own = table(name, ENGLISH), table(name, language)
    shared = {key: value for key, value in english.items() if isinstance(value, str)}
    return {
        key: Topic(key, **(shared | fields | own.get(key, {})))
        for key, fields in english.items()
        if key not in shared
    }


def table(name: str, language: str = "") -> dict[str, Any]:
    """Return a file as it is, each text on one line, each list a tuple; without a language, one
    that has nothing to translate."""
    with open(_FOLDER / language / f"{name}.toml", "rb") as file:
        found: dict[str, Any] = _joined(tomllib.load(file))
    return found


def _joined(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _joined(each) for key, each in value.items()}
    if isinstance(value, list):
        return tuple(value)
    return " ".join(value.split()) if isinstance(value, str) else value


@cache
def words(language: str = ENGLISH) -> dict[str, Any]:
    """Return the fixed words around the topics: headings, labels and forms with {placeholders}."""
    return table("words", language)


def lesson(name: str, language: str = ENGLISH) -> str:
    """Return what a lesson's notebook says of itself. Raises KeyError."""
    found: str = table("lessons", language)[name]["here"]
    return found


class Phrases:
    """The phrases of the HTML page (faces.show.page.html): page.toml translates the English ones.

    The names of stages are known too, as the log has them.
    """

    def __init__(self, language: str = ENGLISH) -> None:
        self.language = language
        self.known: dict[str, str] = {}
        if language != ENGLISH:
            stages = zip(room("stages").values(), room("stages", language).values(), strict=True)
            self.known = table("page", language) | {one.title: own.title for one, own in stages}

    def __call__(self, phrase: str, *values: object) -> str:
        """Return a phrase with its {} replaced by the values, in their order."""
        return self.known.get(phrase, phrase).format(*values)
