"""Real drivers in the layouts of distributions: what is found of what is there.

Debian's packages of NVIDIA's driver are fetched and unpacked, and their files laid out as Debian,
Ubuntu, Fedora, an installation in /opt, COS and NixOS have them, each as a driver root. The last
two have no ld.so.cache, no /dev and no /proc of their own. Only libnvidia-ml is the pretend host's.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import Program
from debian_packages import Archive, unpack
from gpu.debian_driver import PACKAGES, TRIPLET, alternatives
from gpu.nvidia import toolhost
from gpu.pretend import Host, cli
from gpu.sandbox import debian_root
from gpu.test_driver_root import MOVED, loaded, run
from minirun.core.keeping.settings import Settings
from minirun.core.kernel import mounts
from minirun.gpu.asked.request import GpuOptions
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.asked.ways import cdi_edits
from minirun.gpu.asked.ways.records import GpuRequest
from minirun.gpu.nvidia.shared import catalog

pytestmark = pytest.mark.slow

PLACE = "/mnt/driver"
TESLA = (
    "libnvidia-{}-cuda1", "libnvidia-{}-cudadebugger1", "libnvidia-{}-ml1", "libnvidia-{}-cfg1",
    "libnvidia-{}-ptxjitcompiler1", "libnvidia-{}-allocator1", "libnvidia-{}-pkcs11-openssl3",
    "libnvidia-{}-opticalflow1", "libnvidia-{}-encode1", "libnvidia-{}-nvcuvid1",
    "libnvidia-{}-fbc1", "libnvidia-{}-ngx1", "libnvidia-{}-glvkspirv", "nvidia-{}-smi",
    "nvidia-{}-driver-bin", "nvidia-{}-cuda-mps", "nvidia-{}-vdpau-driver",
)  # fmt: skip
DRIVERS = {
    "550": ("trixie", "current"),
    "535": ("bookworm", "current"),
    "525 tesla": ("bookworm", "tesla"),
    "470 tesla": ("bookworm", "tesla-470"),
}
"""Driver → Debian's release, and the folder of its libraries below nvidia/."""
STORE = "nix/store/0123-nvidia-x11/lib"
FOLDERS = {
    "debian": "", "ubuntu": f"usr/lib/{TRIPLET}", "fedora": "usr/lib64", "opt": "opt/nvidia/lib",
    "cos": "lib64", "nixos": STORE,
}  # fmt: skip
"""Layout → where its libraries lie."""


class Driver(NamedTuple):
    """A driver as its packages have it."""

    root: Path
    version: str
    flavor: str


class Layout(NamedTuple):
    """A driver laid out as a driver root: the real libraries in it, and flags for nvidia-ctk."""

    root: Path
    name: str
    version: str
    libraries: frozenset[str]

    @property
    def is_bare(self) -> bool:
        """Whether it has neither ld.so.cache nor nodes."""
        return self.name in ("cos", "nixos")

    @property
    def listed(self) -> set[str]:
        """Those of its libraries that NVIDIA's catalogue has."""
        return {f"{name}.{self.version}" for name, _ in catalog.LIBRARIES} & self.libraries


