"""Part A of the list: set-up through hostile paths of the image. One test for each hole."""

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program, wait_until
from security.conftest import NAME, Evil


@pytest.mark.parametrize("path", ["/proc", "/sys"])
def test_cve_2019_19921_proc_is_a_link(evil: Evil, path: str) -> None:
    """Also CVE-2023-27561 and CVE-2023-28642."""
    for target in (evil.host, "/etc", "..", "self"):
        evil.link(path, target)
        assert f"{path} must be mounted on ordinary directory" in evil.refused()


def test_cve_2019_16884_files_of_the_image_in_place_of_proc(evil: Evil) -> None:
    """A folder would take what is written to /proc/self/attr or /proc/sys."""
    evil.drop_mounts("/proc")
    evil.config["linux"]["sysctl"] = {"net.ipv4.ip_forward": "1"}
    evil.write("/proc/sys/net/ipv4/ip_forward", "")
    (evil.layer / "proc/self").mkdir()
    assert "/proc in the container is not procfs" in evil.refused()
    assert (evil.layer / "proc/sys/net/ipv4/ip_forward").read_text() == ""


class Swapper(threading.Thread):
    """Exchanges a directory and a link to the host, as fast as it can, until it is stopped."""

    def __init__(self, place: Path, target: Path) -> None:
        super().__init__()
        self.place, self.link = place, place.with_name("swap")
        place.mkdir(exist_ok=True)
        self.link.symlink_to(target)
        self.over = threading.Event()
        self.count = 0

    def run(self) -> None:
        renameat2 = ctypes.CDLL(None).renameat2
        args = (-100, bytes(self.place), -100, bytes(self.link), 2)  # RENAME_EXCHANGE
        while not self.over.is_set():
            renameat2(*args)
            self.count += 1
            time.sleep(0.0001)


