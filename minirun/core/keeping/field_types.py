"""What each type of a field in state.json has to be, so that a command may act on it.

A value that fails is one that minirun has not written, or that was damaged since.
"""

from __future__ import annotations

from minirun.core.keeping.numbers import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    Test = tuple[Callable[[Any], bool], str]
    """Returns True for a right value; what it is to be."""

STATUSES = ("creating", "created", "running", "stopped", "paused")
_OR_NONE = " | None"
_DEEPEST = 32
_LARGEST = 1 << 64
"""What the runtime-spec has the largest numbers for: uint64."""
_MOST_PIDS = 1 << 22
"""The kernel's limit for /proc/sys/kernel/pid_max: proc_sys_kernel(5)."""


def checked(
    value: dict[str, Any], types: dict[str, str], defaults: Container[str],
    tests: dict[str, Test],
) -> dict[str, Any]:  # fmt: skip
    """Return those of the fields in `types` (name → type) that are set in a JSON object.

    null is as good as missing if there is a default. Raises ValueError for a field that is wrong.
    """
    found = {}
    for name, kind in types.items():
        field = value.get(name)
        if field is None and name in defaults:
            continue
        if name not in value:
            raise ValueError(f"{name} is missing")
        if field is not None or not kind.endswith(_OR_NONE):
            is_right, what = tests[kind.removesuffix(_OR_NONE)]
            if not is_right(field):
                raise ValueError(f"{name} is not {what}")
        found[name] = field
    return found


def check_plain(value: Any, left: int = _DEEPEST) -> None:
    """Raise ValueError for what could not be written again, or be part of a path.

    `left` is how many levels deep it may be.
    """
    if not left:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a text in it holds a NUL")
        if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
            raise ValueError("a text in it is not UTF-8")
    elif isinstance(value, dict):
        for key, inner in value.items():
            check_plain(key, left)
            check_plain(inner, left - 1)
    elif isinstance(value, list):
        for inner in value:
            check_plain(inner, left - 1)
    elif isinstance(value, (int, float)) and not -_LARGEST < value < _LARGEST:
        raise ValueError("a number in it is too large")


def _is(*kinds: type) -> Callable[[Any], bool]:
    """Return a check that a value is of one of these types, and of no class below them."""
    return lambda value: type(value) in kinds


def texts(value: Any) -> bool:
    """Return True for a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _named_texts(value: Any) -> bool:
    """Return True for a dictionary whose values are texts."""
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_pid(value: Any) -> bool:
    """Return True if this may be a process's number; 0 for none."""
    return type(value) is int and 0 <= value <= _MOST_PIDS


def _is_process(value: Any) -> bool:
    """Return True if this is what minirun.core.keeping.state.identity returns."""
    if not isinstance(value, dict) or not {"pid", "start", "boot"} <= value.keys():
        return False
    pid, start = value["pid"], value["start"]
    return _is_pid(pid) and pid > 0 and type(start) is int and isinstance(value["boot"], str)


def _is_mount(value: Any) -> bool:
    """Return True if this is what minirun.oci.mounts.host_namespace notes."""
    if not isinstance(value, dict) or value.keys() != {"id", "directory", "boot"}:
        return False
    numbers = value["directory"]
    if not isinstance(numbers, list) or len(numbers) != 2 or not isinstance(value["boot"], str):
        return False
    return all(type(number) is int and number >= 0 for number in (value["id"], *numbers))


def _is_cgroup(value: Any) -> bool:
    """Return True if this is what minirun.cgroups.Cgroup.record returns.

    Each directory ends with the cgroup's path, and is not the top of a hierarchy.
    """
    if not isinstance(value, dict) or not {"version", "path", "dirs"} <= value.keys():
        return False
    version, path, dirs = value["version"], value["path"], value["dirs"]
    if type(version) is not int or version not in (0, 1, 2) or not _is_path(path):
        return False
    if not _named_texts(dirs) or not all(_is_path(d) and d.endswith(path) for d in dirs.values()):
        return False
    if version == 0:
        return isinstance(value.get("reason"), str)
    if "scope" in value and not _has_scope(value):
        return False
    return set(dirs) == {""} if version == 2 else bool(dirs) and "" not in dirs


def _has_scope(value: dict[str, Any]) -> bool:
    texts = isinstance(value["scope"], str) and isinstance(value.get("slice"), str)
    return texts and value["path"].endswith(f"/{value['scope']}")


def _is_path(value: Any) -> bool:
    """Return True if this is an absolute path below the root, without any detour."""
    if not isinstance(value, str) or value[:1] != "/":
        return False
    return not {"", ".", ".."} & set(value[1:].split("/"))


def _is_time(value: Any) -> bool:
    """Return True if this is a time as minirun.core.keeping.state.timestamp writes it."""
    if not isinstance(value, str) or len(value) < 20 or not value.isascii():
        return False
    marks = value[4] + value[7] + value[10] + value[13] + value[16]
    numbers = (value[:4], value[5:7], value[8:10], value[11:13], value[14:16], value[17:19])
    read = [number for text in numbers if (number := whole(text)) is not None]
    if marks != "--T::" or len(read) != 6:
        return False
    year, month, day, hour, minute, second = read
    return (
        year > 0 and 1 <= month <= 12 and 1 <= day <= _days(year, month)
        and hour < 24 and minute < 60 and second < 60
    )  # fmt: skip


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


TESTS: dict[str, Test] = {
    "str": (_is(str), "a text"), "int": (_is(int), "a whole number"),
    "bool": (_is(bool), "true or false"),
    "Switch": (_is(bool, str), "true or false"),
    "list[str]": (texts, "a list of texts"),
    "dict[str, str]": (_named_texts, "an object of texts"),
    "dict[str, Any]": (_is(dict), "an object"), "Choices": (_is(dict), "an object"),
    "tuple[str, ...]": (texts, "a list of texts"),
    "Status": (lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    "Pid": (_is_pid, "a process"), "ProcessIdentity": (_is_process, "a process"),
    "Time": (_is_time, "a time"), "CgroupRecord": (_is_cgroup, "a cgroup"),
    "HostMountRecord": (_is_mount, "a mount"),
    "CgroupVersion": (lambda value: value in ("auto", "v1", "v2"), "auto, v1 or v2"),
    "ExitStatus": (lambda value: type(value) is int and 0 <= value < 256, "an exit status"),
}  # fmt: skip
"""Type of a field, as its class writes it → a test of a value, what it is to be."""
