"""Cleaning a container's texts before they are printed: no other module does it.

An image chooses its command, its name and its labels: bytes that a terminal would obey. ESC [ 2 J
clears it (console_codes(4)), a newline adds a row to a table, U+202E turns a line around (Unicode
Standard Annex 9). So what is printed as text shows them, as Python's literals do. What the
container itself writes to its streams is passed on as it is.
"""

import os


def clean(text: str, unicode: bool = True) -> str:
    r"""Return a text without anything that a terminal obeys: \x1b for ESC, \n for a newline.

    Shown so is what is not printable in Unicode's sense (str.isprintable): controls, also those of
    0x80 to 0x9f, formatting such as U+202E, line separators, and bytes that are not UTF-8. Without
    `unicode`, all that is not ASCII is shown so too.
    """
    if text.isprintable() and (unicode or text.isascii()):
        return text
    if not unicode:
        text = text.replace("µ", "u").replace("…", "...").replace("→", "->")
    return "".join(
        sign if sign.isprintable() and (unicode or sign.isascii()) else _shown(sign)
        for sign in text
    )


def _shown(sign: str) -> str:
    """Return an escape, as ascii() has it; of a byte that was no UTF-8 (PEP 383), the byte."""
    number = ord(sign)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else ascii(sign)[1:-1]


def say(text: str) -> None:
    """Print one line, cleaned, on standard error, with the program's name before it."""
    try:
        os.write(2, f"minirun: {clean(text)}\n".encode())
    except OSError:
        pass  # a broken stderr must not end what is being done


def warn(text: str) -> None:
    """Print a warning on standard error, in one line; cleaned."""
    say(f"warning: {text}")
