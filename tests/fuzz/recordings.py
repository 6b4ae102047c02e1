"""Broken and hostile recordings, played by every command that reads one."""

import json
import random
from pathlib import Path
from typing import Any

from fuzz import mutate
from fuzz.cage import Cage
from fuzz.configurations import Case

VIEWS = (
    ("timeline", "FILE"), ("timeline", "--text", "FILE"), ("timeline", "--plain", "FILE"),
    ("timeline", "--html", "-", "FILE"), ("timeline", "--trace", "-", "FILE"),
    ("timeline", "--level", "syscalls", "FILE"), ("replay", "--speed", "0", "FILE"),
    ("replay", "--speed", "0", "--plain", "FILE"), ("diff", "FILE"), ("diff", "--json", "FILE"),
    ("diff", "--files", "--stage", "5", "FILE"),
)  # fmt: skip


def run(cage: Cage, seed: int, lines: list[str]) -> Case:
    """Play a mutated copy of the recording `lines` with one of the views."""
    dice = random.Random(seed)
    said, data = mutated(dice, lines, cage.decoy.path)
    path = cage.folder / "recording.jsonl"
    path.write_bytes(data)
    view = VIEWS[seed % len(VIEWS)]
    words = [str(path) if word == "FILE" else word for word in view]
    outcome = cage.run(*words, seconds=30)
    faults = cage.faults(outcome)
    if any((ord(s) < 32 and s not in "\n\t") or ord(s) == 127 for s in outcome.stdout):
        faults.append("control characters on stdout")
    path.unlink()
    return Case(f"{' '.join(view)}: {said}", outcome, faults)


def mutated(dice: random.Random, lines: list[str], decoy: Path) -> tuple[str, bytes]:
    """Return what was done to the recording, and its bytes."""
    kind = dice.random()
    if kind < 0.15:
        change = dice.choice(mutate.TEXT_CHANGES)
        return change.__name__, change(dice, "\n".join(lines))
    if kind < 0.25:
        name, text = dice.choice(list(_WHOLE.items()))
        return name, text(lines)
    said, told = [], list(lines)
    for _ in range(dice.choice((1, 3, 10))):
        at = dice.randrange(len(told))
        wrapped: dict[str, Any] = {"x": json.loads(lines[dice.randrange(len(lines))])}
        said.append(mutate.change(dice, wrapped, decoy, known=False))
        told[at] = mutate.dump(wrapped.get("x", wrapped))
    return "; ".join(said), "\n".join(told).encode(errors="surrogatepass")


def _many(lines: list[str]) -> bytes:
    """Thousands of containers, each with one event."""
    event = json.loads(lines[0])
    return "\n".join(json.dumps(event | {"id": f"c{n}"}) for n in range(5000)).encode()


def _births(lines: list[str]) -> bytes:
    """Each of many clones makes the process that all events are of."""
    event = json.loads(lines[0]) | {"kind": "syscall", "name": "clone3", "ret": 7, "pid": 6}
    return "\n".join(json.dumps(event) for _ in range(20_000)).encode()


def _escapes(lines: list[str]) -> bytes:
    sign = "\x1b]0;x\x07\x1b[2J\x9b31m\r\u202e<script>alert(1)</script>"
    return "\n".join(
        json.dumps(
            {k: v + sign if isinstance(v, str) and k != "kind" else v for k, v in event.items()}
            | {"args": {f"path{sign}": sign, "source": [sign]}}
        )
        for event in map(json.loads, lines)
    ).encode()


_WHOLE = {
    "many containers": _many,
    "many births": _births,
    "escapes": _escapes,
    "backwards": lambda lines: "\n".join(reversed(lines)).encode(),
    "many times": lambda lines: "\n".join(lines * 40).encode(),
    "zeros": lambda lines: bytes(1 << 20),
    "one long line": lambda lines: b'{"t":' + b"1" * 1_000_000 + b"}",
    "long name": lambda lines: json.dumps(json.loads(lines[0]) | {"name": "n" * 10**6}).encode(),
    "deep": lambda lines: (lines[0][:-1] + ',"args":' + '{"a":' * 900 + "1" + "}" * 901).encode(),
    "far times": lambda lines: "\n".join(
        json.dumps(json.loads(line) | {"t": 10 ** (n % 40), "dur": -(10 ** (n % 30))})
        for n, line in enumerate(lines)
    ).encode(),
}
