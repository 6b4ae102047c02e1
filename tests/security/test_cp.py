"""`minirun cp` and trees that want it to go astray: docker's CVE-2018-15664 and its relatives.

What a container can make in its files is made here by way of its root directory. Each tree is
copied out, and copied into. On the host lies a canary, a file system of its own: nothing in it may
be read (its access times tell), changed or made; and nothing may appear beside the destination.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apart import apart, mounts
from conftest import Program

SECRET = b"the secret of the host"
SECONDS = 20
EXCHANGE = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None); fd = os.open(sys.argv[1], os.O_PATH)\n"
    "print(1, flush=True)\n"
    "while True: libc.syscall(316, fd, b'a', fd, b'b', 2)\n"
)
"""renameat2(2) with RENAME_EXCHANGE, again and again."""


def link(target: str) -> Callable[[Path, Path], None]:
    def make(top: Path, canary: Path) -> None:
        (top / "link").symlink_to(target.format(canary))

    return make


def loop(top: Path, canary: Path) -> None:
    (top / "link").symlink_to("other")
    (top / "other").symlink_to("link")


def itself(top: Path, canary: Path) -> None:
    (top / "link").symlink_to("link")


def chain(top: Path, canary: Path) -> None:
    for number in range(60):
        (top / f"l{number}").symlink_to(f"l{number + 1}")
    (top / "l60").symlink_to(canary)
    (top / "link").symlink_to("l0")


def below_a_link(top: Path, canary: Path) -> None:
    (top / "a").symlink_to(canary)
    (top / "link").symlink_to("a/inner")


def link_in_link(top: Path, canary: Path) -> None:
    (top / "a").symlink_to("/")
    (top / "link").symlink_to(f"a/..//../{canary}")


def to_a_file(top: Path, canary: Path) -> None:
    (top / "link").symlink_to(canary / "secret")


def devices(top: Path, canary: Path) -> None:
    for name, kind, numbers in (
        ("zero", stat.S_IFCHR, (1, 5)), ("tty", stat.S_IFCHR, (5, 0)),
        ("watchdog", stat.S_IFCHR, (10, 130)), ("disk", stat.S_IFBLK, (254, 0)),
        ("link", stat.S_IFCHR, (1, 8)),
    ):  # fmt: skip
        os.mknod(top / name, kind | 0o666, os.makedev(*numbers))


def fifos(top: Path, canary: Path) -> None:
    os.mkfifo(top / "link")
    os.mkfifo(top / "second")


def sockets(top: Path, canary: Path) -> None:
    fd = os.open(top, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{fd}/link")
    os.close(fd)


def long_names(top: Path, canary: Path) -> None:
    fd = os.open(top, os.O_PATH)
    for number in range(20):
        name = chr(97 + number) * 255
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.symlink(canary, "link", dir_fd=fd)
    os.close(fd)
    (top / "link").mkdir()


def long_target(top: Path, canary: Path) -> None:
    (top / "link").symlink_to(("/." * 2000 + f"{canary}")[-4095:])


def odd_names(top: Path, canary: Path) -> None:
    for name in (
        b"a\nb",
        b"\x1b[2J\x1b]0;x\x07",
        b"\xff\xfe",
        b"-rf",
        b" ",
        b"\\",
        b"'; rm",
        b"%s",
    ):
        Path(os.fsdecode(bytes(top) + b"/" + name)).write_text("x")
    (top / "link").mkdir()


def whiteouts(top: Path, canary: Path) -> None:
    for name in (".wh.secret", ".wh..wh..opq", ".wh..wh.plnk", ".wh."):
        (top / name).write_text("x")
    (top / "link").mkdir()


def hard_links(top: Path, canary: Path) -> None:
    (top / "file").write_text("x")
    for number in range(100):
        os.link(top / "file", top / f"h{number}")
    (top / "sym").symlink_to(canary / "secret")
    os.link(top / "sym", top / "link", follow_symlinks=False)


def sparse(top: Path, canary: Path) -> None:
    for name in ("link", "other"):
        with open(top / name, "wb") as file:
            file.truncate(1 << 40)
            file.seek(1 << 39)
            file.write(b"data")


def deep(top: Path, canary: Path) -> None:
    (top / "link").mkdir()
    fd = os.open(top, os.O_PATH)
    for _ in range(1000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def wide(top: Path, canary: Path) -> None:
    for number in range(3000):
        (top / f"f{number}").touch()
    (top / "link").mkdir()


def setuid(top: Path, canary: Path) -> None:
    (top / "link").mkdir(mode=0o755)
    (top / "su").write_text("x")
    os.chown(top / "su", 5, 6)
    os.chmod(top / "su", 0o6755)
    os.setxattr(top / "su", "user.note", b"x")


def closed(top: Path, canary: Path) -> None:
    (top / "link").mkdir(mode=0)
    (top / "file").write_text("x")
    (top / "file").chmod(0)


def dot_names(top: Path, canary: Path) -> None:
    for name in ("...", ".. ", ". ", "..\n"):
        (top / name).mkdir()
        (top / name / "link").symlink_to(canary)
    (top / "link").symlink_to("...")


def a_file(top: Path, canary: Path) -> None:
    (top / "link").write_text("x")


TREES: dict[str, Callable[[Path, Path], None]] = {
    "the root": link("/"), "an absolute path": link("{}"), "a file of the host": to_a_file,
    "upwards": link("../../../../../../../../../../..{}"), "above": link(".."),
    "upwards in the middle": link("x/../../../../../../../..{}"), "nothing": link("/nosuch/x"),
    "proc root": link("/proc/1/root{}"), "proc self": link("/proc/self/root{}"),
    "proc cwd": link("/proc/self/cwd"), "proc fd": link("/proc/self/fd/3"),
    "sys": link("/sys/kernel"), "a loop": loop, "itself": itself, "a chain": chain,
    "below a link": below_a_link, "a link in a link": link_in_link, "devices": devices,
    "FIFOs": fifos, "sockets": sockets, "long names": long_names, "a long target": long_target,
    "odd names": odd_names, "names of whiteouts": whiteouts, "hard links": hard_links,
    "sparse files": sparse, "a deep tree": deep, "a wide tree": wide, "setuid": setuid,
    "closed": closed, "names of dots": dot_names, "a file": a_file,
}  # fmt: skip


class Scene:
    """A container, its files, and a canary beside them."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.canary = folder / "canary"
        self.canary.mkdir()
        options = ["-t", "tmpfs", "-o", "strictatime", "none"]
        subprocess.run(["mount", *options, str(self.canary)], check=True)
        (self.canary / "inner").mkdir()
        for place in (self.canary / "secret", self.canary / "inner/secret"):
            place.write_bytes(SECRET)
        done = program("run", "-d", "--name", "evil", "-v", "/vol", "busybox", "sleep", "600")
        assert done.returncode == 0, done.stderr
        pid = program("state", "evil").stdout.split('"pid": ')[1].split(",")[0]
        self.root = Path(f"/proc/{pid}/root")
        self.top = self.root / "evil"
        self.top.mkdir()
        (folder / "src/link").mkdir(parents=True)
        for name in ("file", "link/new", "secret"):
            (folder / "src" / name).write_text("from the host")
        (folder / "out").mkdir()
        for place in (*self.canary.rglob("*"), self.canary):
            os.utime(place, ns=(10**9, 10**9))
        self.before = self.look()

    def look(self) -> list[object]:
        """What the canary is, and what lies beside it."""
        found: list[object] = [sorted(os.listdir(self.folder))]
        for path in (self.canary, *(self.canary / n for n in ("secret", "inner", "inner/secret"))):
            info = path.lstat()
            found.append((info.st_mode, info.st_uid, info.st_mtime_ns, info.st_atime_ns))
        return found

    def cp(self, *words: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            self.program.argv("cp", *words), input=input, capture_output=True, check=False,
            timeout=SECONDS, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        lines = done.stderr.decode().splitlines()
        assert len(lines) <= 1 and b"Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0 or lines, "an error says what it is"
        assert b"\x1b" not in done.stderr
        return done

    def untouched(self) -> None:
        """Fail if the canary was read, changed or added to, or if its secret came along."""
        assert self.look() == self.before
        assert not any(SECRET in each for each in self.contents(self.folder / "out"))
        listed = [os.listdir(self.canary), os.listdir(self.canary / "inner")]
        assert [sorted(names) for names in listed] == [["inner", "secret"], ["secret"]]
        for place in (self.canary, self.canary / "inner"):
            os.utime(place, ns=(10**9, 10**9))

    def contents(self, folder: Path) -> Iterator[bytes]:
        for path, _, names in os.walk(folder):
            for name in names:
                info = os.lstat(f"{path}/{name}")
                assert not (stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode)), name
                if stat.S_ISREG(info.st_mode):
                    assert info.st_blocks < 1 << 14, "a hole stays a hole"
                    with open(f"{path}/{name}", "rb") as file:
                        yield file.read(1 << 12)

    def close(self) -> None:
        self.program("rm", "-f", "-v", "evil")
        subprocess.run(["umount", str(self.canary)], check=True)


