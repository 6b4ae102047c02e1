"""Mutations of a configuration: one property, or its text, made wrong in one of many ways.

Everything comes from one random.Random: a case is its seed.
"""

import copy
import json
import random
from pathlib import Path
from typing import Any

from minirun.oci.validate import SHAPE


class Raw(str):
    """A text that stands in JSON as it is, without quotes."""


NUMBERS: tuple[Any, ...] = (
    -(2**63) - 1, -(2**63), -(2**31), -1, 0, 1, 7, 2**15, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 2,
    2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308,
    Raw("1e400"), Raw("-1e400"), Raw("1.0"), Raw("1e2"), Raw("-0"), Raw("9" * 5000), True, False,
)  # fmt: skip
NOT_JSON = tuple(map(Raw, ("NaN", "Infinity", "01", "0x10", "+1", ".5", "1.", "1_0", "'x'", "",
                           "tru", "\\u0031", "//x", "٣")))  # fmt: skip
TEXTS = (
    "", " ", "\t", "x", "X" * 300, "y" * 5000, "z" * 200_000, "a\0b", "\0", "a\nb", "\n",
    "a\x1b[31mb",
    "\x9b31m", "é", "日本", "\u202e", "\ud800", "a\udfffb", "..", ".", "/", "//", "/..", "../../..",
    "/../../../..", "/proc/self/fd/3", "/proc/self/exe", "/proc/1/root", "/dev/null", "/dev/stdin",
    "rootfs", "a/../../b", "a,b", "a:b", "a=b", "=b", "%s%n", "$(id)", "-1", "0", "4294967296",
    "18446744073709551616", "1e9", "1_0", " 1", "0x1", "rbind", "host", "SCMP_ACT_KILL", "none",
    "true", "/" + "n" * 255, "/" + "n" * 256, "/".join(["d"] * 2500), "/x" * 2500, "\\", "\\0", "'",
    '"', "*", "a" * 64, "a" * 65, "tmpfs", "cgroup", "overlay", "proc", "/proc", "/proc/self",
    "/sys",
    "/dev", "/dev/pts", "/dev/shm", "/bin/true", "/etc/passwd/x", "remount", "DECOY",
    "DECOY/secret",
    "DECOY/fifo", "DECOY/dev/null", "DECOY/socket", "DECOY/link", "../decoy", "../decoy/etc",
)  # fmt: skip
OTHERS: tuple[Any, ...] = ([], {}, [[]], [{}], {"": ""}, {"x": 1}, None, [None], [1, "a"], ["x"])
_KEPT = ("root.path", "process.args", "linux.cgroupsPath")
"""Not for the decoy's path: there it would be the user's word to change the decoy."""
Path_ = tuple[Any, ...]


def _walk(dice: random.Random, config: Any) -> Path_:
    """A path into a document: at each level any key may be next, so that no long list wins."""
    where: list[Any] = []
    value = config
    while True:
        keys = list(value) if isinstance(value, dict) else \
            list(range(len(value))) if isinstance(value, list) else []  # fmt: skip
        if not keys or (where and dice.random() < 0.12):
            return tuple(where)
        where.append(dice.choice(keys))
        value = value[where[-1]]


def mutated(seed: int, config: dict[str, Any], decoy: Path) -> tuple[str, bytes]:
    """Return what was done, and config.json's bytes."""
    dice = random.Random(seed)
    config = copy.deepcopy(config)
    said = []
    for _ in range(dice.choices((1, 2, 4), (80, 15, 5))[0]):
        said.append(change(dice, config, decoy))
    text = dump(config)
    if dice.random() < 0.12:
        whole = dice.choice(TEXT_CHANGES)
        return f"{'; '.join(said)}; {whole.__name__}", whole(dice, text)
    return "; ".join(said), text.encode(errors="surrogatepass")


def change(dice: random.Random, config: dict[str, Any], decoy: Path, *, known: bool = True) -> str:
    """Change one thing in a document; return what. `known`: it is a config.json."""
    if known and dice.random() < 0.15:
        _add_known(dice, config)
    where = _walk(dice, config)
    parent = config
    for key in where[:-1]:
        parent = parent[key]
    act = dice.choices(_CHANGES, _WEIGHTS)[0]
    name = ".".join(map(str, where))
    shown = act(dice, parent, where[-1], decoy, name)
    return f"{act.__name__[1:]} {name} {shown!r:.60}"


def _wild(dice: random.Random, decoy: Path, name: str) -> Any:
    kind = dice.random()
    if kind < 0.45:
        text = dice.choice(TEXTS)
        if "DECOY" in text or "decoy" in text:
            if name.startswith(_KEPT) or "destination" in name or "hooks" in name:
                return "DECOY/does/not/exist"
            text = text.replace("DECOY", str(decoy))
        return text
    if kind < 0.8:
        return dice.choice(NUMBERS)
    return dice.choice(NOT_JSON) if kind < 0.83 else copy.deepcopy(dice.choice(OTHERS))


