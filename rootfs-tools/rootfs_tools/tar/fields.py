"""The parts of a tar archive that all its readers need: numbers, exact reads, a member's content.

What stands in an archive is hostile: no number is taken that is negative or too large, and no read
goes beyond what a header says.
"""

from io import BufferedIOBase

from minirun.core.errors import ImageError

BLOCK = 512
HEADER_LIMIT = 1 << 20
"""Bytes of extended header that one member may have; as many of a sparse file's map."""


class Body:
    """The content of the current member; what is left of it is skipped with the next one."""

    def __init__(self, stream: BufferedIOBase, size: int) -> None:
        self._stream = stream
        self._left = size
        self._padding = -size % BLOCK

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end. Raises ImageError if it ends early."""
        return self._stored(size)

    def hole(self) -> int:
        """Skip what is a hole at this place; return how many zeros that are."""
        return 0

    def finish(self) -> None:
        """Read over what is left, and over the padding to the next header."""
        while self._stored(1 << 16):
            pass
        at_most(self._stream, self._padding)  # of the last file it may be missing, as the end may

    def _stored(self, size: int) -> bytes:
        wanted = min(size, self._left)
        data = self._stream.read(wanted) if wanted else b""
        if wanted and not data:
            raise cut_off()
        self._left -= len(data)
        return data


def exactly(stream: BufferedIOBase, size: int) -> bytes:
    """Return the next `size` bytes. Raises ImageError if there are fewer."""
    data = at_most(stream, size)
    if len(data) < size:
        raise cut_off()
    return data


def at_most(stream: BufferedIOBase, size: int) -> bytes:
    """Return the next `size` bytes; fewer only if the stream ends."""
    data = b""
    while len(data) < size and (part := stream.read(size - len(data))):
        data += part
    return data


def number(field: bytes) -> int:
    """Octal digits, or, with the highest bit set, a big-endian number: GNU's extension.

    Raises ImageError.
    """
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") ^ (0x80 << 8 * (len(field) - 1))
        if value >= 1 << 62:
            raise ImageError("archive: a number that is negative or too large")
        return value
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise ImageError(f"archive: {field!r} is not a number", "is this a tar archive?")
    return int(digits or b"0", 8)


def decimal(text: bytes) -> int:
    """Return a number of a pax header. Raises ImageError."""
    if not text or len(text) > 18 or text.strip(b"0123456789"):
        raise ImageError(f"archive: {text[:60]!r} is not a number")
    return int(text)


def cut_off() -> ImageError:
    """Return the error for an archive that ends too early."""
    return ImageError("archive: it ends in the middle", "was the download complete?")
