"""The pretend host of the recorded cases: 4 x A100, driver 550.163.01, seen by a real process.

A mount namespace whose root is this machine's, read-only, with the driver's files over it (those of
the simulated driver, which are the recorded host's: names, links, SONAMEs), a libnvidia-ml of the
real interface, a /dev of its own, and /proc/driver/nvidia as the recorded host had it. In it lies a
half-started container. minirun runs there as a program, under the name nvidia-container-cli.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu.recorded import golden
from gpu.sandbox import tree
from minirun.core.kernel import mountinfo, mounts, namespaces, process
from minirun.fast import launcher
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.shared import catalog

ROOT = "/mnt/rootfs"
"""Where the container's root filesystem is, seen from the pretend host."""
PROC = "/proc/driver/nvidia"
BUSES = ("07", "0f", "47", "4e")
DEVICES = (
    "Character devices:\n  1 mem\n195 nvidia\n226 drm\n507 nvidia-caps-imex-channels\n"
    "508 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n"
)
MIG_GPU = 3


def build(folder: Path, store: str) -> Path:
    """Make the driver's files, and the program, in `folder`; once for all tests."""
    os.environ["MINIRUN_SIM"] = "mps=1"
    try:
        source = inventory("simulated", store).root
    finally:
        del os.environ["MINIRUN_SIM"]
    shutil.copytree(source, folder, symlinks=True, ignore=lambda path, names: _sockets(path, names))
    for name, _ in catalog.SOCKETS:
        (folder / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(folder / name[1:], stat.S_IFSOCK | 0o666)
        os.chmod(folder / name[1:], 0o666)
    shutil.rmtree(folder / "proc")
    (folder / "lib/firmware").rename(folder / "usr/lib/firmware")  # /lib is a link there
    (folder / "lib").rmdir()
    library = folder / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01"
    compiler = shutil.which("gcc") or "gcc"
    code = Path(__file__).parent / "pretend_nvml.c"
    flags = ("-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1")
    subprocess.run([compiler, *flags, "-o", library, code], check=True)
    library.chmod(0o644)
    programs = folder / "usr/local/bin"
    programs.mkdir(parents=True)
    launcher.install(str(programs / "minirun"))
    (programs / "nvidia-container-cli").symlink_to("minirun")
    (folder / "run/mps-pipe").mkdir()
    (folder / "run-nvidia-driver").mkdir()
    return folder


def _sockets(path: str, names: list[str]) -> list[str]:
    return [name for name in names if stat.S_ISSOCK(os.lstat(f"{path}/{name}").st_mode)]


class Host:
    """One pretend host and its container, for one call of :meth:`run`."""

    def __init__(self, driver: Path, work: Path, root: Path, case: dict[str, Any]) -> None:
        self.driver = driver
        self.work = work
        self.root = root
        self.mig = bool(case.get("mig"))
        self.minors = case.get("minors", [0, 1, 2, 3])
        self.version = "550.163.01"
        self.moved = False
        """The driver is only below /run-nvidia-driver."""
        self.nodes = True
        self.change: Callable[[], None] = lambda: None
        """Called in the pretend host before the container is looked at."""

    def run(self, task: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Call `task` in a process in the pretend host; return its result."""
        answer, write_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._enter()
                result = task()
            except BaseException as error:
                import traceback

                result = {"crash": f"{error!r} {traceback.format_exc()}"}
            os.write(write_fd, json.dumps(result).encode())
            os._exit(0)
        os.close(write_fd)
        with os.fdopen(answer) as file:
            result = json.loads(file.read())
        os.waitpid(pid, 0)
        assert "crash" not in result, result["crash"]
        return result

    def _enter(self) -> None:
        namespaces.unshare(namespaces.CLONE_NEWNS)
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        base = self.work / "base"
        base.mkdir()
        mounts.mount("tmpfs", str(base), "tmpfs", 0, "mode=755")
        driver = base / "driver"
        subprocess.run(["cp", "-a", self.driver, driver], check=True)
        place = driver / "run-nvidia-driver"
        if self.moved:
            for name in ("usr/lib", "usr/bin", "run", "tmp"):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (driver / name).rename(place / name)
            (place / "etc").mkdir()
            shutil.rmtree(place / "usr/lib/firmware")  # the recorded driver root had none
        self._cache(place if self.moved else driver)
        own = (Path(launcher.__file__).parents[2], self.work.parent)
        for folder in own:
            (driver / str(folder)[1:]).mkdir(parents=True, exist_ok=True)
        top = base / "top"
        top.mkdir()
        mounts.mount("overlay", str(top), "overlay", 0, f"lowerdir={driver}:/")
        for name in ("proc", "sys"):
            mounts.mount(f"/{name}", f"{top}/{name}", None, mounts.MS_BIND | mounts.MS_REC)
        for folder in own:  # either may lie on a file system of its own
            mounts.mount(str(folder), f"{top}{folder}", None, mounts.MS_BIND)
        mounts.mount("tmpfs", f"{top}/dev", "tmpfs", 0, "mode=755")
        mounts.mount("tmpfs", f"{top}/mnt", "tmpfs", 0, "mode=755")
        os.mkdir(f"{top}{ROOT}")
        mounts.mount(str(self.root), f"{top}{ROOT}", None, mounts.MS_BIND)
        os.chdir(top)
        mounts.pivot_root(".", ".")
        mounts.umount2(".", mounts.MNT_DETACH)
        os.chdir("/")
        self._kernel()
        if self.moved:
            self._moved()
        self._container()
        self.change()

    def _cache(self, driver: Path) -> None:
        """Let ldconfig list the driver's libraries, as on a host where it is installed."""
        (driver / "etc").mkdir(exist_ok=True)
        conf = "/usr/lib/x86_64-linux-gnu\n/usr/lib/i386-linux-gnu\n"
        (driver / "etc/ld.so.conf").write_text(conf)
        command = ["/sbin/ldconfig", "-r", str(driver)]
        subprocess.run(command, check=True, capture_output=True)

    def _kernel(self) -> None:
        """What the kernel and its modules show: /proc and /dev."""
        Path("/mnt/devices").write_text(DEVICES)
        mounts.mount("/mnt/devices", "/proc/devices", None, mounts.MS_BIND)
        mounts.mount("tmpfs", "/proc/driver", "tmpfs")
        self.fill(Path("/proc/driver"))
        for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
            os.mknod(f"/dev/{name}", 0o020666, os.makedev(1, minor))
            os.chmod(f"/dev/{name}", 0o666)
        if self.nodes:
            self.make_nodes("/dev")

    def _moved(self) -> None:
        """A driver root as the container of a driver has it: /dev and /proc are its own."""
        place = Path("/run-nvidia-driver")
        shadow = Path("/mnt/shadow")
        subprocess.run(["cp", "-a", place, shadow], check=True)
        for name in ("dev", "proc/driver"):
            (shadow / name).mkdir(parents=True)
        (shadow / "proc/devices").write_text(DEVICES)
        self.fill(shadow / "proc/driver")
        self.make_nodes(f"{shadow}/dev")
        mounts.mount(str(shadow), str(place), None, mounts.MS_BIND)
        mounts.umount2("/proc/driver", mounts.MNT_DETACH)
        for path in Path("/dev").glob("nvidia*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def make_nodes(self, dev: str) -> None:
        """Make the driver's nodes below `dev`."""
        rows = [("nvidiactl", 195, 255, 0o666), ("nvidia-modeset", 195, 254, 0o666)]
        rows += [("nvidia-uvm", 510, 0, 0o666), ("nvidia-uvm-tools", 510, 1, 0o666)]
        rows += [(f"nvidia{minor}", 195, minor, 0o666) for minor in range(4)]
        rows += [("nvidia-caps/nvidia-cap1", 508, 1, 0o400)]
        rows += [("nvidia-caps/nvidia-cap2", 508, 2, 0o444)]
        caps = self.instances() if self.mig else []
        rows += [(f"nvidia-caps/nvidia-cap{minor}", 508, minor, 0o444) for _, minor in caps]
        rows += [(f"{catalog.IMEX}/channel{n}", 507, n, 0o666) for n in range(4)]
        for name, major, minor, mode in rows:
            path = Path(dev, name)
            path.parent.mkdir(exist_ok=True)
            os.mknod(path, 0o020000 | mode, os.makedev(major, minor))
            path.chmod(mode)

    def instances(self) -> list[tuple[str, int]]:
        """Path below capabilities, and minor, of each gpu and compute instance."""
        found = []
        for gi in (7, 8, 9):
            base = f"gpu{MIG_GPU}/mig/gi{gi}"
            found.append((base, catalog.mig_minor(MIG_GPU, gi)))
            found.append((f"{base}/ci0", catalog.mig_minor(MIG_GPU, gi, 0)))
        return found

    def fill(self, driver: Path) -> None:
        """Make /proc/driver as the recorded host had it."""
        base = driver / "nvidia"
        before, _ = golden("compute-utility-dev0,1")["diff"]["changed"][f"{PROC}/params"]
        module = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "
        files = {"params": before["content"], "version": f"{module}{self.version}\n"}
        files |= dict.fromkeys(("registry", "suspend", "suspend_depth"), "")
        files |= {"patches/README": "", "warnings/README": ""}
        for bus, minor in zip(BUSES, self.minors, strict=True):
            text = f"Model: \t\t NVIDIA A100-SXM4-40GB\nDevice Minor: \t {minor}\n"
            files[f"gpus/0000:{bus}:00.0/information"] = text
            files |= {f"gpus/0000:{bus}:00.0/{name}": "" for name in ("power", "registry")}
        files |= {
            f"capabilities/mig/{name}": f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\n"
            "DeviceFileModify: 1\n"
            for name, minor, mode in (("config", 1, 256), ("monitor", 2, 292))
        }
        files["capabilities/fabric-imex-mgmt"] = ""
        for folder, minor in self.instances() if self.mig else ():
            text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            files[f"capabilities/{folder}/access"] = text
        for name, text in files.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)
            (base / name).chmod(0o644 if name.endswith("registry") else 0o444)
        for gpu in range(4):
            (base / f"capabilities/gpu{gpu}/mig").mkdir(parents=True, exist_ok=True)
        (driver / "nvidia-caps").mkdir()
        lines = ["config 1\n", "monitor 2\n"]
        for gpu in range(32):
            for gi in range(15):
                lines.append(f"gpu{gpu}/gi{gi}/access {catalog.mig_minor(gpu, gi)}\n")
                lines += [
                    f"gpu{gpu}/gi{gi}/ci{ci}/access {catalog.mig_minor(gpu, gi, ci)}\n"
                    for ci in range(8)
                ]
        (driver / "nvidia-caps/mig-minors").write_text("".join(lines))

    def _container(self) -> None:
        """What a runtime mounts before the hook runs; the kernel module shows in its /proc too."""
        mounts.mount("proc", f"{ROOT}/proc", "proc")
        mounts.mount("tmpfs", f"{ROOT}/proc/driver", "tmpfs")
        self.fill(Path(ROOT, "proc/driver"))
        mounts.mount("tmpfs", f"{ROOT}/dev", "tmpfs", 0, "mode=755")


def cli(*args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run the program by the name nvidia-container-cli (in the pretend host)."""
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    done = subprocess.run(
        ["nvidia-container-cli", *args], capture_output=True, text=True, check=False,
        env=clean | (env or {}), timeout=60,
    )  # fmt: skip
    return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def look() -> dict[str, Any]:
    """The container as it is: files, /proc/driver/nvidia, mounts; in the words of the cases."""
    view = {}
    for folder, folders, files in os.walk(f"{ROOT}{PROC}"):
        for name in folders + files:
            path = Path(folder, name)
            short = str(path)[len(ROOT) :]
            view[short] = path.read_text() if path.is_file() else None
    status = os.stat(f"{ROOT}{PROC}")
    return {
        "tree": tree(Path(ROOT)), "proc": view, "proc_mode": oct(status.st_mode & 0o777),
        "mounts": mount_rows(),
    }  # fmt: skip


def mount_rows() -> list[dict[str, Any]]:
    """What is mounted below the container's root, in order."""
    rows = []
    for mount in mountinfo.read():
        if not mount.mount_point.startswith(f"{ROOT}/"):
            continue
        flags = sorted(set(mount.options.split(",")) - {"relatime"})
        row = {"at": mount.mount_point[len(ROOT) :], "flags": flags, "from": mount.root}
        rows.append(row | {"type": mount.fs_type})
    return rows


def sleeper(door: str = "") -> int:
    """Start the container's process, in the cgroup whose tasks file is `door`; return its pid."""
    pid = os.fork()
    if pid == 0:
        process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.closerange(3, 1024)
        signal.pause()
        os._exit(0)
    if door:
        Path(door).write_text(str(pid))
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def pci_bus() -> None:
    """Four GPUs, and something else of the same maker, on the PCI bus."""
    base = Path("/sys/bus/pci/devices")
    for folder in ("/sys/bus", "/sys/module"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    for name in ("nvidia", "nvidia_uvm", "nvidia_modeset"):
        Path("/sys/module", name).mkdir()
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x030200")] * 4 + [("0x10de", "0x068000")]
    ):
        folder = base / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
