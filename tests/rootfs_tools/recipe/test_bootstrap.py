"""Root filesystems of a distribution's packages."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.faces.doctor.attempts import in_child
from rootfs_tools import catalogue
from rootfs_tools.recipe import aptsources, bootstrap, build, text

STORE = os.environ.get("MINIRUN_STORE", "/var/lib/minirun")
SOURCE = str(Path(build.__file__).parents[3])
TRIMMED = text.load("debian").packages


def test_the_debian_in_the_store_is_trimmed_and_names_no_machine() -> None:
    root = catalogue.resolve(STORE, "debian").layers[0]
    assert os.listdir(os.path.join(root, "dev")) == []
    assert os.listdir(os.path.join(root, "var/lib/apt/lists")) == []
    assert Path(root, "etc/resolv.conf").read_text() == ""
    assert Path(root, "etc/hostname").read_text() == "debian\n"
    release = bootstrap.os_release(root)
    assert release["ID"] == "debian"
    assert release["PRETTY_NAME"] in catalogue.details(STORE, "debian")["origin"]
    documents = {name for _, _, files in os.walk(f"{root}/usr/share/doc") for name in files}
    assert documents == {"copyright"}


def test_trimming_follows_no_link(tmp_path: Path) -> None:
    """In a chroot, so that a link that was followed would lead to the test's own `host`."""
    host, tree = tmp_path / "host", tmp_path / "tree"
    (host / "inner").mkdir(parents=True)
    (host / "inner" / "file").touch()
    for path in ("etc", "var", "usr/share/man/man1"):
        (tree / path).mkdir(parents=True)
    for path in ("run", "var/log", "dev"):
        os.symlink("/host", tree / path)
        (tmp_path / path / "kept").mkdir(parents=True)
    (tree / "usr/share/man/man1/ls.1").touch()
    (tree / "etc/passwd-").touch()
    os.symlink("/host/inner", tree / "usr/share/doc")
    os.symlink("/host/inner", tree / "etc/inner-")

    def trim() -> str:
        os.chroot(tmp_path)
        os.chdir("/")
        bootstrap.trim("/tree", TRIMMED)
        return ""

    assert in_child(trim) == (True, "")
    assert os.listdir(tree / "usr/share/man") == []
    assert os.listdir(tree / "etc") == []
    assert os.listdir(host / "inner") == ["file"]
    assert all((tmp_path / path / "kept").is_dir() for path in ("run", "var/log", "dev"))


def test_what_packages_are_made_of_stands_in_signed_lists(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/apt/lists").mkdir(parents=True)
    status = "Package: {}\nStatus: install ok installed\nVersion: {}\nArchitecture: {}\n\n"
    rows = [("a", "1:2-3", "amd64"), ("b", "1", "all")]
    text = "".join(status.format(*row) for row in rows)
    (tmp_path / "var/lib/dpkg/status").write_text(text)
    entry = "Package: {}\nMaintainer: M\nArchitecture: {}\nVersion: {}\nSHA256: {}\n\n"
    text = entry.format("a", "amd64", "1:2-3", "x" * 64) + entry.format("b", "all", "2", "y" * 64)
    (tmp_path / "var/lib/apt/lists/m_Packages").write_text(text)
    found = list(bootstrap.packages(str(tmp_path)))
    assert found == [f"a 1:2-3 amd64 sha256:{'x' * 64}", "b 1 all"]


def test_an_archive_that_is_not_there_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bootstrap.os_release("/").get("ID") != "debian":
        pytest.skip("the recipe debian takes its own sources where this is no Debian")
    nowhere = aptsources.AptSources(
        "", "Types: deb\nURIs: file:/nowhere\nSuites: x\nComponents: main", "file:/nowhere", "x"
    )
    monkeypatch.setattr(aptsources, "read", lambda codename: nowhere)
    for epoch, message in (("", "Failed to fetch file:/nowhere/dists/x"), ("7", "mmdebstrap fail")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        with pytest.raises(ImageError, match=f"^{message}") as caught:
            build.build(str(tmp_path), "debian", lambda line: None)
        assert "\n" not in caught.value.line()
        assert os.listdir(tmp_path / "images") == [".lock-debian"]
    with open("/proc/self/mountinfo") as mounts:
        assert str(tmp_path) not in mounts.read()


def test_a_wrong_checksum_is_an_error_and_no_reason_for_a_substitute(tmp_path: Path) -> None:
    (tmp_path / "key.deb").write_text("not the one that was meant")
    (tmp_path / "dist").mkdir()
    wanted = text.Packages(
        distribution="other", suite="x", sources=f"Types: deb\nURIs: file:{tmp_path}\n",
        keyring="/nowhere.gpg", keyring_package="key.deb", keyring_sha256="0" * 64,
        substitute="debian",
    )  # fmt: skip
    with pytest.raises(ImageError, match=r"Hash Sum mismatch|SHA256") as caught:
        bootstrap.prepare(wanted, str(tmp_path / "dist"))
    assert not isinstance(caught.value, bootstrap.UnreachableArchive)


def test_an_archive_without_a_system_for_this_processor_is_not_asked(tmp_path: Path) -> None:
    wanted = text.Packages(distribution="other", partial=(NATIVE.debian,), substitute="debian")
    with pytest.raises(bootstrap.UnreachableArchive, match=f"no whole system for {NATIVE.debian}"):
        bootstrap.prepare(wanted, str(tmp_path))
    assert text.load("ubuntu").packages.partial == ("i386",)


def test_a_keyring_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    wanted = text.Packages(
        distribution="other", suite="x", sources=f"Types: deb\nURIs: file:{tmp_path}\n",
        keyring="/nowhere/debian-archive-keyring.gpg",
    )  # fmt: skip
    with pytest.raises(ImageError, match=r"^/nowhere/debian-archive-keyring.gpg is miss") as caught:
        bootstrap.prepare(wanted, str(tmp_path))
    assert caught.value.hint == "apt-get install debian-archive-keyring"


def test_the_tool_dies_with_the_builder_and_so_do_its_mounts(tmp_path: Path) -> None:
    """What it writes for a while (TMPDIR) lies in the builder's folder: the next one sweeps it."""
    code = (
        "import sys; from rootfs_tools.recipe import bootstrap;"
        "bootstrap._run(['sh', '-c', 'touch $TMPDIR/up; sleep 98.7'], sys.argv[1], 0, print)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=SOURCE) as builder:
        deadline = time.monotonic() + 20
        while not (running("98.7") and (tmp_path / "up").exists()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        builder.send_signal(signal.SIGKILL)
    while running("98.7"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("ending", ["", "; exit 3"])
def test_steps_are_told_and_so_is_their_end(tmp_path: Path, ending: str) -> None:
    told: list[str] = []
    said = f"echo 'I: one...'; echo other >&2; echo 'I: two...'{ending}"
    try:
        bootstrap._run(["sh", "-c", said], str(tmp_path), 0, told.append)
    except ImageError:
        assert ending
    assert told == ["one...", "two...", ""]


def running(word: str) -> list[str]:
    """The processes called with the argument `word`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", pid, "cmdline").read_text().split("\0")
        except OSError:
            continue
        if arguments[:2] == ["sleep", word]:
            found.append(pid)
    return found


def test_os_release_is_read_inside_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.symlink("/proc/self/environ", tmp_path / "etc/os-release")
    with closing(Root.at(str(tmp_path))), pytest.raises(FileNotFoundError):
        bootstrap.os_release(str(tmp_path))
