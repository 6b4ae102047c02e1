"""Hostile images: each spoils a small root filesystem in one way.

Links lead to the decoy, which stands for the host; devices are null, zero and numbers that no
driver has: no case could hurt the machine, were it to succeed.
"""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

Spoil = Callable[[Path, Path], None]
IMAGES: dict[str, Spoil] = {}
_NO_DRIVER = os.makedev(4095, 77)


def _image(name: str, spoil: Spoil) -> None:
    assert name not in IMAGES, name
    IMAGES[name] = spoil


def _clear(place: Path) -> Path:
    """Make room for something else at `place`."""
    for parent in reversed(place.parents):
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        for inner in place.iterdir():
            _clear(inner)
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _link(path: str, target: str) -> Spoil:
    """A link: DECOY stands for its path, UP for enough ".." to leave any root."""

    def spoil(root: Path, decoy: Path) -> None:
        text = target.replace("DECOY", str(decoy)).replace("UP", "../" * 20 + str(decoy)[1:])
        _clear(root / path).symlink_to(text)

    return spoil


def _node(path: str, kind: int, device: int = 0, mode: int = 0o666) -> Spoil:
    return lambda root, decoy: os.mknod(_clear(root / path), kind | mode, device)


def _socket(path: str) -> Spoil:
    def spoil(root: Path, decoy: Path) -> None:
        _clear(root / path)
        here = os.getcwd()
        os.chdir((root / path).parent)  # sun_path is short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(Path(path).name)
        os.chdir(here)

    return spoil


def _file(path: str, content: bytes, size: int = 0, mode: int = 0o755) -> Spoil:
    def spoil(root: Path, decoy: Path) -> None:
        place = _clear(root / path)
        place.write_bytes(content.replace(b"DECOY", os.fsencode(decoy)))
        place.chmod(mode)
        if size:
            os.truncate(place, size)

    return spoil


def _folder(path: str) -> Spoil:
    return lambda root, decoy: _clear(root / path).mkdir()


def _together(*parts: Spoil) -> Spoil:
    def spoil(root: Path, decoy: Path) -> None:
        for part in parts:
            part(root, decoy)

    return spoil


# --- links in place of what a runtime looks up, makes, or mounts on ------------------------------

for _path in (
    "dev", "proc", "sys", "etc", "lib", "usr", "usr/lib", "run", "tmp", "srv", "root", "bin",
    "etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab",
    "etc/ld.so.conf", "etc/ld.so.cache", "etc/ld.so.conf.d", "dev/null", "dev/console", "dev/shm",
    "dev/ptmx", "dev/pts", "dev/fuse", "sys/fs", "work", "usr/lib/x86_64-linux-gnu", "usr/bin",
    "proc/self",
):  # fmt: skip
    _target = f"DECOY/{_path}" if _path.split("/")[0] in ("etc", "dev", "proc") else "DECOY"
    _image(f"link {_path}", _link(_path, _target))
for _path in ("etc", "dev", "etc/passwd", "etc/resolv.conf", "srv"):
    _image(f"relative link {_path}", _link(_path, f"UP/{_path}"))
    _image(f"loop {_path}", _link(_path, Path(_path).name))
    _image(f"proc link {_path}", _link(_path, f"/proc/1/root/DECOY/{_path}"))
    _image(f"fd link {_path}", _link(_path, "/proc/self/fd/3"))
_image("dangling resolv.conf", _link("etc/resolv.conf", "UP/etc/new"))
_image("dangling hosts", _link("etc/hosts", "DECOY/etc/new/er"))
_image("dangling dev", _link("dev", "DECOY/new"))


def _chain(root: Path, decoy: Path) -> None:
    """Forty-five links, each to the next, the last one to the host."""
    _clear(root / "srv").symlink_to("l0")
    for number in range(45):
        (root / f"l{number}").symlink_to(f"l{number + 1}")
    (root / "l45").symlink_to(decoy)


def _through_links(root: Path, decoy: Path) -> None:
    (root / "out").symlink_to(decoy)
    _clear(root / "srv").symlink_to("/out/../out/tmp")
    (root / "mapped").symlink_to("out/deep/a/b/c")


