"""Whole numbers from a text: of a flag, of config.json, of an image, of a message.

int() reads more than is meant, "1_0", " 1" and "٣", and raises ValueError beyond 4300 digits
(CPython's sys.set_int_max_str_digits). str.isdigit() is no check before it: "²" is a digit, and
int("²") raises. What a flag says is saved, and has to be read again: so there is a limit.
"""

from __future__ import annotations

LARGEST = (1 << 63) - 1
"""Of a signed number of 64 bits: Go's int64, which docker and runc keep such numbers in."""
_DIGITS = 20


def whole(text: str, least: int = 0, most: int = LARGEST) -> int | None:
    """Return the number that `text` is; None if it is none, or not from `least` to `most`.

    Of ASCII digits, with a - in front if `least` is below 0.
    """
    digits = text.removeprefix("-") if least < 0 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > _DIGITS:
        return None
    number = int(digits.lstrip("0") or "0")
    number = -number if digits != text else number
    return number if least <= number <= most else None
