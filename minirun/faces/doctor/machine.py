"""What is there: the user, the interpreter, the disk, images, tools, a driver."""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys

from minirun.cgroups import systemd as systemd_cgroups
from minirun.common import preferences
from minirun.core.errors import MinirunError
from minirun.core.keeping.numbers import whole
from minirun.faces.doctor.attempts import Lacking, Workplace, existing
from minirun.faces.inspect.gpu import way
from minirun.gpu import driverroot, drivers
from minirun.gpu.asked.request import DEFAULT_CAPABILITIES, NvidiaRequest
from minirun.gpu.cdi import registry, stale
from minirun.gpu.inventory import Notice
from minirun.gpu.nvidia.cli import warn
from minirun.image import store

LEAST_FREE = 256 << 20
"""Bytes that a first run may need: an image, a container's changes, its log."""


def root(place: Workplace) -> str:
    """Root in the machine's own user namespace; files of any owner can be made."""
    if os.geteuid() != 0:
        raise Lacking(f"this is user {os.geteuid()}")
    os.chown(place.scratch, 0, 0)
    return "user 0"


def kernel(place: Workplace) -> str:
    """The kernel's version; 5.12 has the last of the calls that stages 1 to 7 use."""
    release = platform.release()
    numbers = re.split(r"\D", release, maxsplit=2)[:2]  # of 6.1.0-13-amd64, 6.12+
    if tuple(whole(number) or 0 for number in numbers) < (5, 12):
        raise Lacking(f"Linux {release}")
    return f"Linux {release}"


def interpreter(place: Workplace) -> str:
    """The Python that runs this, and whether the start is the fast one of `make setup`."""
    isolated = sys.flags.isolated and sys.flags.no_site
    start = "started by the launcher (-I -S)" if isolated else "started without the launcher"
    return f"Python {platform.python_version()}, {os.path.realpath(sys.executable)}, {start}"


def python_prctl(place: Workplace) -> str:
    """python-prctl, for this version of Python: Debian's package, or built by pip."""
    try:
        import _prctl
    except ImportError:
        raise Lacking("none for this Python") from None
    return str(_prctl.__file__)


def settings(place: Workplace) -> str:
    """What the user has said for all runs, and in which file."""
    try:
        found = preferences.read()
    except MinirunError as error:
        raise Lacking(error.line()) from None
    words = " ".join(f"{key}={value}" for key, value in found.items())
    return f"{words or 'none is set'}, {preferences.path()}"


def disk(place: Workplace) -> str:
    """Room for containers and images."""
    free = min(shutil.disk_usage(p).free for p in (place.scratch, existing(place.store)))
    if free < LEAST_FREE:
        raise Lacking(f"{free >> 20} MiB free")
    return f"{free >> 30} GiB free" if free >> 30 else f"{free >> 20} MiB free"


def images(place: Workplace) -> str:
    """At least one image in the store."""
    found = [f"{image['name']}:{image['tag']}" for image in store.list_images(place.store)]
    if not found:
        raise Lacking(f"none in {place.store}")
    return ", ".join(found)


def builders(place: Workplace) -> str:
    """The tools that make images without a registry."""
    found = [name for name in ("mmdebstrap", "busybox") if shutil.which(name)]
    if len(found) < 2:
        raise Lacking(f"found only {', '.join(found) or 'none of them'}")
    return ", ".join(found)


ENGINES = {
    "podman": "conmon",
    "buildah": "",
    "dockerd": "containerd-shim-runc-v2",
    "containerd": "containerd-shim-runc-v2",
    "crio": "conmon",
    "slurmd": "",
}
"""An engine's program, and the program that it puts between itself and minirun."""


SYSTEMD_SOCKETS = ("/run/dbus/system_bus_socket", "/run/systemd/private")
"""Of the system bus, and systemd's own, which root alone may use."""


def engines(place: Workplace) -> str:
    """The engines of this machine, which can call minirun in runc's place."""
    found = {name: between for name, between in ENGINES.items() if shutil.which(name)}
    if not found:
        raise Lacking("none")
    for name, between in found.items():
        if between and not shutil.which(between):
            raise Lacking(f"{name} without {between}, by which it calls a runtime")
    return ", ".join(
        f"{name} (by {between})" if between else name for name, between in found.items()
    )


