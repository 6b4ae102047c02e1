"""A container's texts, as they may be printed: the one place where they are cleaned.

An image chooses its command, its name and its labels, a process its name: all bytes that a terminal
would obey. ESC ] 0 ; sets its title, ESC [ 2 J clears it, and what an operator then reads is the
container's (console_codes(4)); a newline adds a row to a table, U+202E turns a line around (Unicode
Standard Annex 9). So what is printed as text shows them, as Python's literals do. What the
container itself writes to its streams is passed on as it is, and JSON has escapes of its own.
"""


def clean(text: str) -> str:
    r"""Return a text without anything that a terminal obeys: \x1b for ESC, \n for a newline.

    Shown so is what is not printable in Unicode's sense (str.isprintable): controls, also those of
    0x80 to 0x9f, formatting such as U+202E, line separators, and bytes that are not UTF-8.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(sign: str) -> str:
    if sign.isprintable():
        return sign
    if "\udc80" <= sign <= "\udcff":  # a byte that was no UTF-8: os.fsdecode (PEP 383)
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode("ascii")