@pytest.fixture
def scene(minirun: Program, tmp_path: Path) -> Iterator[Scene]:
    store = tmp_path / "store"
    store.mkdir()
    for name in ("images", "layers"):
        (store / name).symlink_to(f"{minirun.store}/{name}")
    program = minirun.at(store)
    (tmp_path / "work").mkdir()
    found = Scene(program, tmp_path / "work")
    yield found
    found.close()


@pytest.mark.parametrize("name", TREES)
def test_a_hostile_tree(scene: Scene, name: str) -> None:
    TREES[name](scene.top, scene.canary)
    for words in (
        ("evil:/evil", "out/whole"), ("-a", "evil:/evil/.", "out"), ("evil:/evil/link", "out/one"),
        ("-L", "evil:/evil/link", "out/followed"), ("evil:/evil/link/secret", "out"),
    ):  # fmt: skip
        if not (name in ("the root", "proc cwd") and words[0] == "-L"):
            scene.cp(*words)
            scene.untouched()
    if name != "sparse files":  # an archive has the zeros
        scene.cp("evil:/evil", "-")
        scene.untouched()
    for words in (
        ("src", "evil:/evil/link"), ("src/.", "evil:/evil"), ("src/file", "evil:/evil/link"),
        ("src/file", "evil:/evil/link/secret"), ("src/file", "evil:/evil/link/new/"),
        ("-a", "src/.", "evil:/evil/link/"), ("src/file", "evil:/evil/link/../secret"),
        ("evil:/evil", "evil:/vol"), ("evil:/evil/link", "evil:/again"),
    ):  # fmt: skip
        if words[:1] != ("evil:/evil/link",) or name != "the root":
            scene.cp(*words)
            scene.untouched()