def systemd(place: Workplace) -> str:
    """systemd on D-Bus: where it is booted, engines call minirun with --systemd-cgroup."""
    if not os.path.isdir(systemd_cgroups.BOOTED):
        return "not booted here, so engines do not ask for --systemd-cgroup"
    try:
        systemd_cgroups.check()
    except MinirunError as error:
        raise Lacking(error.line()) from None
    for path in SYSTEMD_SOCKETS:
        with socket.socket(socket.AF_UNIX) as bus:
            if not bus.connect_ex(path):
                return f"it answers at {path}"
    raise Lacking(f"nothing answers at {' or '.join(SYSTEMD_SOCKETS)}")


def nvidia_tools(place: Workplace) -> str:
    """NVIDIA's own programs, which can take the place of minirun's stages 4 and 5."""
    names = ("nvidia-container-runtime-hook", "nvidia-container-cli", "nvidia-ctk")
    found = [path for name in names if (path := shutil.which(name))]
    if not found:
        raise Lacking("not installed")
    return ", ".join(found)


def gpu_way(place: Workplace) -> str:
    """Which way GPUs come into containers here: minirun's own, and that of NVIDIA's toolkit."""
    own = "minirun: stages 4 and 5, or stage 1 with --gpu-mode cdi"
    if shutil.which("nvidia-cdi-hook"):
        docker = "docker: CDI since 29.2, a hook before"
    elif shutil.which("nvidia-container-runtime-hook"):
        docker = "docker: a hook (no nvidia-cdi-hook)"
    else:
        return own
    return f"{own}; {docker}; {way.toolkits_mode()}"


def gpu(place: Workplace) -> str:
    """A real driver with at least one GPU; without one GPUs are SIMULATED."""
    if not os.path.exists(f"{driverroot.PROC}/version"):
        raise Lacking(f"no driver: {driverroot.PROC}/version is missing, so GPUs are SIMULATED")
    found = drivers.inventory("nvidia", place.store)
    wrong = warn.check(found, NvidiaRequest(("all",), DEFAULT_CAPABILITIES))
    nodes = [node.path for node in found.nodes] + [gpu.node for gpu in found.gpus]
    missing = [path for path in nodes if not os.path.exists(found.root + path)]
    if not found.store:  # WSL has one node for all
        wrong += [Notice(f"{path} does not exist on this host", warn.MODPROBE) for path in missing]
    if wrong:
        text = "; ".join(dict.fromkeys(one.text for one in wrong))
        hint = "; ".join(dict.fromkeys(one.hint for one in wrong))
        raise Lacking(f"driver {found.driver}: {text}", hint)
    return f"driver {found.driver}, {len(found.gpus)} GPUs"


def cdi_files(place: Workplace) -> str:
    """The CDI files of engines, and of --device: readable, and of the driver that is loaded."""
    found = registry.load()
    wrong = [*found.warnings, *found.conflicts.values(), *stale.warnings(found.specs)]
    if wrong:
        raise Lacking("; ".join(dict.fromkeys(wrong)))
    return (
        ", ".join(spec.path for spec in found.specs) or f"none in {' and '.join(registry.FOLDERS)}"
    )


def modules(place: Workplace) -> str:
    """modprobe and a folder of kernel modules: the driver's could be loaded, if asked."""
    directory = f"/lib/modules/{platform.release()}"
    if not os.path.isdir(directory) or not shutil.which("modprobe"):
        raise Lacking(f"no {directory}" if shutil.which("modprobe") else "no modprobe")
    return directory


def ldconfig(place: Workplace) -> str:
    """The host's ldconfig, which makes the container's cache of libraries."""
    for path in ("/sbin/ldconfig.real", "/sbin/ldconfig"):
        if os.path.exists(path):
            done = subprocess.run([path, "--version"], capture_output=True, text=True, env={})
            return f"{path}, {done.stdout.splitlines()[0]}"
    raise Lacking("neither /sbin/ldconfig.real nor /sbin/ldconfig")
