"""JSON as it may be printed on a terminal: core/keeping/visible does the same for text."""

from _json import encode_basestring_ascii


def clean_json(text: str) -> str:
    r"""Return indented JSON that a terminal does not obey: \u009b, say, for that control.

    JSON itself has to escape only what is below 0x20 (RFC 8259, section 7); all others stand in its
    strings alone, where an escape means the same.
    """
    return "".join(
        sign if sign.isprintable() or sign == "\n" else encode_basestring_ascii(sign)[1:-1]
        for sign in text
    )
