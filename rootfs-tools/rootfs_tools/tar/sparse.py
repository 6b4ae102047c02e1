"""Sparse files in a tar archive: GNU tar's four ways to write where the data is, between holes.

    old       type S: four pieces in the header, 21 in each block after it, as long as one says so
    pax 0.0   GNU.sparse.offset and GNU.sparse.numbytes, again and again
    pax 0.1   GNU.sparse.map: offset,size,offset,size …
    pax 1.0   the map stands before the data: a number in each line, first how many pieces

Source: GNU tar's manual, "Storing Sparse Files". A map is as hostile as all else: its pieces lie in
order and inside the file, and are as long as what is stored, or the archive is refused. A hole
costs an archive nothing, but a digest is computed of it too: all holes together have a limit.
"""

from collections.abc import Mapping
from io import BufferedIOBase

from minirun.core.errors import ImageError
from rootfs_tools.tar.fields import BLOCK, HEADER_LIMIT, Body, decimal, exactly, number

HOLE_LIMIT = 64 << 30
"""Bytes of holes in one archive."""
KEY = "GNU.sparse."
NAME, _MAP = f"{KEY}name", f"{KEY}map"
"""NAME: where pax has the name; the header's is made up, for readers that know no sparse files."""
_TURNS = (f"{KEY}offset", f"{KEY}numbytes")
_ZEROS = bytes(1 << 16)
_PIECE = 24
"""Bytes of a piece in the old form: offset and size, twelve each."""

SparseMap = list[tuple[int, int]]
"""(offset in the file, bytes of data there)."""


class SparseBody(Body):
    """A sparse file's content: zeros where its map has no data."""

    def __init__(self, stream: BufferedIOBase, stored: int, size: int, pieces: SparseMap) -> None:
        super().__init__(stream, stored)
        self._at = 0
        self._pieces = [*((at, at + length) for at, length in pieces if length), (size, size)]
        self._pieces.reverse()  # the next one is the last

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        begin, end = self._pieces[-1]
        if self._at < begin:
            data = _ZEROS[: min(size, begin - self._at)]
        else:
            data = self._stored(min(size, end - self._at))
        self._at += len(data)
        if self._at == end and len(self._pieces) > 1:
            self._pieces.pop()
        return data

    def hole(self) -> int:
        """Skip what is a hole at this place; return how many zeros that are."""
        skipped = self._pieces[-1][0] - self._at
        self._at += max(skipped, 0)
        return max(skipped, 0)


def is_sparse(kind: bytes, pax: Mapping[str, bytes]) -> bool:
    """Return True for a sparse file: what follows its header is not all of its content."""
    return kind == b"S" or any(key.startswith(KEY) for key in pax)


def collect(records: dict[str, bytes], key: str, value: bytes) -> bool:
    """Put a record of pax 0.0, where keys come again and again, into the map of pax 0.1.

    Return False if it is another key. Raises ImageError if offset and size do not take turns.
    """
    if key not in _TURNS:
        return False
    so_far = records.get(_MAP, b"")
    count = so_far.count(b",") + 1 if so_far else 0
    if key != _TURNS[count % 2]:
        raise _damaged("offsets and sizes do not take turns")
    records[_MAP] = so_far + b"," + value if so_far else value
    return True


def open_body(
    header: bytes, pax: Mapping[str, bytes], stream: BufferedIOBase, stored: int
) -> tuple[int, SparseBody]:
    """Return the size of a sparse file, whose header was just read, and its content.

    `stored`: how many bytes follow, as its header has it. Raises ImageError.
    """
    if header[156:157] == b"S":
        size, pieces = number(header[483:495]), _old(header, stream)
    else:
        version = pax.get(f"{KEY}major", b""), pax.get(f"{KEY}minor", b"")
        size = decimal(pax.get(f"{KEY}realsize") or pax.get(f"{KEY}size", b""))
        if version == (b"1", b"0"):
            used, numbers = _lines(stream, stored)
            stored -= used
        elif version in ((b"", b""), (b"0", b"0"), (b"0", b"1")):
            numbers = [decimal(text) for text in pax.get(_MAP, b"").split(b",") if text]
        else:
            raise _damaged("of a version that minirun does not know")
        pieces = list(zip(numbers[::2], numbers[1::2], strict=False))
    end = 0
    for at, length in pieces:
        if at < end or at + length > size:
            raise _damaged("its pieces overlap, or lie outside of it")
        end = at + length
    if sum(length for _, length in pieces) != stored:
        raise _damaged("its pieces are not what is stored")
    return size, SparseBody(stream, stored, size, pieces)


def _old(header: bytes, stream: BufferedIOBase) -> SparseMap:
    """Return the pieces of the old form; each block says at its end whether another follows."""
    pieces: SparseMap = []
    fields, more = header[386:482], header[482]
    for _ in range(HEADER_LIMIT // BLOCK):
        for at in range(0, len(fields), _PIECE):
            if not fields[at]:
                break
            pieces.append((number(fields[at : at + 12]), number(fields[at + 12 : at + 24])))
        if not more:
            return pieces
        block = exactly(stream, BLOCK)
        fields, more = block[:504], block[504]
    raise _damaged("it has too many pieces")


def _lines(stream: BufferedIOBase, stored: int) -> tuple[int, list[int]]:
    """Read the map of pax 1.0; return its bytes, whole blocks, and the numbers after the first."""
    numbers: list[int] = []
    used, rest = 0, b""
    while not numbers or len(numbers) <= 2 * numbers[0]:
        used += BLOCK
        if used > min(stored, HEADER_LIMIT):
            raise _damaged("its map has no end")
        *lines, rest = (rest + exactly(stream, BLOCK)).split(b"\n")
        numbers += map(decimal, lines)
    return used, numbers[1 : 2 * numbers[0] + 1]


def _damaged(what: str) -> ImageError:
    return ImageError(f"archive: a sparse file: {what}", "make it without --sparse")
