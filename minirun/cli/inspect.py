"""`minirun inspect`: what a container is made of; with --devices its effective device rules."""

import json
import os
import stat
import sys

from minirun import jsonlite
from minirun.cgroups.ruleset import listing
from minirun.cli import oci
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.container import Container
from minirun.kernel import namespaces
from minirun.oci import state
from minirun.rootfs import build
from minirun.rootfs.inroot import Root
from minirun.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (
    Flag(("--devices",), "", "only the effective device rules, from the kernel"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Print JSON about a container, or its device rules."""
    flags = parse("inspect", FLAGS, args, mixed=True)
    if flags.help or len(flags.args) != 1:
        sys.stdout.write(usage("inspect", "ID", "Show what a container is made of.", FLAGS))
        return 0 if flags.help else 1
    container = oci.load(settings, flags.args[0])
    if flags.devices:
        rules = container.cgroup.effective_device_rules()
        lines = listing(rules, device_names(container))
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        sys.stdout.write(json.dumps(describe(container), indent=2) + "\n")
    return 0


def edits_of(record: "dict[str, Any]") -> "dict[str, Any]":
    """Return what stage 5 put into a container, as it recorded it; empty without GPUs."""
    try:
        edits: dict[str, Any] = jsonlite.loads(state.read_text(f"{record['directory']}/edits.json"))
    except (OSError, ValueError):
        return {}
    return edits


def device_names(container: Container) -> "dict[tuple[str, int, int], str]":
    """Return kind, major, minor → path, for every device that was put into the container."""
    names = {("c", major, minor): path for path, major, minor in build.DEVICES}
    for row in container.config.linux.get("devices") or []:
        names[(row["type"], row.get("major", 0), row.get("minor", 0))] = row["path"]
    for node in edits_of(container.record).get("deviceNodes", []):
        names[(node["type"], node["major"], node["minor"])] = node["path"]
    return names


def describe(container: Container) -> "dict[str, Any]":
    """Return a container's state, namespaces, cgroup, devices and mounts, as JSON has them."""
    record = container.record
    alive = record["pid"] and state.is_alive(record["init"])
    document: dict[str, Any] = {
        **state.public(record),
        "image": record.get("image"),
        "args": record.get("args") or container.config.process.get("args"),
        "exitStatus": record.get("exit_status"),
        "cgroup": record.get("cgroup"),
        "gpus": edits_of(record),
    }
    if alive:
        pid = record["pid"]
        document["namespaces"] = {kind: _namespace(pid, kind) for kind in namespaces.FLAGS}
        document["mounts"] = _mounts(pid)
        document["devices"] = _nodes(pid)
        document["interfaces"] = _interfaces(pid)
        if container.cgroup.exists():
            document["usage"] = container.cgroup.stat()._asdict()
            rules = container.cgroup.effective_device_rules()
            document["deviceRules"] = [str(rule) for rule in rules]
    return document


def _namespace(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{namespaces.PROC_NAMES.get(kind, kind)}")
    except OSError:
        return ""


def _mounts(pid: int) -> "list[dict[str, str]]":
    """proc_pid_mountinfo(5), in brief."""
    rows = []
    for line in state.read_text(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, source, *_) = left.split(), right.split()
        rows.append({"path": fields[4], "type": kind, "source": source, "options": fields[5]})
    return rows


def _nodes(pid: int) -> "list[str]":
    """The device nodes in the container's /dev, looked up inside its root."""
    rows = []
    root = Root.at(f"/proc/{pid}/root")
    try:
        fd = root.open("/dev", os.O_RDONLY | os.O_DIRECTORY)
        for name in sorted(os.listdir(fd)):
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(info.st_mode))
            if kind:
                number = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
                rows.append(f"{kind} {number} /dev/{name}")
        os.close(fd)
    finally:
        root.close()
    return rows


def _interfaces(pid: int) -> "list[Any]":
    from minirun.net import interfaces

    return [row._asdict() for row in interfaces.interfaces(pid)]
