"""Hostile images: every injected path is a trap. Nothing outside of the container changes.

`outside` is a folder of the host that links of the image point at; it and the driver's files are
hashed before and after. Links are followed inside the container's root or refused, never out.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu.sandbox import Sandbox, debian_root, fingerprint
from minirun.gpu.inventory import inventory

ALL = ("--device=all", "--compute", "--utility", "--video", "--graphics", "--display", "--ngx",
       "--compat32")  # fmt: skip
LIBRARIES = "usr/lib/x86_64-linux-gnu"
INJECTED = (
    LIBRARIES, "usr/lib/i386-linux-gnu", "usr/bin/nvidia-smi", "usr/lib/firmware",
    f"{LIBRARIES}/libcuda.so.550.163.01", f"{LIBRARIES}/libcuda.so", f"{LIBRARIES}/libcuda.so.1",
    "run", "run/nvidia-persistenced", "run/nvidia-persistenced/socket", "etc/nvidia",
    "etc/ld.so.cache", "etc/ld.so.cache~", "etc/ld.so.conf", "etc/ld.so.conf.d", "etc",
    "etc/debian_version", "tmp", "var/cache/ldconfig", "usr/lib", "usr/bin",
    "usr/lib/firmware/nvidia",
)  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path, store: str) -> Iterator[Path]:
    """A folder of the host; after the test it, and the driver's files, are as before."""
    root = inventory("simulated", store).root
    path = tmp_path / "outside"
    (path / "folder").mkdir(parents=True)
    (path / "file").write_text("the host's own\n")
    (path / "libevil.so.550.163.01").write_bytes(b"evil")
    before = fingerprint(path), fingerprint(Path(root))
    yield path
    assert (fingerprint(path), fingerprint(Path(root))) == before


def trap(root: Path, name: str, target: str) -> None:
    """Put a link where the injection wants to put something."""
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def check(box: Sandbox, outcome: dict[str, Any], outside: Path, store: str) -> None:
    """Either refused with one line, or done inside; in no case a source in the image."""
    assert "\n" not in outcome["error"] and "CRASH" not in outcome["error"], outcome["error"]
    driver = inventory("simulated", store).root
    allowed = (driver, "/", str(Path(box.root)))
    for row in box.mounts():
        assert row["from"].startswith(driver) or row["from"] in allowed, row


@pytest.mark.parametrize("name", INJECTED)
@pytest.mark.parametrize("kind", ("absolute folder", "absolute file", "dots", "loop", "proc"))
def test_a_link_at_an_injected_path(
    name: str, kind: str, tmp_path: Path, outside: Path, store: str,
    sandbox: Callable[[Path], Sandbox],
) -> None:  # fmt: skip
    targets = {
        "absolute folder": f"{outside}/folder",
        "absolute file": f"{outside}/file",
        "dots": "../" * 20 + f"{outside}/folder"[1:],
        "loop": f"/{name}",
        "proc": "/proc/1/root/etc",
    }
    root = debian_root(tmp_path / "root")
    trap(root, name, targets[kind])
    box = sandbox(root)
    outcome = box.configure(*ALL, store=store)
    check(box, outcome, outside, store)


def test_links_that_exist_inside_are_followed_inside(
    tmp_path: Path, outside: Path, store: str, sandbox: Callable[[Path], Sandbox]
) -> None:
    root = debian_root(tmp_path / "root")
    inner = root / str(outside / "folder")[1:]  # the same path, below the container's root
    inner.mkdir(parents=True)
    trap(root, LIBRARIES, str(outside / "folder"))
    box = sandbox(root)
    assert box.configure("--device=0", "--utility", store=store)["error"] == ""
    found = box.view(str(outside / "folder") + "/libnvidia-ml.so.1")
    assert os.readlink(found) == "libnvidia-ml.so.550.163.01"


def test_the_compatibility_libraries_of_an_image_are_no_source(
    tmp_path: Path, outside: Path, store: str, sandbox: Callable[[Path], Sandbox]
) -> None:
    root = debian_root(tmp_path / "root")
    compat = root / "usr/local/cuda/compat"
    compat.mkdir(parents=True)
    (compat / "libcuda.so.999.1").symlink_to(f"{outside}/file")
    trap(root, "usr/local/cuda-12/compat", str(outside))
    box = sandbox(root)
    outcome = box.configure("--device=0", "--compute", store=store)
    assert outcome["error"] == ""
    check(box, outcome, outside, store)


def test_files_of_the_image_with_the_drivers_names(
    tmp_path: Path, outside: Path, store: str, sandbox: Callable[[Path], Sandbox]
) -> None:
    root = debian_root(tmp_path / "root")
    library = root / LIBRARIES / "libnvidia-ml.so.550.163.01"
    library.write_bytes(b"the image's own")
    (root / LIBRARIES / "libnvidia-cfg.so.550.163.01").mkdir()
    box = sandbox(root)
    error = box.configure("--device=0", "--utility", store=store)["error"]
    assert "libnvidia-cfg.so.550.163.01" in error and "Invalid argument" in error
    assert b"ELF" in box.view(f"/{LIBRARIES}/{library.name}").read_bytes()  # covered,
    assert library.read_bytes() == b"the image's own"  # not written to


def test_code_of_the_image_is_not_run(
    tmp_path: Path, outside: Path, store: str, sandbox: Callable[[Path], Sandbox]
) -> None:
    root = debian_root(tmp_path / "root")
    marker = "#!/bin/sh\ntouch /was-here\n"
    for path in ("sbin/ldconfig", "usr/bin/ldconfig", "bin/modprobe", "evil.so"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(marker)
        (root / path).chmod(0o755)
    (root / "etc/ld.so.preload").write_text("/evil.so\n")
    (root / "usr/lib/python3.11").mkdir(parents=True)
    (root / "usr/lib/python3.11/encodings.py").write_text("open('/was-here', 'w')")
    box = sandbox(root)
    outcome = box.configure(*ALL, store=store, LD_PRELOAD="/evil.so", LD_LIBRARY_PATH="/evil")
    assert outcome["error"] == ""
    assert not box.view("/was-here").exists()
    assert sum(event["kind"] == "exec" for event in outcome["events"]) == 1


@pytest.mark.parametrize("path", ("nvidia0", "nvidiactl", "nvidia-uvm"))
@pytest.mark.parametrize("kind", ("link", "file", "other device", "folder"))
def test_something_else_at_a_nodes_path(
    path: str, kind: str, debian: Sandbox, outside: Path, store: str
) -> None:
    node = debian.view(f"/dev/{path}")
    if kind == "link":
        node.symlink_to(f"{outside}/file")
    elif kind == "file":
        node.write_text("")
    elif kind == "folder":
        node.mkdir()
    else:
        os.mknod(node, 0o020666, os.makedev(1, 3))
    error = debian.configure("--device=0", "--compute", store=store)["error"]
    assert error.startswith(f"mount error: invalid device node: /dev/{path}")


def test_the_same_node_is_left_as_it_is(debian: Sandbox, store: str) -> None:
    os.mknod(debian.view("/dev/nvidia0"), 0o020600, os.makedev(195, 0))
    assert debian.configure("--device=0", "--compute", store=store)["error"] == ""


def test_the_root_filesystem_is_a_file(debian: Sandbox, store: str) -> None:
    outcome = debian.configure("--device=0", store=store)
    assert outcome["error"] == ""
    gone = Sandbox("/dev/null")
    gone.pid = debian.pid
    gone.root = f"{debian.root}/etc/debian_version"
    assert "Not a directory" in gone.configure("--device=0", store=store)["error"]
