"""Broken archives for `minirun images import`: a good one, with some of its bytes changed."""

import bz2
import gzip
import io
import lzma
import random
import tarfile

from fuzz.cage import Cage, remove
from fuzz.configurations import Case

_NAMES = ("a", "../a", "/a", "etc/../../a", "l/a", "l", "./", "", "a/" * 300, "n" * 300, "a\nb",
          "\x1b[2J", ".wh.a", ".wh..wh..opq", "a/.wh.b", "\udcff", "é",
          "dev/null", "etc/passwd")  # fmt: skip
_TARGETS = (
    "DECOY",
    "DECOY/secret",
    "../" * 30,
    "l",
    "",
    "/",
    "etc/passwd",
    "x" * 5000,
    "/proc/self/fd",
)
_KINDS = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
          tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"S", b"V", b"?")  # fmt: skip
_NUMBERS = (0, 1, 7, -1, 2**31, 2**32 - 1, 2**33 - 1)


def archive(dice: random.Random, decoy: str) -> bytes:
    """An archive of some members, each odd in some way."""
    stream = io.BytesIO()
    form = dice.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as tar:
        for _ in range(dice.randint(1, 12)):
            member = tarfile.TarInfo(dice.choice(_NAMES))
            member.type = dice.choice(_KINDS)
            member.linkname = dice.choice(_TARGETS).replace("DECOY", decoy)
            member.mode = dice.choice((0o644, 0o6777, 0, 0o7777777))
            member.uid, member.gid, member.mtime = (dice.choice(_NUMBERS) for _ in range(3))
            member.devmajor, member.devminor = dice.choice(((0, 0), (1, 3), (4095, 7), (1, 5)))
            if form == tarfile.PAX_FORMAT and dice.random() < 0.3:
                keys = ("path", "size", "uid", "SCHILY.xattr.trusted.overlay.opaque", "linkpath",
                        "SCHILY.xattr.security.capability", "GNU.sparse.map", "mtime")  # fmt: skip
                member.pax_headers = {dice.choice(keys): dice.choice(("-1", "9" * 30, "x", "../a"))}
            content = b"x" * dice.choice((0, 5, 600)) if member.isreg() else b""
            member.size = len(content)
            try:
                tar.addfile(member, io.BytesIO(content))
            except (ValueError, tarfile.TarError, UnicodeError):
                continue  # this form cannot hold it
    return stream.getvalue()


def run(cage: Cage, seed: int) -> Case:
    """Import the archive of one seed into a store of its own."""
    dice = random.Random(seed)
    data = bytearray(archive(dice, str(cage.decoy.path)))
    said = []
    for _ in range(dice.choice((0, 1, 2))):
        at = dice.randrange(min(len(data), 512 * dice.choice((1, 3, 20))))
        said.append(f"byte {at}")
        data[at] = dice.randrange(256)
    if dice.random() < 0.2:
        del data[dice.randrange(len(data)) :]
        said.append("cut off")
    packed = dice.choice((bytes, bytes, gzip.compress, bz2.compress, lzma.compress))(data)
    path = cage.folder / "archive"
    path.write_bytes(packed)
    store = cage.folder / "store"
    outcome = cage.run("--store", str(store), "images", "import", "evil", str(path), seconds=30)
    faults = cage.faults(outcome)
    images = store / "images"
    names = {p.name for p in images.iterdir()} if images.is_dir() else set()
    if names - {"evil", ".lock"} or ("evil" in names) != (outcome.status == 0):
        faults.append(f"status {outcome.status}, but in the store are {sorted(names)}")
    path.unlink()
    if store.exists():
        remove(store)
    return Case(", ".join(said), outcome, faults)
