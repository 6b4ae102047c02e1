"""From a flag's words to its value: sizes, times, signals, variables, labels, filters.

All raise UsageError, which names the flag and how it is to be written.
"""

from __future__ import annotations

import os

from minirun.common.quantities import nanoseconds
from minirun.core.config import ANNOTATION, LOG
from minirun.core.errors import UsageError, reason
from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.kernel import signals
from minirun.core.lazy import lazy

with lazy:
    from minirun.running import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from minirun.cli.run.run_flags import ConfigFlags
    from minirun.image.store import Image
    from minirun.oci.run_config import RunOptions
    from minirun.running.output import OutputLimits

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_ID_MAX = 1 << 32
_SIGNALS: dict[str, int] = {
    name[3:]: number for name, number in vars(signals).items()
    if name.startswith("SIG") and not name.startswith("SIG_")
}  # fmt: skip
"""Name without SIG → number."""


def add(run: RunOptions, flags: ConfigFlags, image: Image) -> RunOptions:
    """Return the options with variables, id maps, annotations and labels."""
    annotations = tuple(_annotation(text) for text in flags.annotation)
    for key, _ in annotations:
        if key.startswith(ANNOTATION) and key != LOG:
            hint = "a flag of run says it, such as --gpu-driver"
            raise UsageError(f"--annotation {key}: minirun obeys none of its own but {LOG}", hint)
    return run._replace(
        env=(*run.env, *variables([*lines_of("--env-file", flags.env_file), *flags.env])),
        uid_maps=tuple(_id_map(text, "--uidmap") for text in flags.uidmap),
        gid_maps=tuple(_id_map(text, "--gidmap") for text in flags.gidmap),
        annotations=annotations,
        labels=run.labels | labels(flags.label, flags.label_file),
    )


def labels(texts: list[str], files: list[str]) -> dict[str, str]:
    """Return what --label and --label-file say: NAME=VALUE, or NAME. Raises UsageError."""
    found = {}
    for text in [*lines_of("--label-file", files), *texts]:
        name, _, value = text.partition("=")
        if not name:
            raise UsageError(f"invalid --label {text!r}", "--label NAME=VALUE")
        found[name] = value
    return found


def filters(
    texts: Iterable[str], known: tuple[str, ...], flag: str = "--filter"
) -> dict[str, list[str]]:
    """Return what --filter NAME=VALUE says: name → values.

    Raises UsageError: 125 for a form, 1 for a name, as docker has it.
    """
    found: dict[str, list[str]] = {}
    hint = f"one of {', '.join(known)}"
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not equals:
            raise UsageError(f"invalid {flag} {text!r}: not NAME=VALUE", hint, 125)
        if name not in known:
            raise UsageError(f"invalid {flag} {text!r}: no such filter", hint, 1)
        found.setdefault(name, []).append(value)
    return found


def dangling(wanted: dict[str, list[str]]) -> set[bool]:
    """Return what the filter dangling lets through: True for what no container has, False for the
    others; empty if there is no such filter. Raises UsageError.
    """
    values, truth = wanted.get("dangling", []), ("true", "1")
    for value in values:
        if value not in (*truth, "false", "0"):
            raise UsageError(f"invalid --filter 'dangling={value}'", "true or false", 1)
    return {value in truth for value in values}


def has_labels(labels: dict[str, str], wanted: Iterable[str]) -> bool:
    """Return True if each of KEY and KEY=VALUE is among the labels."""
    for text in wanted:
        key, equals, value = text.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def size(text: str) -> int:
    """Return a size in bytes, as docker reads it: 512m, 1.5g, "1 GiB", 65536. Raises UsageError."""
    digits = text.rstrip("bBkKmMgGtTpPiI")
    unit = text[len(digits) :].lower().removesuffix("ib").removesuffix("b")
    before, _, part = digits.removesuffix(" ").partition(".")
    given = whole(before + part, 0, 10**20)
    if given is None or unit not in _UNITS:
        raise UsageError(f"invalid size: {text!r}", "bytes, or a number with b, k, m or g")
    scale: int = 10 ** len(part)
    number = given * _UNITS[unit] // scale
    if number > LARGEST:
        raise UsageError(f"invalid size: {text!r}", f"at most {LARGEST} bytes")
    return number