def _replace(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    parent[key] = value = _wild(dice, decoy, name)
    return value


def _like(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    """Another value of the same type."""
    old = parent[key]
    if isinstance(old, str):
        parent[key] = dice.choice([t for t in TEXTS if "ecoy" not in t.lower()])
    elif isinstance(old, bool):
        parent[key] = not old
    elif isinstance(old, int):
        parent[key] = dice.choice([n for n in NUMBERS if type(n) is int])
    else:
        parent[key] = type(old)()
    return parent[key]


def _remove(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    del parent[key]
    return ""


def _infix(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    """Something in the midst of a text."""
    if isinstance(parent[key], str):
        at = dice.randint(0, len(parent[key]))
        bit = dice.choice(("\0", "\n", "/", "..", "\x1b", "é", "\ud800", " ", ",", ":", "=", "\\"))
        parent[key] = parent[key][:at] + bit + parent[key][at:]
    return parent[key]


def _twice(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    """An item of a list again, or very often."""
    if isinstance(parent, list):
        times = dice.choice((1, 1, 3, 100, 5000, 20000))
        parent.extend(copy.deepcopy(parent[key]) for _ in range(times))
        return times
    parent[f"{key}2"] = copy.deepcopy(parent[key])
    return ""


def _rename(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    if isinstance(parent, dict):
        new = dice.choice(
            (key.upper(), key + " ", "", "\0", key + "\n", "é", "x" * 10000, "\x1b[1m")
        )
        parent[new] = parent.pop(key)
        return new
    parent[key] = None
    return None


def _deep(dice: random.Random, parent: Any, key: Any, decoy: Path, name: str) -> object:
    depth = dice.choice((10, 70, 900, 5000, 100_000))
    opening, closing = dice.choice((("[", "]"), ('{"a":', "}")))
    parent[key] = Raw(opening * depth + "1" + closing * depth)
    return depth


def _add_known(dice: random.Random, config: dict[str, Any]) -> None:
    """A property that the shape knows, and that may be missing so far."""
    shape, place = SHAPE, config
    while isinstance(shape, dict):
        key = dice.choice(list(shape))
        name = "x" if key == "*" else key.removesuffix("!")
        shape = shape[key]
        if isinstance(shape, dict):
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                return
        else:
            place.setdefault(name, [] if isinstance(shape, list) else "x")
    if isinstance(shape, list) and isinstance(place.get(name), list):
        inner = shape[0]
        item: Any = "x"
        if isinstance(inner, dict):
            item = {k.removesuffix("!"): "x" if v in (str, bool) else 1 for k, v in inner.items()}
        place[name].append(item)


_CHANGES = (_replace, _like, _remove, _infix, _twice, _rename, _deep)
_WEIGHTS = (42, 22, 9, 10, 6, 6, 2)


def dump(value: Any) -> str:
    """Return JSON, with what is Raw as it is."""
    marks: list[str] = []

    def mark(item: Any) -> Any:
        if isinstance(item, Raw):
            marks.append(item)
            return f"@@{len(marks) - 1}@@"
        if isinstance(item, dict):
            return {key: mark(inner) for key, inner in item.items()}
        return [mark(inner) for inner in item] if isinstance(item, list) else item

    text = json.dumps(mark(value), ensure_ascii=False)
    text = text.replace("\ud800", "\\ud800").replace("\udfff", "\\udfff")
    for index, raw in enumerate(marks):
        text = text.replace(f'"@@{index}@@"', raw)
    return text


def _truncated(dice: random.Random, text: str) -> bytes:
    return text.encode()[: dice.randint(0, len(text))]


def _flipped(dice: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(dice.choice((1, 3, 30))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _other_encoding(dice: random.Random, text: str) -> bytes:
    name = dice.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037"))
    return text.encode(name)


def _trailing(dice: random.Random, text: str) -> bytes:
    return text.encode() + dice.choice((b"}", b"\0", b" {}", b"\n\n", b"\x0c", b"\xc2\xa0", b"//"))


def _leading(dice: random.Random, text: str) -> bytes:
    return (
        dice.choice((b"\0", b"\x0b", b"\xc2\xa0", b"\n" * 9999, b"[", b"\xff\xfe")) + text.encode()
    )


def _key_twice(dice: random.Random, text: str) -> bytes:
    key = dice.choice(("root", "linux", "process", "mounts", "hooks", "ociVersion"))
    value = dice.choice(("null", "{}", "[]", "1", '"x"'))
    return f'{text[:-1]}, "{key}": {value}}}'.encode()


def _whole(dice: random.Random, text: str) -> bytes:
    return dice.choice((b"", b" ", b"null", b"[]", b"{}", b'"x"', b"1", b"{" * 100_000,
                        b"[" * 100_000,
                        b'"' + b"x" * 10**6, b"\0" * 4096, b"{}" * 1000))  # fmt: skip


TEXT_CHANGES = (_truncated, _flipped, _other_encoding, _trailing, _leading, _key_twice, _whole)