_image("chain of links", _chain)
_image("links through links", _through_links)

# --- things of the wrong kind ------------------------------------------------------------------

for _path in ("etc/passwd", "etc/group", "etc/ld.so.cache", "etc/ld.so.conf", "etc/resolv.conf",
              "bin/true"):  # fmt: skip
    _image(f"fifo {_path}", _node(_path, stat.S_IFIFO))
    _image(f"device zero {_path}", _node(_path, stat.S_IFCHR, os.makedev(1, 5)))
    _image(f"device without a driver {_path}", _node(_path, stat.S_IFCHR, _NO_DRIVER))
    _image(f"block device {_path}", _node(_path, stat.S_IFBLK, _NO_DRIVER))
    _image(f"socket {_path}", _socket(_path))
    _image(f"folder {_path}", _folder(_path))
for _path in ("dev", "proc", "sys", "etc", "srv", "run", "tmp", "usr", "work", "dev/pts", "dev/shm",
              "etc/ld.so.conf.d", "sys/fs/cgroup"):  # fmt: skip
    _image(f"file {_path}", _file(_path, b"no folder\n"))
for _path in ("dev", "proc", "etc", "srv"):
    _image(f"fifo {_path}", _node(_path, stat.S_IFIFO))
_image("dev/null is zero", _node("dev/null", stat.S_IFCHR, os.makedev(1, 5)))
_image("dev/fuse is a file", _file("dev/fuse", b""))

# --- contents -----------------------------------------------------------------------------------

_HUGE = 10 << 30
for _path in ("etc/passwd", "etc/group", "etc/ld.so.cache", "etc/ld.so.conf", "etc/hosts",
              "run/huge", "bin/true"):  # fmt: skip
    _image(f"10 GiB {_path}", _file(_path, b"x", _HUGE))
_image("passwd without lines", _file("etc/passwd", b"ann:x:1000:1000:" + b"a" * (1 << 20)))
_image("passwd of colons", _file("etc/passwd", b":" * 900_000))
_image("passwd of lines", _file("etc/passwd", b"\n" * 900_000 + b"ann:x:1000:1000::/:\n"))
_image("passwd of many users", _file("etc/passwd", b"".join(
    b"u%d:x:%d:0::/:\n" % (n, n) for n in range(50_000))))  # fmt: skip
_image("group of many groups", _file("etc/group", b"".join(
    b"g%d:x:%d:ann\n" % (n, n + 1) for n in range(60_000))))  # fmt: skip
_image("passwd of odd bytes", _file("etc/passwd", bytes(range(256)) * 40))
_image(
    "passwd of odd numbers",
    _file(
        "etc/passwd", "ann:x:4294967296:-1::/:\nann:x:١:0::/:\nann:x: 0:1_0::/\x1b[2J:\n".encode()
    ),
)
_image("passwd home", _file("etc/passwd", b"ann:x:1000:1000::/\x1b]0;x\x07/\xff\n../../DECOY:\n"))
_image("passwd home is long", _file("etc/passwd", b"ann:x:1:1::/" + b"h" * 500_000 + b":\n"))
_image("ld.so.conf includes", _file("etc/ld.so.conf", b"include /etc/ld.so.conf\ninclude DECOY/*\n"
                                    b"include /*/*/*/*\n/proc/self/fd\n"))  # fmt: skip
_image("ld.so.conf is endless", _file("etc/ld.so.conf", b"/" + b"a" * 5_000_000))
_image("ld.so.conf has many", _file("etc/ld.so.conf", b"".join(
    b"/usr/lib/%d\n" % n for n in range(100_000))))  # fmt: skip
_image("ld.so.cache lies", _file("etc/ld.so.cache", b"glibc-ld.so.cache1.1" + b"\xff" * 4096))
_image("script of itself", _file("bin/true", b"#!/bin/true\n"))
_image("script of the host", _file("bin/true", b"#!/proc/self/exe\n"))
_image("script of a long line", _file("bin/true", b"#!/" + b"a" * 100_000 + b"\n"))
_image("program of a broken ELF", _file("bin/true", b"\x7fELF" + b"\xff" * 4096))
_image("program is empty", _file("bin/true", b""))
_image("program without x", _file("bin/true", b"#!/bin/sh\n", mode=0o644))
_image("program links to itself", _link("bin/true", "true"))
_image("program links to the runtime", _link("bin/true", "/proc/self/exe"))
_image("os-release", _file("etc/os-release", b"ID=\x1b[31m\n" * 100_000))
_image("fake libcuda", _file("usr/lib/libcuda.so.1", b"\x7fELF" + b"\xff" * 60_000))

