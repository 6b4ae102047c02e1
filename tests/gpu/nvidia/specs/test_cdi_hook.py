"""nvidia-cdi-hook in a half-started container, whose image is hostile."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu.sandbox import Sandbox, debian_root, fingerprint
from minirun.core.kernel import mounts
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.simulated import elf

LIBRARIES = f"/usr/lib/{NATIVE.triplet}"
PARAMS = "/proc/driver/nvidia/params"


@pytest.fixture
def call(command: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a hook as a runtime does: in the mount namespace, the state on stdin, no environment."""

    def run(box: Sandbox, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        bundle = tmp_path / "bundle"
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text(json.dumps({"root": {"path": box.root}}))
        state = json.dumps({"id": "x", "pid": box.pid, "bundle": str(bundle)})
        enter = ("nsenter", f"--mount=/proc/{box.pid}/ns/mnt", command, "nvidia-cdi-hook")
        return subprocess.run(
            [*enter, *words], input=more.get("input", state), env={}, cwd=bundle,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    return run


Call = Callable[..., subprocess.CompletedProcess[str]]


def done(result: subprocess.CompletedProcess[str]) -> None:
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_links_are_made_and_replaced(debian: Sandbox, call: Call) -> None:
    folder = debian.view(LIBRARIES)
    (folder / "same.so").symlink_to("right")
    (folder / "other.so").symlink_to("wrong")
    (folder / "file.so").write_text("old")
    before = os.lstat(folder / "same.so").st_ino
    names = ("same.so", "other.so", "file.so", "new/deep.so")
    links = [word for name in names for word in ("--link", f"right::{LIBRARIES}/{name}")]
    done(call(debian, "create-symlinks", *links))
    assert [os.readlink(folder / name) for name in names] == ["right"] * 4
    assert os.lstat(folder / "same.so").st_ino == before
    done(call(debian, "create-symlinks", *links))


def test_a_folder_in_the_place_of_a_link(debian: Sandbox, call: Call) -> None:
    result = call(debian, "create-symlinks", "--link", "right::/usr")
    assert result.returncode != 0
    assert result.stderr.startswith("minirun: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["absolute", "dotdot"])
def test_links_of_the_image_lead_nowhere_else(
    tmp_path: Path, sandbox: Callable[[Path], Sandbox], call: Call, how: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "libcuda.so").write_text("the host's")
    root = debian_root(tmp_path / "root")
    (root / f"usr/lib/{NATIVE.triplet}").rmdir()
    target = str(outside) if how == "absolute" else f"../../../../{'../' * 20}{outside}"
    (root / f"usr/lib/{NATIVE.triplet}").symlink_to(target)
    (root / "etc/ld.so.cache").symlink_to(f"{outside}/cache")
    Path(f"{root}{outside}").mkdir(parents=True)
    before = fingerprint(outside)
    box = sandbox(root)
    done(call(box, "create-symlinks", "--link", f"right::{LIBRARIES}/libcuda.so"))
    call(box, "update-ldcache", "--folder", LIBRARIES)
    call(box, "disable-device-node-modification")
    assert fingerprint(outside) == before
    assert os.readlink(f"{root}{outside}/libcuda.so") == "right", "it ends inside the root"


def test_the_cache_is_written(debian: Sandbox, call: Call, store: str) -> None:
    from minirun.gpu.drivers import inventory

    library = next(
        file.path for file in inventory("simulated", store).libraries if "libcuda.so" in file.path
    )
    source = Path(inventory("simulated", store).root + library)
    debian.view(library).write_bytes(source.read_bytes())
    done(call(debian, "update-ldcache", "--folder", LIBRARIES))
    assert b"libcuda.so.1" in debian.view("/etc/ld.so.cache").read_bytes()
    assert os.readlink(debian.view(f"{LIBRARIES}/libcuda.so.1")) == Path(library).name


def listed(root: str) -> list[str]:
    """The paths of libcuda.so.1 that a container's cache has, the first of which counts."""
    words = ["/sbin/ldconfig", "-r", root, "-p"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [row.rpartition(" => ")[2] for row in text.splitlines() if "libcuda.so.1 " in row]


COMPAT = "/usr/local/cuda/compat"


@pytest.mark.parametrize("conf", [True, False])
def test_newer_libraries_of_the_image_come_before_the_drivers(
    debian: Sandbox, call: Call, conf: bool
) -> None:
    """By both hooks and a real ldconfig, and by one that the container runs later."""
    driver = "/usr/lib64"
    for folder, version in ((driver, "550.163.01"), (COMPAT, "560.35.05")):
        debian.view(folder).mkdir(parents=True, exist_ok=True)
        data = elf.shared_object("libcuda.so.1", NATIVE.machine, ("libc.so.6",), "")
        (debian.view(folder) / f"libcuda.so.{version}").write_bytes(data)
    debian.view("/etc/ld.so.cache").touch()
    if not conf:
        debian.view("/etc/ld.so.conf").unlink()
    for _ in range(2):
        done(call(debian, "enable-cuda-compat", "--host-driver-version=550.163.01"))
        done(call(debian, "update-ldcache", "--folder", driver, "--folder", LIBRARIES))
    assert listed(debian.root) == [f"{COMPAT}/libcuda.so.1", f"{driver}/libcuda.so.1"]
    confs = sorted(path.name for path in debian.view("/etc/ld.so.conf.d").iterdir())
    assert [name.partition("-")[0] for name in confs] == ["00", "00", "00", "x.conf", "zz"]
    (named,) = [name for name in confs if name.startswith("00-nvcr-")]
    assert debian.view(f"/etc/ld.so.conf.d/{named}").read_text() == f"{driver}\n"
    debian.view("/etc/ld.so.cache").unlink()
    subprocess.run(["/sbin/ldconfig", "-r", debian.root], check=True, capture_output=True)
    assert listed(debian.root)[0] == f"{COMPAT}/libcuda.so.1"


def test_a_hook_of_another_release_lets_the_container_start(debian: Sandbox, call: Call) -> None:
    for words, text in (
        (("nosuch", "--new=1"), "Unsupported CDI hook: nosuch"),
        ((), "No CDI hook specified"),
        (("--nosuch",), "No CDI hook specified"),
    ):
        result = call(debian, *words)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (0, "", 1)
        assert f'level=warning msg="{text}"' in result.stderr
    done(call(debian, "--quiet", "nosuch"))
    done(call(debian, "noop", input=""))


def test_debug_says_what_is_done(debian: Sandbox, call: Call) -> None:
    words = ("create-symlinks", "--link", f"right::{LIBRARIES}/x.so")
    assert "level=debug" in call(debian, "--debug", *words).stderr
    done(call(debian, "--debug", "--quiet", *words))
    assert call(debian, "--version").stdout.startswith("NVIDIA CDI Hook CLI version ")


def give_params(box: Sandbox, text: str) -> None:
    def work(_: object) -> None:
        mounts.mount("tmpfs", f"{box.root}/proc/driver", "tmpfs")
        os.mkdir(f"{box.root}/proc/driver/nvidia")
        for name in ("params", "version"):
            Path(f"{box.root}/proc/driver/nvidia/{name}").write_text(text)

    assert box.inside(work)["error"] == ""


def test_params_say_that_nodes_are_not_to_be_made(debian: Sandbox, call: Call) -> None:
    give_params(debian, "A: 1\nModifyDeviceFiles: 1\nB: 2\n")
    done(call(debian, "disable-device-node-modification"))
    assert debian.view(PARAMS).read_text() == "A: 1\nModifyDeviceFiles: 0\nB: 2\n"
    assert debian.view("/proc/driver/nvidia/version").read_text().startswith("A: 1\nM")
    (row,) = [row for row in debian.mounts() if row["at"] == PARAMS]
    assert (row["type"], row["from"]) == ("tmpfs", "/params")
    assert row["flags"] == ["nodev", "noexec", "nosuid", "ro"]
    count = len(debian.mounts())
    done(call(debian, "disable-device-node-modification"))
    assert len(debian.mounts()) == count, "once is enough"


@pytest.mark.parametrize("line", ("  {}: 1", "{}: 1  ", "{}: 11", "{}: 0", "No{}: 1"))
def test_only_the_very_line_of_params_is_another(debian: Sandbox, call: Call, line: str) -> None:
    give_params(debian, f"A: 1\n{line.format('ModifyDeviceFiles')}\n")
    before = debian.mounts()
    done(call(debian, "disable-device-node-modification"))
    assert debian.mounts() == before


def test_without_a_driver_in_proc_there_is_nothing_to_hide(debian: Sandbox, call: Call) -> None:
    before = debian.mounts()
    done(call(debian, "disable-device-node-modification"))
    assert debian.mounts() == before


PROFILE = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"


def give_nodes(box: Sandbox, *minors: int) -> None:
    def work(_: object) -> None:
        for minor in minors:
            os.mknod(f"{box.root}/dev/nvidia{minor}", 0o020666, os.makedev(195, minor))

    assert box.inside(work)["error"] == ""


def test_the_application_profile_names_the_gpus(debian: Sandbox, call: Call) -> None:
    done(call(debian, "update-application-profile"))
    assert not debian.view(PROFILE).exists(), "no gpu, no profile"
    give_nodes(debian, 0, 3, 70)
    for _ in range(2):
        done(call(debian, "update-application-profile"))
    (profile,) = json.loads(debian.view(PROFILE).read_text().replace("0x9", "9"))["profiles"]
    assert profile["settings"] == ["EGLVisibleDGPUDevices", 9]
    assert debian.view(PROFILE).stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    ("files", "written"),
    [
        (["libcuda.so.560.35.05"], True),
        (["libcuda.so.550.90.07"], False),
        (["libcuda.so.535.1.1"], False),
        (["libcuda.so.560.35.05", "libcuda.so.570.1.1"], False),
        ([], False),
    ],
)
def test_cuda_compat_counts_where_it_is_newer(
    debian: Sandbox, call: Call, files: list[str], written: bool
) -> None:
    folder = debian.view("/usr/local/cuda/compat")
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_text("")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.560.35.05")
    words = ("enable-cuda-compat", "--host-driver-version=550.163.01")
    assert not debian.view("/etc/ld.so.cache").exists(), "as in an image of the fewest files"
    done(call(debian, *words))
    conf = debian.view("/etc/ld.so.conf.d")
    found = [path.read_text() for path in conf.glob("00-compat-*")]
    assert found == (["/usr/local/cuda/compat\n"] if written else [])


DRIVER = "/usr/lib64/driver"
MUSL = f"/etc/ld-musl-{NATIVE.musl}.path"


@pytest.mark.parametrize("release", ("alpine-release", "fedora-release"))
def test_folders_outside_debian(debian: Sandbox, call: Call, release: str) -> None:
    """Standard folders as glibc's loader has them there; for musl's loader in a file of its own."""
    debian.view("/etc/debian_version").rename(debian.view(f"/etc/{release}"))
    for _ in range(2):
        done(call(debian, "update-ldcache", "--folder", DRIVER))
    (named,) = debian.view("/etc/ld.so.conf.d").glob("zz-nvcr-*")
    standard = named.read_text().split()
    x32 = ["/libx32", "/usr/libx32"] if NATIVE.machine == "x86_64" else []
    assert standard == ["/lib", "/usr/lib", "/lib64", "/usr/lib64", *x32]
    if release == "fedora-release":
        assert not debian.view(MUSL).exists()
        return
    assert debian.view(MUSL).read_text().split() == [DRIVER, *standard, "/usr/local/lib"]
    debian.view(MUSL).write_text("/opt/lib:/lib")
    done(call(debian, "update-ldcache", "--folder", DRIVER))
    rest = [path for path in standard if path != "/lib"]
    assert debian.view(MUSL).read_text().split("\n") == ["/opt/lib:/lib", DRIVER, *rest, ""]


def test_a_link_in_the_place_of_musls_file(debian: Sandbox, call: Call, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("the host's")
    debian.view("/etc/alpine-release").write_text("3.20.0\n")
    Path(f"{debian.root}{MUSL}").symlink_to(outside)
    done(call(debian, "update-ldcache", "--folder", DRIVER))
    assert outside.read_text() == "the host's"
    assert not debian.view(MUSL).is_symlink() and DRIVER in debian.view(MUSL).read_text()


def test_folders_get_a_mode(debian: Sandbox, call: Call) -> None:
    debian.view("/run").chmod(0o700)
    done(call(debian, "chmod", "--mode", "755", "--path", "/run", "--path", "/nosuch"))
    assert debian.view("/run").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("where", ["/etc/nvidia", "/usr/local/cuda"])
def test_files_are_written_below_the_root_alone(
    tmp_path: Path, sandbox: Callable[[Path], Sandbox], call: Call, where: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "compat").mkdir(parents=True)
    (outside / "compat/libcuda.so.560.35.05").write_text("the host's")
    root = debian_root(tmp_path / "root")
    (root / "etc/ld.so.cache").write_text("")
    Path(f"{root}{where}").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{root}{where}").symlink_to(outside)
    before = fingerprint(outside)
    box = sandbox(root)
    give_nodes(box, 0)
    call(box, "update-application-profile")
    done(call(box, "enable-cuda-compat", "--host-driver-version=550.163.01"))
    assert fingerprint(outside) == before
    assert not list((root / "etc/ld.so.conf.d").glob("00-compat-*"))


@pytest.mark.parametrize("name", ["nvidia-cdi-hook", "nvidia-ctk"])
def test_called_by_the_names_of_nvidias_programs(
    debian: Sandbox, command: str, tmp_path: Path, name: str
) -> None:
    program = tmp_path / name
    program.symlink_to(command)
    (tmp_path / "config.json").write_text(json.dumps({"root": {"path": debian.root}}))
    state = json.dumps({"id": "x", "pid": debian.pid, "bundle": str(tmp_path)})
    words = ["hook"] if name == "nvidia-ctk" else []
    words += ["create-symlinks", "--link", f"right::{LIBRARIES}/x.so"]
    enter = ("nsenter", f"--mount=/proc/{debian.pid}/ns/mnt", str(program))
    subprocess.run([*enter, *words], input=state, env={}, text=True, check=True, timeout=60)
    assert os.readlink(debian.view(f"{LIBRARIES}/x.so")) == "right"


@pytest.mark.parametrize(
    ("words", "stdin", "text"),
    [
        (("chmod", "--nosuch"), "{}", "unknown flag: --nosuch"),
        (("create-symlinks", "--link", "a:b"), "{}", "nvidia-cdi-hook: invalid link 'a:b'"),
        (("chmod", "--mode", "9"), "{}", "nvidia-cdi-hook: invalid mode '9'"),
        (("update-ldcache",), "{", "nvidia-cdi-hook: no container's state on standard input"),
        (("update-ldcache",), "{}", "nvidia-cdi-hook: no container's state on standard input"),
    ],
)
def test_mistakes(
    debian: Sandbox, call: Call, words: tuple[str, ...], stdin: str, text: str
) -> None:
    result = call(debian, *words, input=stdin)
    assert result.returncode == 1
    assert result.stderr.startswith(f"minirun: {text}")
    assert result.stderr.count("\n") == 1