@pytest.fixture(scope="module", params=DRIVERS)
def unpacked(
    request: pytest.FixtureRequest, driver: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """A driver of Debian's, with the pretend host's libnvidia-ml in it."""
    release, flavor = DRIVERS[request.param]
    folder = tmp_path_factory.mktemp("layouts")
    archive = Archive(folder, "non-free", release)
    names = [name.format(flavor) for name in TESLA]
    if flavor == "current":
        names = [*PACKAGES, "libnvidia-glvkspirv"]
    root = folder / "driver"
    unpack(archive.fetch(*(name for name in names if name in archive.names)), root)
    libcuda = next(root.rglob("libcuda.so.*.*"))
    version = libcuda.name.removeprefix("libcuda.so.")
    nvml = next((driver / f"usr/lib/{TRIPLET}").glob("libnvidia-ml.so.*.*"))
    shutil.copy(nvml, libcuda.with_name(f"libnvidia-ml.so.{version}"))
    yield Driver(root, version, flavor)
    shutil.rmtree(folder)


@pytest.fixture(params=FOLDERS)
def layout(request: pytest.FixtureRequest, unpacked: Driver, tmp_path: Path) -> Layout:
    root, name = tmp_path / "layout", request.param
    lay_out(unpacked, root, name)
    there = {path.name for path in root.rglob(f"lib*.so.{unpacked.version}")}
    return Layout(root, name, unpacked.version, frozenset(there))


def lay_out(driver: Driver, root: Path, name: str) -> None:
    """Lay a driver's files out as a distribution has them."""
    if name == "debian":
        shutil.copytree(driver.root, root, symlinks=True, copy_function=os.link)
        alternatives(root, driver.flavor)
        conf = f"/lib/{TRIPLET}\n/usr/lib/{TRIPLET}\n"
    else:
        folder = root / FOLDERS[name]
        folder.mkdir(parents=True)
        for path in sorted(driver.root.rglob(f"lib*.so.{driver.version}")):
            os.link(path, folder / path.name)
        for program in ("nvidia-smi", "nvidia-cuda-mps-control"):
            place = root / ("bin" if name == "cos" else "usr/bin") / program
            place.parent.mkdir(parents=True, exist_ok=True)
            for path in driver.root.rglob(program):  # not in all packages; some are no programs
                if path.is_file() and path.stat().st_mode & 0o111 and not place.exists():
                    os.link(path, place)
        conf = f"/{FOLDERS[name]}\n"
        subprocess.run(["/sbin/ldconfig", "-N", "-n", folder], check=True)
        subprocess.run(["/sbin/ldconfig", "-n", folder], check=True)
    if name in ("cos", "nixos"):
        if name == "nixos":
            opened = root / "run/opengl-driver/lib"
            opened.mkdir(parents=True)
            for path in sorted((root / STORE).iterdir()):
                (opened / path.name).symlink_to(f"/{STORE}/{path.name}")
        return
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/ld.so.conf").write_text(conf)
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)
    for folder in (root / "dev", root / "proc"):
        folder.mkdir()


@pytest.fixture
def host(driver: Path, layout: Layout, tmp_path: Path) -> Host:
    """A host whose kernel has this driver, and whose own root has other files of one."""
    found = Host(driver, tmp_path, debian_root(tmp_path / "root"), {})
    found.version = layout.version

    def change() -> None:
        os.mkdir(PLACE)
        mounts.mount(str(layout.root), PLACE, None, mounts.MS_BIND)
        for name in () if layout.is_bare else ("dev", "proc"):
            mounts.mount(f"/{name}", f"{PLACE}/{name}", None, mounts.MS_BIND | mounts.MS_REC)

    found.change = change
    return found


def libraries(paths: Any) -> set[str]:
    return {path.rpartition("/")[2] for path in paths if ".so." in path}


def test_list(host: Host, layout: Layout) -> None:
    """nvidia-container-cli knows what ld.so.cache lists; without one it gives up, as NVIDIA's."""
    done = host.run(lambda: cli(f"--root={PLACE}", "list", "--libraries"))
    if layout.is_bare:
        assert done["rc"] == 1 and "nvidia-container-cli: " in done["stderr"]
        return
    assert (done["rc"], done["stderr"]) == (0, "")
    found = libraries(done["stdout"].splitlines())
    print(f"{layout.name} {layout.version} list: {len(found)} of {len(layout.listed)}")
    assert found == {*layout.listed} and len(found) >= 9


