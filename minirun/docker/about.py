"""`minirun info` and `version`: what docker says of its daemon, of this machine and this store.

There is no daemon: client and server are one program. What docker says of what minirun does not
have, such as the API's version, swarm and plugins, is left out.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from minirun import __version__
from minirun.cgroups import hierarchies
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import preferences
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.kernel.architecture import NATIVE
from minirun.engines import roots
from minirun.faces.inspect.sizes import human_binary
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields
from minirun.gpu import drivers
from minirun.image import store
from minirun.net import network
from minirun.oci import features
from minirun.running import listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord


class Info(Flags):
    """Say what containers, images and abilities there are here."""

    command = "info"
    format: str = flag("-f")


class Version(Flags):
    """Say which versions this program and this machine have."""

    command = "version"
    format: str = flag("-f")


def main_version(args: list[str], settings: Settings) -> int:
    """Print the versions, as text or by a template. Raises TemplateError."""
    flags = Version(args)
    flags.none()
    document = _versions()
    if flags.format:
        return write(formats.lines(flags.format, [document], {}))
    return show(_text(document))


def _versions() -> Fields:
    kernel = os.uname()
    own = {
        "Version": __version__, "PythonVersion": sys.version.split()[0],
        "SpecVersion": state.OCI_VERSION, "GitCommit": f"v{__version__}", "Os": "linux",
        "Arch": NATIVE.go,
    }  # fmt: skip
    parts = [Fields(Name="Engine", Version=__version__, Details={"KernelVersion": kernel.release})]
    return Fields(
        Client=Fields(own), Server=Fields(own, KernelVersion=kernel.release, Components=parts)
    )


def main_info(args: list[str], settings: Settings) -> int:
    """Print what there is here, as text or by a template. Raises MinirunError, OSError."""
    flags = Info(args)
    flags.none()
    if flags.format:
        formats.read(flags.format)
    document = _information(settings)
    if flags.format:
        return write(formats.lines(flags.format, [document], {}))
    return show(_text(document))


def _information(settings: Settings) -> Fields:
    found = [record for root in roots.known(settings) for record in listing.records(root)]
    kernel, system = os.uname(), _os_release()
    seccomp = features.document()["linux"]["seccomp"]
    return Fields(
        Containers=len(found), ContainersRunning=_count(found, state.RUNNING),
        ContainersPaused=_count(found, state.PAUSED),
        ContainersStopped=_count(found, state.STOPPED),
        Images=len(store.list_images(settings.store)), Driver="overlay",
        LoggingDriver="json-file",
        CgroupDriver="systemd" if settings.systemd_cgroup else "cgroupfs",
        CgroupVersion=_cgroup_version(settings), KernelVersion=kernel.release,
        OperatingSystem=system.get("PRETTY_NAME", "Linux"), OSVersion=system.get("VERSION_ID", ""),
        OSType="linux", Architecture=kernel.machine, NCPU=len(os.sched_getaffinity(0)),
        MemTotal=_memory(), Name=kernel.nodename, DockerRootDir=settings.store,
        SettingsFile=preferences.path(), Progress=preferences.chosen("progress"),
        StateRoots=list(roots.known(settings)), ServerVersion=__version__,
        Runtimes={"minirun": {"path": os.path.realpath(sys.argv[0])}}, DefaultRuntime="minirun",
        SecurityOptions=[
            *(["name=seccomp,profile=builtin"] if seccomp["enabled"] else []),
            *(["name=rootless"] if unprivileged() else []),
        ],
        Networks=sorted({network.DEFAULT, "host", "none", *network.names(settings.store)}),
        GPUs=_gpus(settings), ClientInfo=_versions()["Client"],
    )  # fmt: skip


def _count(found: list[ContainerRecord], status: str) -> int:
    return sum(record.status == status for record in found)


def _os_release() -> dict[str, str]:
    """Return what os-release(5) says."""
    try:
        lines = state.read_text("/etc/os-release").splitlines()
    except (OSError, ValueError):
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key: value.strip("\"'") for key, _, value in pairs}


def _cgroup_version(settings: Settings) -> str:
    """Return which cgroups containers get: 2 if there is no controller of version 1."""
    if settings.cgroup_version != "auto":
        return settings.cgroup_version.removeprefix("v")
    rows = hierarchies.mounted()
    own = any(name for row in rows for name in row.names if not name.startswith("name="))
    return "1" if own else "2"


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gpus(settings: Settings) -> list[str]:
    """Return the models of the GPUs that `--gpus all` gives; SIMULATED ones say so."""
    try:
        found = drivers.inventory("auto", settings.store)
    except MinirunError:
        return []
    return [f"{gpu.number}: {gpu.model}" for gpu in found.gpus]


def _text(document: dict[str, Any], indent: str = "") -> list[str]:
    """Return a document as docker's text has it: ` Name of field: value`, sections indented."""
    lines: list[str] = []
    for name, value in document.items():
        title = _words(name)
        if isinstance(value, dict):
            lines += [f"{indent}{title}:", *_text(value, f"{indent} ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"{indent}{title}:"]
            lines += [line for each in value for line in _text(each, f"{indent} ")]
        elif isinstance(value, list):
            lines.append(f"{indent}{title}: {' | '.join(map(str, value))}".rstrip())
        else:
            shown = human_binary(value) if name == "MemTotal" else str(value)
            lines.append(f"{indent}{title}: {shown}".rstrip())
    return lines


_TITLES = {
    "ContainersRunning": " Running", "ContainersPaused": " Paused", "ContainersStopped": " Stopped",
    "Driver": "Storage Driver", "OSType": "OSType", "NCPU": "CPUs", "MemTotal": "Total Memory",
    "DockerRootDir": "Root Dir", "GPUs": "GPUs", "Os": "OS", "GitCommit": "Git commit",
    "ClientInfo": "Client", "OSVersion": "OS Version",
}  # fmt: skip


def _words(name: str) -> str:
    """Return a field's name as words: Kernel Version for KernelVersion."""
    if name in _TITLES:
        return _TITLES[name]
    text = "".join(f" {sign}" if sign.isupper() else sign for sign in name)
    return text.strip()
