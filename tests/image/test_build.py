"""The recipes, and what stands in the store that `make test` and `make demo` fill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from minirun.doctor.attempts import in_child
from minirun.image import aptsources, build, catalogue, debian
from minirun.image.catalogue import Draft

STORE = os.environ.get("MINIRUN_STORE", "/var/lib/minirun")
SOURCE = str(Path(build.__file__).parents[2])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with busybox, built here."""
    path = str(tmp_path_factory.mktemp("store"))
    build.build(path, "busybox", lambda line: None)
    return path


def test_busybox_runs_in_its_own_root(filled: str) -> None:
    root = catalogue.resolve(filled, "busybox").layers[0]
    command = ["chroot", root, "/bin/sh", "-c", "id -un; ls -ld /tmp; awk 'BEGIN{print 6*7}'"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    user, directory, answer = output.splitlines()
    assert (user, answer) == ("root", "42")
    assert directory.startswith("drwxrwxrwt")
    links = [p for d, _, n in os.walk(root) for f in n if os.path.islink(p := os.path.join(d, f))]
    assert len(links) > 200
    broken = [p for p in links if os.path.relpath(os.path.realpath(p), root) != "bin/busybox"]
    assert broken == []


def test_two_builds_have_one_digest_and_say_what_they_are(filled: str, tmp_path: Path) -> None:
    told: list[str] = []
    again = build.build(str(tmp_path), "busybox", told.append)
    assert again.digest == catalogue.resolve(filled, "busybox").digest
    assert told == ["building busybox"]
    recipe = catalogue.details(filled, "busybox")["recipe"]
    assert recipe["packages"]["busybox-static"] in again.origin
    times = {
        os.lstat(os.path.join(d, n)).st_mtime for d, _, f in os.walk(again.layers[0]) for n in f
    }
    assert len(times) == 1


def test_an_intact_image_is_kept_and_a_damaged_one_built_again(tmp_path: Path) -> None:
    first = build.build(str(tmp_path), "busybox", lambda line: None)
    inode = os.stat(first.layers[0]).st_ino
    assert build.build(str(tmp_path), "busybox", pytest.fail) == first
    assert os.stat(first.layers[0]).st_ino == inode
    Path(first.layers[0], "etc/passwd").write_text("root::0:0::/:/bin/sh\n")
    told: list[str] = []
    assert build.build(str(tmp_path), "busybox", told.append).digest == first.digest
    assert "damaged" in told[0]
    Path(first.layers[0], "../../image.json").write_text("{")
    assert build.find_or_build(str(tmp_path), "busybox", told.append).digest == first.digest


def test_a_name_without_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no recipe for alpine"):
        build.build(str(tmp_path), "alpine", pytest.fail)
    assert os.listdir(tmp_path) == []


def test_ensure_builds_what_is_missing_and_says_so_once(tmp_path: Path) -> None:
    told: list[str] = []
    image = build.find_or_build(str(tmp_path), "docker.io/library/busybox", told.append)
    assert image.name == "busybox:latest"
    assert build.find_or_build(str(tmp_path), "busybox", told.append) == image
    assert told == ["building busybox"]


def test_the_substitute_never_passes_for_ubuntu(tmp_path: Path) -> None:
    """With a stand-in for the image debian: what is tested is the name it is given."""
    with Draft(str(tmp_path), "debian") as draft:
        layer = Path(draft.layer())
        (layer / "etc").mkdir()
        (layer / "etc/os-release").write_text("ID=debian\n")
        os.symlink("etc", layer / "link")
        draft.commit("Debian GNU/Linux 99", recipe={"name": "debian"}, cmd=["bash"])
    told: list[str] = []
    image = build.find_or_build(str(tmp_path), "ubuntu", told.append)
    assert len(told) == 1
    assert "a substitute" in told[0]
    assert "not Ubuntu" in told[0]
    assert image.origin == "not Ubuntu: Debian GNU/Linux 99, under the name ubuntu"
    assert image.cmd == ("bash",)
    assert image.digest == catalogue.resolve(str(tmp_path), "debian").digest
    assert Path(image.layers[0], "etc/os-release").read_text() == "ID=debian\n"
    same = os.stat(layer / "etc/os-release") if layer.exists() else None
    assert same is None, "the draft was moved"
    catalogue.remove_image(str(tmp_path), "debian")
    assert catalogue.verify(str(tmp_path), "ubuntu") == ""


def test_the_debian_in_the_store_is_trimmed_and_names_no_machine() -> None:
    details = catalogue.details(STORE, "debian")
    root = catalogue.resolve(STORE, "debian").layers[0]
    assert os.listdir(os.path.join(root, "dev")) == []
    assert os.listdir(os.path.join(root, "var/lib/apt/lists")) == []
    assert Path(root, "etc/resolv.conf").read_text() == ""
    assert Path(root, "etc/hostname").read_text() == "debian\n"
    assert details["recipe"]["packages"].keys() >= {"apt", "bash", "coreutils", "libc6", "procps"}
    assert details["recipe"]["packages"] == debian.packages(root)
    assert debian.os_release(root)["ID"] == "debian"
    assert debian.os_release(root)["PRETTY_NAME"] in details["origin"]
    documents = {name for _, _, files in os.walk(f"{root}/usr/share/doc") for name in files}
    assert documents == {"copyright"}


def test_trimming_follows_no_link(tmp_path: Path) -> None:
    """In a chroot, so that a link that was followed would lead to the test's own `host`."""
    host, tree = tmp_path / "host", tmp_path / "tree"
    (host / "inner").mkdir(parents=True)
    (host / "inner" / "file").touch()
    for path in ("etc", "var", "usr/share/man/man1"):
        (tree / path).mkdir(parents=True)
    os.symlink("/host/inner", tree / "usr/share/doc")
    for path in ("run", "var/log", "dev"):
        os.symlink("/host", tree / path)
        (tmp_path / path / "kept").mkdir(parents=True)
    (tree / "usr/share/man/man1/ls.1").touch()
    os.symlink("/host/inner/file", tree / "etc" / "hostname")

    def trim() -> str:
        os.chroot(tmp_path)
        os.chdir("/")
        debian.trim("/tree")
        return ""

    works, text = in_child(trim)
    assert (works, text.partition(":")[0]) == (False, "hostname"), "a link is not written to"
    os.unlink(tree / "etc" / "hostname")
    assert in_child(trim) == (True, "")
    assert os.listdir(tree / "usr/share/man") == []
    assert (tree / "etc" / "hostname").read_text() == "debian\n"
    assert os.listdir(host / "inner") == ["file"]
    assert (host / "inner" / "file").read_bytes() == b""
    assert all((tmp_path / path / "kept").is_dir() for path in ("run", "var/log", "dev"))


def test_a_failing_tool_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = aptsources.AptSources(
        "", "Types: deb\nURIs: file:/nowhere\nSuites: x\nComponents: main", "", "x"
    )
    monkeypatch.setattr(aptsources, "read", lambda codename: nowhere)
    with pytest.raises(ImageError, match=r"^mmdebstrap failed: ") as caught:
        build.build(str(tmp_path), "debian", lambda line: None)
    assert "\n" not in caught.value.line()
    assert os.listdir(tmp_path / "images") == [".lock-debian"]
    with open("/proc/self/mountinfo") as mounts:
        assert str(tmp_path) not in mounts.read()


def test_the_tool_dies_with_the_builder_and_so_do_its_mounts(tmp_path: Path) -> None:
    code = (
        "import sys; from minirun.image import debian;"
        "debian._run(['sh', '-c', 'touch /mnt/up; sleep 98.7'], sys.argv[1], '', 0)"
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


def test_the_program_in_rootfs_tools(tmp_path: Path) -> None:
    program = os.path.join(SOURCE, "rootfs-tools/build")
    command = [program, "busybox", "--store", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert (result.returncode, result.stderr) == (0, "building busybox\n")
    assert result.stdout.startswith("busybox:latest  sha256:")
    assert json.loads((tmp_path / "images/busybox/image.json").read_text())["name"] == "busybox"
    bad = subprocess.run([program, "alpine"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert "invalid choice: 'alpine'" in bad.stderr
