"""A driver root is as trustworthy as "/": whose it is, where it lies, and what it leads to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Program
from layers import STORE, layer_of
from minirun.core.errors import GPUError
from minirun.core.rootfs.inroot import Root
from minirun.gpu import driverroot, trusted
from minirun.gpu.nvidia.shared import find, real
from minirun.gpu.steps import DeviceNode, Place
from minirun.gpu.vendors import discovery
from toolkit.vendors.tree import DRM, amd_host, intel_host

ADDRESS = "0000:00:02.0"
BY_PATH = f"dev/dri/by-path/pci-{ADDRESS}-card"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A driver root with two Intel GPUs, and beside it what it must not lead to."""
    intel_host(tmp_path / "driver")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("the host's\n")
    return tmp_path / "driver"


def exchange(place: Path, target: str | Path) -> None:
    place.unlink()
    place.symlink_to(target)


# --- whose it is, and where it lies ------------------------------------------------------------


def test_roots_own_folder_is_one(tmp_path: Path) -> None:
    """Also below /tmp: it has the sticky bit, so no user can exchange what is root's."""
    assert trusted.check(f"{tmp_path}/.") == str(tmp_path)
    assert trusted.check("") == trusted.check("/") == ""


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("change", ["owner", "group", "others"])
def test_a_folder_that_another_user_can_change(tmp_path: Path, change: str, above: bool) -> None:
    place = tmp_path / "a/b"
    place.mkdir(parents=True)
    changed = place.parent if above else place
    if change == "owner":
        os.chown(changed, 1000, 0)
    else:
        changed.chmod(0o775 if change == "group" else 0o757)
    with pytest.raises(GPUError, match=f"driver root {place}: {changed} "):
        trusted.check(str(place))