@pytest.mark.parametrize("direction", ["out", "in"])
@pytest.mark.parametrize("target", ["/", "{}", "../../../../../../../..{}", "inner"])
def test_a_folder_that_is_exchanged_for_a_link(scene: Scene, target: str, direction: str) -> None:
    """What docker's cp fell to: between the check and the use the folder is another thing."""
    (scene.top / "a/inner").mkdir(parents=True)
    for place in ("a/secret", "a/inner/secret"):
        (scene.top / place).write_text("of the container")
    (scene.top / "b").symlink_to(target.format(scene.canary))
    command = [sys.executable, "-c", EXCHANGE, str(scene.top)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout and swapping.stdout.readline() == b"1\n"
            for number in range(12):
                if direction == "out":
                    scene.cp("evil:/evil/a/secret", f"out/s{number}")
                    scene.cp("evil:/evil", f"out/t{number}")
                    scene.cp("evil:/evil/a/inner", f"out/i{number}")
                else:
                    scene.cp("src/file", "evil:/evil/a/secret")
                    scene.cp("src/.", "evil:/evil/a/inner")
                    scene.cp("src/.", "evil:/evil/a")
                scene.untouched()
        finally:
            swapping.kill()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 1) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o666
    info.size = size if kind == tarfile.REGTYPE else 0
    info.devmajor, info.devminor = 1, 8
    data = info.tobuf(tarfile.PAX_FORMAT)
    return data + (b"x" * size + bytes(-size % 512) if kind == tarfile.REGTYPE else b"")


