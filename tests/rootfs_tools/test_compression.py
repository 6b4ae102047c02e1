"""Compressed streams: whole, in several pieces, and with a limit of memory."""

import io
import lzma
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from required import installed
from rootfs_tools.compression import DAMAGED, decompressed

LIMIT_KIB = 128 << 10
READ = """import io, sys
from minirun.core.errors import ImageError
from rootfs_tools.compression import decompressed
try:
    stream = decompressed(io.BufferedReader(open(sys.argv[1], "rb", 0)))
    while stream.read(1 << 18):
        pass
except ImageError as error:
    print(error)
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


def plain(data: bytes) -> bytes:
    return decompressed(io.BufferedReader(io.BytesIO(data))).read()  # type: ignore[type-var]


def test_xz_in_several_streams_with_padding() -> None:
    """As xz itself reads them: xz-file-format.txt, "Stream Padding"."""
    one, two = b"a" * 100_000, os.urandom(300_000)
    for padding in (0, 8, 200_000):
        data = lzma.compress(one) + bytes(padding) + lzma.compress(two) + bytes(padding)
        assert plain(data) == one + two
    assert plain(lzma.compress(b"")) == b""


@pytest.mark.parametrize("cut", [1, 12, 40, 20_000])
def test_xz_that_is_cut(cut: int) -> None:
    with pytest.raises(DAMAGED):
        plain(lzma.compress(os.urandom(50_000))[:-cut])


def read(path: Path) -> tuple[str, int]:
    """Return what a process of its own says that reads this stream, and its memory in KiB."""
    argv = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    *said, used = done.stdout.splitlines()
    return "".join(said), int(used)


def test_xz_that_asks_for_much_memory(tmp_path: Path) -> None:
    """61 kB that unpack to 400 MiB through a window of 512: the window is the memory."""
    packer = lzma.LZMACompressor(preset=0)
    zeros = bytes(1 << 20)
    data = b"".join([*(packer.compress(zeros) for _ in range(400)), packer.flush()])
    assert len(data) < 100_000
    size = 4 * (data[12] + 1)  # xz-file-format.txt, 3.1: the header of the first block
    header = bytearray(data[12 : 12 + size - 4])
    assert header[2:4] == b"\x21\1"  # LZMA2, and one byte for its window
    header[4] = 34  # 2 << 34 / 2 + 11 bytes
    data = data[:12] + header + zlib.crc32(header).to_bytes(4, "little") + data[12 + size :]
    (tmp_path / "x").write_bytes(data)
    said, used = read(tmp_path / "x")
    assert said == "xz: it asks for more than 128 MiB of memory"
    assert used < LIMIT_KIB
    with pytest.raises(ImageError):
        plain(data)


def test_the_largest_preset_of_xz_is_read(tmp_path: Path) -> None:
    data = os.urandom(1000)
    (tmp_path / "x").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    assert plain((tmp_path / "x").read_bytes()) == data
    assert read(tmp_path / "x")[0] == ""


def test_zstd_that_asks_for_much_memory(tmp_path: Path) -> None:
    argv = [installed("zstd"), "-q", "--ultra", "--long=30", "--no-check", "-c"]
    with open(tmp_path / "x", "wb") as output:
        subprocess.run(argv, stdin=_zeros(tmp_path, 1 << 30), stdout=output, check=True)
    said, used = read(tmp_path / "x")
    assert said == "zstd: it asks for more than 128 MiB of memory"
    assert used < LIMIT_KIB


def _zeros(folder: Path, size: int) -> int:
    """Return a descriptor of a file of zeros, which takes no disk."""
    fd = os.open(folder / "zeros", os.O_CREAT | os.O_RDWR)
    os.truncate(fd, size)
    return fd
