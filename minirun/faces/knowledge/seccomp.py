"""The default profile of system calls, group by group: its calls, its answer, and why.

Calls and English reasons stand in the profile itself (minirun/oci/seccomp/default.json): a comment
is the group's name and the reason. What is said of them, and the reasons in other languages
(titles), is in seccomp.toml, in forms with {placeholders}.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from minirun.faces.knowledge.texts import ENGLISH, Topic, room, table

_PROFILE = Path(__file__).parents[2] / "oci/seccomp/default.json"
"""Read as a file: the package that it lies in needs Linux."""


@cache
def rows() -> list[tuple[str, str, dict[str, Any]]]:
    """Return (name, why, entry) of each entry of the profile that has a comment."""
    entries = json.loads(_PROFILE.read_text())["syscalls"]
    return [(*row["comment"].split(": ", 1), row) for row in entries if "comment" in row]


def _answer(row: dict[str, Any]) -> str:
    """Return which form of seccomp.toml an entry has."""
    if "caps" in row.get("includes", ()):
        return "capable"
    if row["action"] == "SCMP_ACT_ALLOW":
        return "allowed"
    return "refused" if row["errnoRet"] == 1 else "unknown"


@cache
def groups(language: str = ENGLISH) -> dict[Topic, tuple[str, ...]]:
    """Return each group of the profile as a topic, with its calls."""
    forms, titles = room("seccomp", language), table("seccomp", language).get("titles", {})
    found = {}
    families = []
    for name, why, row in rows():
        title = titles.get(name, why)
        if "args" in row:
            families.append(f"{name} = {title}")
            continue
        named = replace(forms[_answer(row)], name=f"seccomp {name}", title=title)
        flag, calls = name.removeprefix("CAP_"), tuple(row["names"])
        found[_filled(named, name=name, flag=flag, calls=" ".join(calls))] = calls
    for call in ("socket", "personality"):
        form = forms[f"seccomp {call}"]
        found[_filled(form, families="; ".join(families))] = (call,)
    return found


def _filled(form: Topic, **values: str) -> Topic:
    return replace(form, here=form.here.format(**values), advice=form.advice.format(**values))