def variables(texts: list[str]) -> list[str]:
    """Return what -e asks for: NAME=VALUE as it is, NAME with the caller's value.

    Raises UsageError.
    """
    env = []
    for text in texts:
        name, equals, _ = text.partition("=")
        if not name:
            raise UsageError(f"invalid environment variable: {text!r}", "-e NAME=VALUE")
        if equals:
            env.append(text)
        elif name in os.environ:
            env.append(f"{name}={os.environ[name]}")
    return env


def lines_of(flag: str, paths: list[str]) -> list[str]:
    """Return the lines of --env-file or --label-file. A line that begins with # is a comment.

    As with docker a value is all behind the =, quotes and spaces too. Raises UsageError.
    """
    found = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                text = file.read().removeprefix(b"\xef\xbb\xbf").decode()
        except OSError as error:
            what = reason(error)
            raise UsageError(f"{flag} {path}: {what}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{flag} {path}: it is not UTF-8") from None
        for number, line in enumerate(text.split("\n"), 1):
            line = line.removesuffix("\r").lstrip(" \t")
            name = line.partition("=")[0]
            if not line or line.startswith("#"):
                continue
            if not name or " " in name or "\t" in name or "\0" in line:
                kind = "variable" if flag == "--env-file" else "label"
                text = f"{flag} {path}: line {number}: no name of a {kind}: {name!r}"
                raise UsageError(text, "NAME=VALUE, NAME, or # and a comment")
            found.append(line)
    return found


def duration(text: str) -> float:
    """Return the seconds of --interval: 5s, 1m30s, 250ms. Raises UsageError."""
    length = nanoseconds(text)
    if length is None:
        raise UsageError(f"invalid --interval {text!r}", "such as 5s, 500ms or 1m30s", 1)
    if length <= 0:
        raise UsageError("duration interval must be greater than 0", "such as 5s", 1)
    return length / 1e9


def signal_number(text: str) -> int:
    """Return 15 for TERM, SIGTERM, sigterm and 15; 37 for SIGRTMIN+3. Raises UsageError."""
    name = text.upper().removeprefix("SIG")
    base, sign, step = name[:5], name[5:6], name[6:]
    if name in _SIGNALS:
        return _SIGNALS[name]
    steps = whole(step, 0, 15) if len(step) < 3 else None
    number = whole(text, 0, 64) if len(text) < 3 else None
    if (base, sign) in (("RTMIN", "+"), ("RTMAX", "-")) and steps is not None:
        return _SIGNALS[base] + (steps if sign == "+" else -steps)
    if number is None:
        raise UsageError(f"unknown signal {text!r}", "a name such as TERM, or a number", status=1)
    return number


def log_limits(words: list[str]) -> OutputLimits:
    """Return what the words of --log-opt say: max-size=10m, max-file=3. Raises UsageError."""
    found = output.OutputLimits()
    for word in words:
        key, _, value = word.partition("=")
        if key == "max-size":
            found = found._replace(max_size=-1 if value == "-1" else _log_size(value))
        elif key == "max-file":
            files = whole(value, 1, 1000)
            if files is None:
                raise UsageError(f"--log-opt max-file={value}: is no number from 1 to 1000")
            found = found._replace(max_file=files)
        else:
            raise UsageError(f"unknown --log-opt {word!r}", "max-size=SIZE or max-file=N")
    return found


def _log_size(text: str) -> int:
    try:
        bytes_ = size(text)
    except UsageError:
        bytes_ = 0
    if not bytes_:
        raise UsageError(f"--log-opt max-size={text}: is no size", "10m, or -1 for no limit")
    return bytes_


def _id_map(text: str, flag: str) -> tuple[int, int, int]:
    """Return (container id, host id, size) of --uidmap."""
    numbers = [number for part in text.split(":") if (number := whole(part)) is not None]
    if len(numbers) != 3 or text.count(":") != 2:
        raise UsageError(f"invalid {flag} {text!r}", f"{flag} CONTAINER_ID:HOST_ID:SIZE")
    inside, outside, count = numbers
    if not count or inside + count > _ID_MAX or outside + count > _ID_MAX:
        raise UsageError(f"invalid {flag} {text!r}", "ids lie below 2^32, and SIZE above 0")
    return inside, outside, count


def _annotation(text: str) -> tuple[str, str]:
    """Return KEY and VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"invalid --annotation {text!r}", "--annotation KEY=VALUE")
    return key, value
