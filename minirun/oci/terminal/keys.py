"""The detach keys: typed one after the other, they leave a container running.

They are written as docker has it: ctrl-p,ctrl-q or a,b. A key of the sequence that may be its
beginning waits for the next one, so the command gets ctrl-p only then.
"""

from __future__ import annotations

from minirun.core.errors import UsageError

DEFAULT = b"\x10\x11"
"""ctrl-p, ctrl-q."""
_OTHERS = "@[\\]^_"
"""What ctrl- takes beside letters: ascii(7)."""


def parse(text: str) -> bytes:
    """Return the bytes of --detach-keys; docker's own without one. Raises UsageError."""
    if not text:
        return DEFAULT
    found = b""
    for word in text.split(","):
        name = word.removeprefix("ctrl-")
        is_key = len(name) == 1 and name.isascii() and name.isprintable()
        if not is_key or (name != word and not (name.isalpha() or name in _OTHERS)):
            raise UsageError(f"invalid --detach-keys {text!r}", "such as ctrl-p,ctrl-q or a,b")
        found += bytes((ord(name.upper()) & 0x1F,)) if name != word else name.encode()
    return found


class DetachKeys:
    """Looks for the keys in what is typed."""

    def __init__(self, sequence: bytes) -> None:
        self.sequence = sequence
        self.seen = 0
        """How many keys of the sequence have been typed last."""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what the command gets of the keys `data`, and True if the user leaves it."""
        passed = bytearray()
        for key in data:
            if key == self.sequence[self.seen]:
                self.seen += 1
                if self.seen == len(self.sequence):
                    return bytes(passed), True
                continue
            passed += self.sequence[: self.seen]
            self.seen = 1 if key == self.sequence[0] else 0
            if not self.seen:
                passed.append(key)
        return bytes(passed), False
