"""Which events `timeline` and `replay` show: --stage 4,5, and --filter name=mount.

    --filter actor=init  --filter kind=syscall  --filter 'name=m*'  --filter 'errno=?*'
    --filter 'path=/dev/nvidia*'

The right side is a pattern of the shell: fnmatch(3). Of several with one key one has to fit, of
several keys all have to, as with docker's --filter.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase

from minirun.core.errors import UsageError
from minirun.faces.show.log.event import Event

_KEYS: dict[str, Callable[[Event], str]] = {
    "actor": lambda event: event.actor,
    "kind": lambda event: event.kind,
    "name": lambda event: event.name,
    "errno": lambda event: event.errno or "",
    "path": lambda event: str(event.args.get("path") or event.args.get("target") or ""),
}


def wanted(stages: str, filters: list[str]) -> Callable[[Event], bool]:
    """Return what says of an event whether it is shown. Raises UsageError.

    `stages`: numbers with commas between them, "" for all; `filters`: as KEY=PATTERN.
    """
    numbers = [word.strip() for word in stages.split(",")] if stages else []
    if any(word not in list("1234567") for word in numbers):
        raise UsageError(f"invalid --stage {stages!r}", "1 to 7, or several: 4,5", status=1)
    patterns: dict[str, list[str]] = {}
    for each in filters:
        key, equals, pattern = each.partition("=")
        if key not in _KEYS or not equals:
            hint = f"KEY=PATTERN, with one of {', '.join(_KEYS)}"
            raise UsageError(f"invalid --filter {each!r}", hint, status=1)
        patterns.setdefault(key, []).append(pattern)

    def is_wanted(event: Event) -> bool:
        if numbers and str(event.stage) not in numbers:
            return False
        values = ((_KEYS[key](event), some) for key, some in patterns.items())
        return all(any(fnmatchcase(value, one) for one in some) for value, some in values)

    return is_wanted
