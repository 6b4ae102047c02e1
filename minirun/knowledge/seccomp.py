"""The default profile of system calls, group by group: its calls, its answer, and why.

Calls and English reasons stand in the profile itself (minirun.oci.seccomp.default). What is said of
them, and the reasons in other languages (titles), is in seccomp.toml, in forms with {placeholders}.
"""

from dataclasses import replace
from functools import cache

from minirun.knowledge.texts import ENGLISH, Topic, room, table
from minirun.oci.seccomp import default

_ANSWERS: dict[str, tuple[default.Group | default.Capable, ...]] = {
    "allowed": (*default.ALLOWED, default.ON_X86, default.ON_ARM),
    "capable": default.CAPABLE,
    "refused": default.REFUSED,
    "unknown": default.UNKNOWN,
}


@cache
def groups(language: str = ENGLISH) -> dict[Topic, tuple[str, ...]]:
    """Return each group of the profile as a topic, with its calls."""
    forms, titles = room("seccomp", language), table("seccomp", language).get("titles", {})
    found = {}
    for answer, rows in _ANSWERS.items():
        for row in rows:
            name = row.capability if isinstance(row, default.Capable) else row.name
            named = replace(forms[answer], name=f"seccomp {name}", title=titles.get(name, row.why))
            flag = name.removeprefix("CAP_")
            found[_filled(named, name=name, flag=flag, calls=row.calls)] = tuple(row.calls.split())
    families = "; ".join(
        f"{number} = {titles.get(str(number), what)}"
        for number, what in default.HOST_FAMILIES.items()
    )
    for call in ("socket", "personality"):
        found[_filled(forms[f"seccomp {call}"], families=families)] = (call,)
    return found


def _filled(form: Topic, **values: str) -> Topic:
    return replace(form, here=form.here.format(**values), advice=form.advice.format(**values))