# --- trees ----------------------------------------------------------------------------------------


def _deep(root: Path, decoy: Path) -> None:
    """Three thousand levels: longer than PATH_MAX, more than any recursion."""
    fd = os.open(root / "run", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.symlink(decoy, "out", dir_fd=fd)
    os.close(fd)


def _names(root: Path, decoy: Path) -> None:
    """Names that no text can hold, and that a terminal obeys."""
    for folder in ("run", "usr/lib", "etc", "bin"):
        for name in (b"\xff\xfe", b"a\nb", b"\x1b[2J", b"-rf", b"'\"\\", b" ", b"\xed\xa0\x80",
                     b"n" * 255, "\u202e.so".encode(), b"lib\nx.so.1"):  # fmt: skip
            (Path(os.fsdecode(os.fsencode(root / folder) + b"/" + name))).write_text("x")


def _many(folder: str, count: int) -> Spoil:
    def spoil(root: Path, decoy: Path) -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        source = root / "source"
        source.write_bytes(b"")
        for number in range(count):
            if number % 30_000 == 29_999:
                source = root / f"source{number}"
                source.write_bytes(b"")
            os.link(source, root / folder / f"lib{number}.so.1")

    return spoil


def _modes(root: Path, decoy: Path) -> None:
    """No rights for anyone, set-user-id, sticky, strange owners."""
    for name, mode in (("etc", 0), ("bin/busybox", 0o6777), ("tmp", 0o7777), ("dev", 0o000)):
        if name == "bin/busybox":
            data = (root / name).read_bytes()
            (root / name).unlink()
            (root / name).write_bytes(data)
        os.chown(root / name, 2**32 - 2, 2**32 - 2)
        os.chmod(root / name, mode)


def _no_folders(root: Path, decoy: Path) -> None:
    for name in ("dev", "proc", "sys", "etc", "tmp", "run", "root", "lib", "usr"):
        _clear(root / name)


def _nothing(root: Path, decoy: Path) -> None:
    for inner in root.iterdir():
        _clear(inner)


def _compat(root: Path, decoy: Path) -> None:
    """CUDA's compatibility libraries, as a link to the host and as names that break lines."""
    folder = root / "usr/local/cuda-12"
    folder.mkdir(parents=True)
    (root / "usr/local/cuda").symlink_to("cuda-12")
    (folder / "compat").symlink_to(decoy)


def _driver(root: Path, decoy: Path) -> None:
    """The driver's own folders and files as links to the host."""
    for name in ("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced"):
        _clear(root / "usr/bin" / name).symlink_to(decoy / "secret")
    for folder in ("usr/lib/x86_64-linux-gnu", "usr/lib64", "lib64"):
        _clear(root / folder).symlink_to(decoy / "usr/lib")
    for name in ("nvidia-persistenced", "nvidia-fabricmanager"):
        _clear(root / "run" / name).symlink_to(decoy / "tmp")
    for name in ("firmware", "lib/firmware"):
        _clear(root / name).symlink_to(decoy)


_image("deep tree", _deep)
_image("odd names", _names)
_image("many files in run", _many("run", 60_000))
_image("many libraries", _many("usr/lib", 60_000))
_image("odd modes and owners", _modes)
_image("no folders", _no_folders)
_image("nothing", _nothing)
_image("cuda compat is a link", _compat)
_image("driver's places are links", _driver)
_image("two thousand links to nothing", lambda root, decoy: [
    (root / "etc" / f"n{number}").symlink_to(f"n{number + 1}") for number in range(2000)
] and None)  # fmt: skip
_image("dev and etc together", _together(_link("dev", "DECOY/dev"), _link("etc", "DECOY/etc"),
                                         _link("proc", "DECOY/proc")))  # fmt: skip
