"""JSON as it may be printed on a terminal: core/visible does the same for text."""


def clean_json(text: str) -> str:
    r"""Return indented JSON that a terminal does not obey: \u009b, say, for that control.

    JSON itself has to escape only what is below 0x20 (RFC 8259, section 7); all others stand in its
    strings alone, where an escape means the same.
    """
    return "\n".join(map(_clean_json_line, text.split("\n")))


def _clean_json_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(sign if sign.isprintable() else _in_json(sign) for sign in line)


def _in_json(sign: str) -> str:
    """Return JSON's escape, a pair of surrogates above U+FFFF."""
    number = ord(sign)
    if number < 0x10000:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