def test_gpu_list_and_run(minirun: Program, host: Host, layout: Layout) -> None:
    """Without nodes in the driver root the host's are taken: no module is loaded, no warning."""
    needs = {"compute", "utility"}
    wanted = {
        f"{name}.{layout.version}" for name, which in catalog.LIBRARIES if needs & {*which.split()}
    }

    def task() -> dict[str, Any]:
        listed = toolhost.run("gpu", "list", "--driver-root", PLACE)
        return run(minirun, "--driver-root", PLACE) | {"listed": listed}

    done = host.run(task)
    assert done["listed"]["stderr"] == "" and len(done["listed"]["stdout"].splitlines()) == 6
    assert done["err"] == ["cat: can't open '/dev/nvidia1': No such device or address"], done
    opened = [event["args"] for event in done["events"] if event["name"] == "open_tree"]
    sources = {str(row.get("source")) for row in opened}
    found = libraries(source for source in sources if source.startswith(f"{PLACE}/"))
    print(f"{layout.name} {layout.version} run: {len(found)} of {len(wanted & layout.libraries)}")
    assert found == wanted & layout.libraries and "/usr/bin/nvidia-smi" in done["out"]
    assert not [event for event in done["events"] if event["name"] in ("kernel modules",)]
    assert (f"{PLACE}/dev/nvidia1" in sources) is not layout.is_bare


def asked_of_a_file(text: str, device: str) -> dict[str, Any]:
    """What `run --device` finds in a spec file, on a host that has no library but those there."""
    mounts.mount("tmpfs", MOVED, "tmpfs")
    Path("/mnt/cdi").mkdir()
    Path("/mnt/cdi/nvidia.json").write_text(text)
    flags = GpuOptions(devices=(device,), spec_dirs=("/mnt/cdi",))
    request = GpuRequest(flags, GpuSelector(), Settings(root="/mnt/state"), "")
    found = cdi_edits.resolve(request, (device,))
    paths = [mount.host_path for mount in found.edits.mounts]
    return {"mounts": paths, "warnings": list(found.warnings)}


def test_cdi(host: Host, layout: Layout) -> None:
    """Every library of the driver, wherever it lies: those in more than one folder, too.

    A file that was written is followed, also if the host's own ld.so.cache has no library.
    """
    host.moved = True
    lay_out_host = host.change

    def change() -> None:
        lay_out_host()
        host.make_nodes("/dev")
        loaded(host)

    host.change = change
    flags = [f"--driver-root={PLACE}"]
    flags += ["--dev-root=/"] if layout.is_bare else []
    flags += [f"--library-search-path={PLACE}/run/opengl-driver/lib"] * (layout.name == "nixos")

    def task() -> dict[str, Any]:
        done = toolhost.run("nvidia-ctk", "cdi", "generate", "--format=json", *flags)
        assert done["rc"] == 0, done["stderr"]
        spec = json.loads(done["stdout"])
        sources = [row["hostPath"] for row in spec["containerEdits"]["mounts"]]
        links = [path for path in sources if os.path.islink(path)]
        given = asked_of_a_file(done["stdout"], "nvidia.com/gpu=1")
        return {"spec": spec, "sources": sources, "links": links, "given": given}

    done = host.run(task)
    found = libraries(done["sources"])
    print(f"{layout.name} {layout.version} cdi: {len(found)} of {len(layout.libraries)}")
    assert found == {*layout.libraries} and done["links"] == []
    assert done["given"]["warnings"] == []
    assert {path for path in done["given"]["mounts"] if ".so." in path} == {
        path for path in done["sources"] if ".so." in path
    }
    nodes = done["spec"]["devices"][0]["containerEdits"]["deviceNodes"]
    assert [row["path"] for row in nodes][:1] == ["/dev/nvidia0"]
    edits = done["spec"]["containerEdits"]
    folder = edits["env"][0].removeprefix("NVIDIA_CTK_LIBCUDA_DIR=").split(":")
    at = {os.path.dirname(path.removeprefix(PLACE)) for path in done["sources"] if ".so." in path}
    assert {*folder} == {path for path in at if not path.endswith("/vdpau")}