def test_in_a_user_namespace_where_root_has_no_name() -> None:
    """As rootless podman calls its runtime: "/" belongs to the overflow id there."""
    code = "import os; from minirun.gpu.trusted import check;"
    code += " print(check('/usr/lib'), os.stat('/').st_uid)"
    user = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
    argv = [*user, "unshare", "--user", "--map-root-user", sys.executable, "-B", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["/usr/lib", "65534"], done.stderr


def test_the_sticky_bit_is_enough_above_but_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tmp_path.chmod(0o1777)
    assert trusted.check(f"{tmp_path}/a") == f"{tmp_path}/a"
    with pytest.raises(GPUError, match="may be changed by others"):
        trusted.check(str(tmp_path))


@pytest.mark.parametrize("mark", trusted.MARKS)
def test_a_place_of_images_and_containers(tmp_path: Path, mark: str) -> None:
    place = tmp_path / "store/overlay/abc/diff/driver"
    place.mkdir(parents=True)
    assert trusted.check(str(place))
    (tmp_path / "store" / mark).mkdir(parents=True)
    with pytest.raises(GPUError, match=f"{tmp_path}/store holds containers or images"):
        trusted.check(str(place))
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(GPUError, match="holds containers or images"):
        trusted.check(f"{tmp_path}/link")


def test_the_usual_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where such a place is a link to another disk."""
    (tmp_path / "data/overlay2/abc/merged").mkdir(parents=True)
    (tmp_path / "docker").symlink_to("data")
    monkeypatch.setattr(trusted, "STORES", (f"{tmp_path}/docker",))
    with pytest.raises(GPUError, match="holds containers or images"):
        trusted.check(f"{tmp_path}/data/overlay2/abc/merged")


def test_the_layer_of_an_image_in_one_line(minirun: Program) -> None:
    store = layer_of("busybox")
    flags = ("--gpus", "0", "--driver-root", str(store), "--gpu-driver")
    for driver in ("nvidia", "amd", "intel", "gaudi"):
        done = minirun("run", "--rm", *flags, driver, "busybox", "true")
        assert (done.returncode, done.stderr.count("\n")) == (125, 1)
        assert done.stderr.startswith(f"minirun: driver root {store}: {STORE}/")
        assert "holds containers or images" in done.stderr
    programs = (("nvidia-container-cli", f"--root={store}", "info"), ("gpu", "list", *flags[2:4]))
    for words in programs:
        done = minirun(*words)
        assert done.returncode in (1, 125) and "holds containers or images" in done.stderr


# --- what it leads to --------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["outside", "/", "../../../../outside", "../card1"])
def test_a_name_by_path_is_a_link_to_one_of_the_nodes(host: Path, target: str) -> None:
    exchange(host / BY_PATH, target if target[0] in "./" else host.parent / target)
    found = discovery.find_cards("intel", str(host))
    assert [link.path for link in found.cards[0].links] == [f"/{BY_PATH[:-4]}render"]


def test_the_container_gets_no_mount_for_it(minirun: Program, host: Path) -> None:
    exchange(host / BY_PATH, host.parent / "outside")
    script = "ls /dev/dri/by-path /dev/dri; grep -c /dev/dri /proc/self/mountinfo"
    flags = ("--gpus", "0", "--gpu-driver=intel", "--driver-root", str(host))
    lines = minirun("run", "--rm", *flags, "busybox", "sh", "-c", script).stdout.splitlines()
    own = ["/dev/dri:", "by-path", "card0", "renderD128"]
    by_path = ["/dev/dri/by-path:", f"pci-{ADDRESS}-render"]
    assert lines == [*own, "", *by_path, "0"]


def link(place: Path) -> None:
    place.rename(place.with_name("other"))
    place.symlink_to("other")


def file(place: Path) -> None:
    place.unlink()
    place.write_text("")


def other(place: Path) -> None:
    place.unlink()
    os.mknod(place, 0o020666, os.makedev(1, 3))


@pytest.mark.parametrize("spoil", [link, file, other])
@pytest.mark.parametrize("vendor", ["amd", "intel"])
def test_a_node_is_the_device_that_sysfs_says(minirun: Program, tmp_path: Path, spoil: object,
                                              vendor: str) -> None:  # fmt: skip
    place = tmp_path / "driver"
    amd_host(place, 1) if vendor == "amd" else intel_host(place)
    assert callable(spoil)
    spoil(place / "dev/dri/renderD128")
    flags = ("--gpus", "0", f"--gpu-driver={vendor}", "--driver-root", str(place))
    done = minirun("run", "--rm", *flags, "busybox", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    text = f"{place}/dev/dri/renderD128: invalid device node (it should be the character device"
    assert text in done.stderr


def test_what_sysfs_does_not_know_is_no_device(tmp_path: Path) -> None:
    """Its number is not taken from a node that says what it likes."""
    host = amd_host(tmp_path, 1)
    kfd = tmp_path / "sys/class/kfd/kfd/dev"
    for text in ("", "1:x", "kmsg", "-1:3"):
        kfd.write_text(text)
        with pytest.raises(GPUError, match="/dev/kfd: no such device"):
            discovery.find_cards("amd", str(host.root))


def test_links_stay_below_the_root(host: Path) -> None:
    """An absolute link means the driver's own root, as with chroot(2)."""
    exchange(host / "sys/bus/pci/drivers/xe/0000:03:00.0/device", host.parent / "outside/secret")
    assert discovery.find_cards("intel", str(host)).cards[1].model == "Intel GPU "
    (host / "usr").mkdir()
    (host / "usr/inside").write_text("inside\n")
    (host / "absolute").symlink_to("/usr/inside")
    (host / "up").symlink_to("../../../usr/inside")
    for name in ("/absolute", "/up"):
        assert driverroot.word(str(host), name) == "inside"
        assert find.real(str(host), name) == "/usr/inside"


def test_nvidias_files_are_the_roots_own(tmp_path: Path) -> None:
    """A library that is a link out of the root is none; a FIFO in its place holds nothing up."""
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside/libcuda.so.550.163.01"
    secret.touch()
    local = tmp_path / "driver/usr/local/nvidia"
    for folder in ("lib64", "bin"):
        (local / folder).mkdir(parents=True)
    proc = tmp_path / "driver/proc/driver/nvidia"
    (proc / "gpus/0000:07:00.0").mkdir(parents=True)
    (proc / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01\n")
    facts = "Device Minor: 0\nBus Location: 0000:07:00.0\n"
    (proc / "gpus/0000:07:00.0/information").write_text(facts)
    (local / "lib64/libcuda.so.550.163.01").symlink_to(secret)
    (local / "lib64/libnvidia-ml.so.550.163.01").touch()
    (local / "bin/nvidia-smi").symlink_to("/bin/sh")
    found = real.inventory(str(tmp_path / "driver"))
    names = [file.path.rpartition("/")[2] for file in found.libraries]
    assert names == ["libnvidia-ml.so.550.163.01"]
    assert found.binaries == ()
    (proc / "version").unlink()
    os.mkfifo(proc / "version")
    with pytest.raises(OSError, match="not a regular file"):
        real.kernel_version(str(tmp_path / "driver"))


def test_nvidias_nodes_have_the_numbers_of_the_kernel(tmp_path: Path) -> None:
    """A node by the name of one whose driver /proc/devices does not know is none."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        os.mknod(tmp_path / "dev" / name, 0o020666, os.makedev(242, 7))
    exchange(tmp_path / "dev/nvidia-uvm-tools", "nvidia-uvm")
    majors = {"nvidia": 195, "nvidia-uvm": 510}
    assert [node.path for node in real._nodes(str(tmp_path), {})] == ["/dev/nvidiactl"]
    found = real._nodes(str(tmp_path), majors)
    assert [(node.path, node.major, node.minor) for node in found] == [
        ("/dev/nvidiactl", 195, 255), ("/dev/nvidia-uvm", 510, 0),
    ]  # fmt: skip
    path = "/dev/nvidia-uvm"
    node = DeviceNode(path, "c", 510, 0, host_path=f"{tmp_path}{path}")
    with pytest.raises(GPUError, match="invalid device node: /dev/nvidia-uvm"):
        node.execute(Place(Root(-1), str(tmp_path)))


def test_it_is_looked_at_again_when_it_is_mounted(host: Path) -> None:
    """Between discovery and stage 5 a folder was exchanged: the mount stays below the root."""
    (host.parent / "outside/dri").mkdir()
    os.mknod(host.parent / "outside/dri/card0", 0o020666, os.makedev(DRM, 0))
    (host / "dev/dri").rename(host / "dev/was")
    (host / "dev/dri").symlink_to(host.parent / "outside/dri")
    path = "/dev/dri/card0"
    node = DeviceNode(path, "c", DRM, 0, host_path=f"{host}{path}")
    with pytest.raises(GPUError, match="stat failed: /dev/dri/card0"):
        node.execute(Place(Root(-1), str(host)))