def streams(canary: str) -> dict[str, bytes]:
    """Archives, by what is wrong with them."""
    link, hard, fifo = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE
    up = "../" * 12
    return {
        "upwards": entry(f"{up}{canary[1:]}/new"), "an absolute name": entry(f"{canary}/new"),
        "a link, then a file through it": entry("l", link, canary) + entry("l/new"),
        "a link upwards": entry("l", link, f"{up}{canary[1:]}") + entry("l/new"),
        "a link to the root": entry("l", link, "/") + entry(f"l{canary}/new"),
        "a chain of links": entry("a", link, "b") + entry("b", link, canary) + entry("a/new"),
        "a link for its own name": entry("l", link, f"{canary}/secret") + entry("l"),
        "a hard link to the host": entry("h", hard, f"{canary}/secret"),
        "a hard link upwards": entry("h", hard, f"{up}{canary[1:]}/secret"),
        "a hard link to a link": entry("l", link, f"{canary}/secret") + entry("h", hard, "l")
        + entry("h"),
        "devices": entry("c", tarfile.CHRTYPE) + entry("b", tarfile.BLKTYPE),
        "a FIFO, then a file": entry("f", fifo) + entry("f"),
        "a folder for a file": entry("x") + entry("x/y"),
        "a file for a folder": entry("x/y") + entry("x"),
        "dots": entry("..") + entry("."), "no name": entry("") + entry("/"),
        "a newline": entry("a\nb\x1b[2J"), "a long name": entry("n" * 255 + "/" + "m" * 255),
        "too long a name": entry("n" * 300), "a deep name": entry("d/" * 2000 + "x"),
        "whiteouts": entry(".wh.secret") + entry("a/.wh..wh..opq"),
        "cut off": entry("x", size=5000)[:1000], "no archive": b"this is no archive" * 100,
        "a size that lies": entry("x", size=512).replace(b"00000001000", b"77777777777", 1),
        "nothing": b"",
    }  # fmt: skip


@pytest.mark.parametrize("name", streams("/x"))
def test_a_hostile_stream(scene: Scene, name: str) -> None:
    (scene.top / "file").write_text("x")
    data = streams(str(scene.canary))[name] + bytes(1024)
    for target in ("/evil", "/", "/vol"):
        scene.cp("-", f"evil:{target}", input=data)
        scene.untouched()
    assert not (scene.folder / "new").exists()


def test_proc_and_sys_and_memory_are_not_seen(scene: Scene) -> None:
    for path in ("/proc/1/environ", "/proc/kmsg", "/sys/kernel", "/dev/shm/x", "/dev/zero"):
        done = scene.cp(f"evil:{path}", "out")
        assert done.returncode == 1 and b"Could not find the file" in done.stderr
    done = scene.cp("src/file", "evil:/proc/self/attr/exec")
    assert done.returncode == 1
    scene.untouched()


def test_nothing_is_left_mounted_or_open(scene: Scene) -> None:
    with apart("mount"):
        before = mounts()
        scene.cp("src", "evil:/evil")
        scene.cp("evil:/evil", "out")
        assert mounts() == before
    inside = Path(f"{scene.root}/../mountinfo")
    assert str(scene.folder) not in inside.read_text() if inside.exists() else True


def test_a_mount_of_the_container_is_not_followed(scene: Scene) -> None:
    """What the container has mounted itself, over a folder of its own, is not there for cp."""
    (scene.top / "m").mkdir()
    (scene.top / "m/own").touch()
    pid = scene.root.parent.name
    enter = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "mount", "-t", "tmpfs", "none", "/evil/m"]
    subprocess.run(enter, check=True)
    scene.cp("evil:/evil/m", "out")
    assert os.listdir(scene.folder / "out/m") == ["own"]
    scene.cp("src/file", "evil:/evil/m/new")
    scene.untouched()
    scene.cp("evil:/evil/m/new", "out")
    assert (scene.folder / "out/new").exists()


def test_a_read_of_the_canary_would_be_seen(scene: Scene) -> None:
    (scene.canary / "secret").read_bytes()
    with pytest.raises(AssertionError):
        scene.untouched()