@pytest.mark.parametrize("below", ["inner", "deep/er/still"])
def test_cve_2021_30465_a_directory_becomes_a_link(evil: Evil, tmp_path: Path, below: str) -> None:
    """Also CVE-2024-45310: directories and files made on the host by losing the race."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "mark").write_text("the volume\n")
    evil.mount(f"/race/{below}/dir", volume)
    evil.mount(f"/race/{below}/file", volume / "mark")
    swapper = Swapper(evil.layer / "race", evil.host)
    swapper.start()
    try:
        results: dict[int, int] = {}
        for _ in range(25):
            done = evil.run("sh", "-c", f"cat /race/{below}/dir/mark /race/secret; true")
            assert "host's secret" not in done.stdout
            results[done.returncode] = results.get(done.returncode, 0) + 1
    finally:
        swapper.over.set()
        swapper.join()
    assert swapper.count > 100
    assert set(results) <= {0, 1}


def spoil(null: Path, what: str) -> None:
    """Put something else in the place of /dev/null."""
    null.unlink(missing_ok=True)
    if what == "link":
        null.symlink_to("/proc/sys/kernel/core_pattern")
    elif what == "file":
        null.write_text("")
    else:
        os.mknod(null, 0o20666, os.makedev(1, 5))


@pytest.mark.parametrize("what", ["link", "file", "other"])
def test_cve_2025_31133_null_is_not_null(evil: Evil, what: str) -> None:
    """Masking binds /dev/null: of the image, where the container has no /dev of its own."""
    evil.drop_mounts("/dev")
    spoil(evil.layer / "dev/null", what)
    assert ": /dev/null is there already, and is not c 1:3 (mount a tmpfs at" in evil.refused()


@pytest.mark.parametrize("what", ["link", "file", "other"])
def test_cve_2025_31133_null_of_a_folder_at_dev(evil: Evil, what: str) -> None:
    """Nothing is made in a folder of the host at /dev: masking itself sees what null is."""
    evil.drop_mounts("/dev")
    (evil.layer.parent / "dev").mkdir()
    spoil(evil.layer.parent / "dev/null", what)
    evil.mount("/dev", evil.layer.parent / "dev")
    assert "/dev/null in the container is not the device 1:3" in evil.refused()
    assert os.listdir(evil.layer.parent / "dev") == ["null"]


def test_cve_2025_31133_with_a_dev_of_its_own(evil: Evil) -> None:
    """The usual case: what the image has in /dev is hidden before anything is made there."""
    evil.link("/dev/null", evil.host / "null")
    done = evil.run("sh", "-c", "ls -l /dev/null; cat /proc/keys | wc -c; ls /proc/acpi /proc/scsi")
    assert done.stdout.startswith("crw-rw-rw-")
    assert done.stdout.splitlines()[1] == "0"


@pytest.mark.parametrize("where", ["/etc/hidden", "/lib/link/x"])
def test_masked_and_read_only_paths_behind_links_of_the_image(evil: Evil, where: str) -> None:
    evil.link(where, evil.host / "secret")
    evil.config["linux"]["maskedPaths"] = [where]
    evil.config["linux"]["readonlyPaths"] = [where]
    assert evil.run("true").returncode == 0


@pytest.mark.parametrize("target", ["console", "nosuch"])
def test_cve_2025_52565_console_is_a_link(evil: Evil, tmp_path: Path, target: str) -> None:
    evil.drop_mounts("/dev/")
    evil.config["mounts"] = [r for r in evil.config["mounts"] if r["destination"] != "/dev"]
    pts = {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["newinstance"],
    }
    evil.config["mounts"].append(pts)
    evil.link("/dev/console", evil.host / target)
    evil.config["process"]["terminal"] = True
    with socket.socket(socket.AF_UNIX) as console:
        console.bind(str(tmp_path / "console"))
        console.listen()
        flags = ("--bundle", str(evil.save()), "--console-socket", str(tmp_path / "console"))
        done = evil.minirun("create", *flags, NAME)
    assert done.returncode == 1
    assert "/dev/console" in done.stderr
    assert done.stderr.count("\n") == 1
    assert evil.look() == evil.before


@pytest.mark.parametrize("exists", [True, False], ids=["same name inside", "nothing inside"])
def test_cve_2026_41579_dev_is_a_link(evil: Evil, exists: bool) -> None:
    """Also CVE-2026-47766: ptmx removed, links and nodes made in a directory of the host."""
    if exists:
        (evil.layer / str(evil.host).lstrip("/")).mkdir(parents=True)
    evil.link("/dev", evil.host)
    assert "null" in evil.run("ls", "/dev/").stdout
    assert evil.look() == evil.before


def test_cve_2021_29136_the_root_itself_is_a_link(evil: Evil) -> None:
    for target in (evil.host, "/"):
        evil.config["root"]["path"] = str(evil.layer.parent / "link")
        (evil.layer.parent / "link").unlink(missing_ok=True)
        (evil.layer.parent / "link").symlink_to(target)
        assert "root.path" in evil.refused()


@pytest.mark.parametrize(
    "destination", ["/link/in", "/../../../{}", "/link/../link/./x", "/a/loop"]
)
def test_cve_2022_23648_volume_through_links_and_dots(evil: Evil, destination: str) -> None:
    """Also CVE-2024-0133 and CVE-2018-15664: the destination stays inside, or is refused."""
    evil.link("/link", evil.host)
    evil.link("/a/loop", "/a/loop")
    evil.mount(destination.format(str(evil.host)[1:]), evil.layer / "bin")
    done = evil.run("true")
    assert done.returncode in (0, 1)
    assert done.stderr.count("\n") == done.returncode


@pytest.mark.parametrize("cwd", ["/link/new", "/link", "/..", "/link/../secret"])
def test_cve_2026_55686_working_directory_through_a_link(evil: Evil, cwd: str) -> None:
    evil.link("/link", evil.host)
    evil.config["process"]["cwd"] = cwd
    done = evil.run("cat", "secret")
    assert "host's secret" not in done.stdout
    assert done.returncode != 0


def test_cve_2024_5154_every_file_of_etc_is_a_link(evil: Evil) -> None:
    """mtab, hosts, resolv.conf: helpers that write to them by path write to the host."""
    for name in ("mtab", "hosts", "resolv.conf", "hostname", "passwd", "group", "ld.so.cache"):
        evil.link(f"/etc/{name}", evil.host / name)
    evil.mount("/etc/hosts", "/etc/hosts", "ro")
    for target in ("hosts", "secret"):
        evil.link("/etc/hosts", evil.host / target)
        done = evil.run("cat", "/etc/hosts")
        assert "host's secret" not in done.stdout
        assert done.returncode in (0, 1)


def import_image(minirun: Program, layer: Path, store: Path) -> Program:
    """A program with a store of its own, that holds the image `layer` as evil:latest."""
    program = minirun.at(store)
    archive = layer.parent / "evil.tar"
    subprocess.run(["tar", "-C", str(layer), "-cf", str(archive), "."], check=True)
    done = program("images", "import", "evil", str(archive))
    assert done.returncode == 0, done.stderr
    return program


PASSWD: dict[str, Callable[[Path], object]] = {
    "link to the host": lambda path: path.symlink_to("/etc/passwd"),
    "fifo": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "directory": lambda path: path.mkdir(),
    "device": lambda path: os.mknod(path, 0o20666, os.makedev(1, 5)),
    "huge": lambda path: path.write_bytes(b"x:x:1:1::/:/bin/sh\n" * 100_000),
    "newlines": lambda path: path.write_bytes(b"a:x:5:5::/\r\nroot2:x:0:0::/:/bin/sh\x00evil"),
}


@pytest.mark.parametrize("kind", PASSWD)
def test_cve_2024_9676_a_hostile_passwd(
    minirun: Program, layer: Path, tmp_path: Path, kind: str
) -> None:
    """Also CVE-2025-4437, CVE-2026-47262, CVE-2022-4318: no hang, no user of the host's."""
    (layer / "etc/passwd").unlink()
    PASSWD[kind](layer / "etc/passwd")
    program = import_image(minirun, layer, tmp_path / "store")
    for user in ("daemon", "nobody", "root2", "evil"):
        done = program("run", "--rm", "-u", user, "evil", "id", "-u", timeout=10)
        assert done.returncode == 125, (kind, user, done)
        assert done.stderr.count("\n") == 1
    status = ("grep", "^[UG]id:", "/proc/self/status")
    done = program("run", "--rm", "-u", "12:13", "evil", *status, timeout=10)
    assert done.returncode in (0, 125)
    assert done.returncode or done.stdout.split() == ["Uid:", *["12"] * 4, "Gid:", *["13"] * 4]


def test_a_passwd_that_is_the_kernels_log(minirun: Program) -> None:
    """It blocked exec for ever, and what it read were messages of the host."""
    script = "ln -sf /proc/kmsg /etc/passwd; echo ready; sleep 100"
    minirun("run", "-d", "--name", "c", "busybox", "sh", "-c", script)
    wait_until(lambda: minirun("logs", "c").stdout == "ready\n")
    assert minirun("exec", "c", "true", timeout=20).returncode == 0
    done = minirun("exec", "-u", "root", "c", "true", timeout=20)
    assert done.returncode == 125 and "not a regular file" in done.stderr
