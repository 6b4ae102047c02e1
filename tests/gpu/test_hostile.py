"""Hostile images: every injected path is a trap. Nothing outside of the container changes.

`outside` is a folder of the host that links of the image point at; it and the driver's files are
hashed before and after. Links are followed inside the container's root or refused, never out.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import images
from gpu.sandbox import Sandbox, debian_root, fingerprint, host_path
from minirun.core.kernel import mountinfo
from minirun.core.kernel.architecture import NARROW, NATIVE
from minirun.gpu.drivers import inventory
from minirun.gpu.simulated import elf
from required import installed

ALL = ("--device=all", "--compute", "--utility", "--video", "--graphics", "--display", "--ngx",
       "--compat32")  # fmt: skip
LIBRARIES = f"usr/lib/{NATIVE.triplet}"
INJECTED = (
    LIBRARIES, *([f"usr/lib/{NARROW.triplet}"] if NARROW else []), "usr/bin/nvidia-smi",
    "usr/lib/firmware",
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
    folder = root / LIBRARIES / "libnvidia-cfg.so.550.163.01"
    folder.mkdir()
    box = sandbox(root)
    error = box.configure("--device=0", "--utility", store=store)["error"]
    assert "libnvidia-cfg.so.550.163.01" in error and "Not a directory" in error
    folder.rmdir()
    assert box.configure("--device=0", "--utility", store=store)["error"] == ""
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


# --- whole runs, in both modes -----------------------------------------------------------------

MODES = ("legacy", "cdi")
IN_A_RUN = (
    LIBRARIES, "usr/lib", "usr/bin", "usr/bin/nvidia-smi", f"{LIBRARIES}/libcuda.so.550.163.01",
    f"{LIBRARIES}/libcuda.so", f"{LIBRARIES}/libcuda.so.1", "run", "run/nvidia-persistenced",
    "usr/lib/firmware", "etc", "etc/ld.so.conf.d", "etc/ld.so.conf", "etc/ld.so.cache", "tmp",
)  # fmt: skip
WHOLE = (
    *(("cdi", kind, name) for name in IN_A_RUN for kind in ("absolute", "dots")),
    *(("cdi", "file", name) for name in (LIBRARIES, "usr/bin/nvidia-smi", "etc/ld.so.cache")),
    *(("legacy", kind, LIBRARIES) for kind in ("absolute", "dots", "file")),
)
"""(mode, kind of link, place): legacy mode is gone through above, place by place."""
LEAKING = """
#include <fcntl.h>
__attribute__((constructor)) static void here(void) { open(TOUCHED, O_CREAT | O_WRONLY, 0600); }
"""


class Run:
    """`minirun run --gpus` of an image that a test has made hostile."""

    def __init__(self, program: Program, store: Path) -> None:
        self.program = program.at(store)
        self.store = store
        self.layer = Path()

    def image(self, *env: str) -> Path:
        """Make the image, laid out as Debian's; return its layer."""
        self.layer = images.make(self.store, "hostile", env)
        for folder in (LIBRARIES, "etc/ld.so.conf.d", "run"):
            (self.layer / folder).mkdir(parents=True)
        (self.layer / "etc/debian_version").write_text("12.0\n")
        (self.layer / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
        return self.layer

    def __call__(self, mode: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run it; whatever comes of it, the image and the host are as they were."""
        before = fingerprint(self.layer), host_state()
        flags = ("run", "--rm", "--gpu-driver", "simulated")
        flags = (*flags, "--gpus", "all", "--gpu-mode", mode, "hostile")
        done = self.program(*flags, *(command or ("cat", "/proc/self/mountinfo")))
        assert (fingerprint(self.layer), host_state()) == before
        assert done.returncode in (0, 125), done.stderr
        assert "Traceback" not in done.stderr
        if done.returncode:
            assert done.stderr.count("\n") == 1, done.stderr
        assert not list(self.program.root.glob("[!.]*"))
        return done


def host_state() -> tuple[list[str], list[str], list[str]]:
    """The host: mounts (but for those of other tests), nodes of a driver, and /etc."""
    places = [mount.mount_point for mount in mountinfo.read()]
    others = ("/minirun-podman-", "/pytest-of-", "/binfmt_misc")  # the last by systemd, when asked
    mounted = [place for place in places if not any(word in place for word in others)]
    nodes = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
    status = os.stat("/etc/ld.so.cache")
    return mounted, nodes, [*sorted(os.listdir("/etc")), f"{status.st_ino} {status.st_mtime_ns}"]


@pytest.fixture
def hostile(minirun: Program, tmp_path: Path) -> Run:
    inventory("simulated", str(tmp_path / "store"))  # the driver's files are the host's
    return Run(minirun, tmp_path / "store")


@pytest.mark.parametrize(("mode", "kind", "name"), WHOLE)
def test_a_link_in_an_image_that_is_run(
    name: str, kind: str, mode: str, hostile: Run, outside: Path
) -> None:
    layer = hostile.image()
    targets = {
        "absolute": f"{outside}/folder",
        "dots": "../" * 20 + f"{outside}/folder"[1:],
        "file": f"{outside}/file",
    }
    trap(layer, name, targets[kind])
    done = hostile(mode)
    sources = [host_path(mount) for mount in mountinfo.parse(done.stdout)]
    assert not [source for source in sources if source.startswith(str(outside))]


@pytest.mark.parametrize("mode", MODES)
def test_the_environment_of_an_image_reaches_no_hook(
    mode: str, hostile: Run, outside: Path, tmp_path: Path
) -> None:
    """CVE-2025-23266: LD_PRELOAD reaches a createContainer hook. Here by every name that loads."""
    installed("gcc")
    touched = tmp_path / "touched"
    code, library = tmp_path / "leaking.c", tmp_path / "leaking.so"
    code.write_text(LEAKING)
    define = f'-DTOUCHED="{touched}"'
    subprocess.run(["gcc", "-shared", "-fPIC", define, "-o", library, code], check=True)
    subprocess.run(["ls"], env={"PATH": "/bin", "LD_PRELOAD": str(library)}, check=True,
                   capture_output=True)  # fmt: skip
    assert touched.exists(), "it tells"
    touched.unlink()
    (tmp_path / "usercustomize.py").write_text(f"open({str(touched)!r}, 'w')")
    layer = hostile.image(
        f"LD_PRELOAD={library}", f"LD_LIBRARY_PATH={tmp_path}", f"PYTHONPATH={tmp_path}",
        f"PYTHONHOME={tmp_path}", f"GCONV_PATH={tmp_path}", f"LD_AUDIT={library}",
        f"PATH={tmp_path}", "MINIRUN_SIM=count=1",
    )  # fmt: skip
    shutil.copy(library, layer / "leaking.so")
    (layer / "etc/ld.so.preload").write_text("/leaking.so\n")
    done = hostile(mode, "/bin/sh", "-c", "/bin/ls /dev; echo $LD_PRELOAD")
    assert done.returncode == 0, done.stderr
    assert {"nvidia0", "nvidia3", str(library)} <= {*done.stdout.split()}, "the image's own it is"
    assert not touched.exists()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_from_outside_is_in_the_containers_cache(
    mode: str, hostile: Run, outside: Path
) -> None:
    """ldconfig reads configuration through links of the image: inside."""
    layer = hostile.image()
    data = elf.shared_object("libevil.so.1", NATIVE.machine, ("libc.so.6",), "evil")
    (outside / "libevil.so.1").write_bytes(data)
    (outside / "folder/x.conf").write_text(f"{outside}\n")
    trap(layer, "etc/ld.so.conf.d", f"{outside}/folder")
    try:
        done = hostile(mode, "cat", "/etc/ld.so.cache")
    finally:
        (outside / "libevil.so.1").unlink()
        (outside / "folder/x.conf").unlink()
    assert done.returncode == 0, done.stderr
    assert "libcuda.so.1" in done.stdout
    assert "libevil" not in done.stdout


@pytest.mark.parametrize("mode", MODES)
def test_mount_points_lie_on_the_containers_own_layer(mode: str, hostile: Run) -> None:
    """The real stack left 94 empty files in an image after five runs."""
    layer = hostile.image()
    before = fingerprint(layer)
    program = hostile.program
    flags = ("run", "-d", "--name", "c", "--gpus", "all")
    done = program(*flags, "--gpu-driver=simulated", "--gpu-mode", mode, "hostile", "sleep", "60")
    assert done.returncode == 0, done.stderr
    upper = program.directory("c") / "upper"
    made = upper / "usr/bin/nvidia-smi"
    assert made.is_file() and made.stat().st_size == 0
    assert (upper / LIBRARIES / "libcuda.so.1").is_symlink()
    assert fingerprint(layer) == before
    program("delete", "--force", "c")
    assert fingerprint(layer) == before
