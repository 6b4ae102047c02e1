"""What --chmod says: a number in octal, or changes as chmod(1) has them: u+x,go-w,a=rX.

Without u, g, o or a a change is for all three, whatever the umask says: buildkit's fsutil/copy.
"""

import re
from collections.abc import Callable

from minirun.core.errors import ImageError
from minirun.core.keeping.numbers import whole

ModeChange = Callable[[int, bool], int]
"""Takes permission bits, and whether they are a directory's; returns the new ones."""
_CLAUSE = re.compile("([ugoa]*)((?:[-+=](?:[rwxXst]*|[ugo]))+)")
_ACTION = re.compile("([-+=])([ugo]|[rwxXst]*)")
_CLASSES = {"u": 0o4700, "g": 0o2070, "o": 0o1007, "a": 0o7777}
_BITS = {"r": 0o444, "w": 0o222, "x": 0o111, "s": 0o6000, "t": 0o1000}
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_SET_ID = 0o6000


def change_of(text: str) -> ModeChange:
    """Return what --chmod=`text` does. Raises ImageError."""
    if whole(text) is not None:
        mode = octal(text, "--chmod")
        return lambda _, is_directory: mode
    clauses = []
    for part in text.split(","):
        match = _CLAUSE.fullmatch(part)
        if not match:
            raise ImageError(f"--chmod={text:.40}: not a number from 0 to 7777, nor as in u+x,go-w")
        clauses.append((match[1] or "a", _ACTION.findall(match[2])))

    def change(mode: int, is_directory: bool) -> int:
        for classes, actions in clauses:
            for action, what in actions:
                mode = _changed(mode, is_directory, classes, action, what)
        return mode

    return change


def octal(text: str, name: str) -> int:
    """Return the permission bits that a flag or an option says, in octal. Raises ImageError."""
    if not text or text.strip("01234567") or len(text) > 5 or int(text, 8) > 0o7777:
        raise ImageError(f"{name}={text:.40}: not a number from 0 to 7777, in octal")
    return int(text, 8)


def _changed(mode: int, is_directory: bool, classes: str, action: str, what: str) -> int:
    """Return the bits after one action. A directory keeps s unless it is named, as with GNU's."""
    reach = 0
    for each in classes:
        reach |= _CLASSES[each]
    if is_directory and "s" not in what:
        reach &= ~_SET_ID
    value = reach & _value(mode, is_directory, what)
    if action == "+":
        return mode | value
    return mode & ~value if action == "-" else mode & ~reach | value


def _value(mode: int, is_directory: bool, what: str) -> int:
    """Return the bits that letters mean, for all classes."""
    if what in _SHIFTS and what:
        bits = mode >> _SHIFTS[what] & 7
        return bits << 6 | bits << 3 | bits
    found = 0
    for letter in what:
        if letter == "X":
            found |= 0o111 if is_directory or mode & 0o111 else 0
        else:
            found |= _BITS[letter]
    return found
