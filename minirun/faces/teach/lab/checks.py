"""What each lab looks at: a function of its name, which returns a finding, or "solved".

Each is called after run.sh, by :func:`look`, again and again for a moment: what run.sh has started
may not be through yet.
"""

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from minirun.cgroups.rules import container_rules
from minirun.common import naming
from minirun.core.lazy import lazy
from minirun.faces.teach.lab import facts
from minirun.faces.teach.lab.folder import LabFolder
from minirun.faces.teach.lab.labs import SOLVED
from minirun.faces.teach.pace import pace
from minirun.oci import validate

with lazy:
    from minirun.faces.inspect.network import inside  # pyroute2: the labs of the network need it
    from minirun.net import interfaces

ENDLESS = "hangs"
_SETTLING_SECONDS = 1.2
_LIMITS = {"slow-hook": 6.0}
_LIMIT = 30.0
_PACKET_SECONDS = 1.0
"""How long the answer to a connection is waited for, on a cable of a usual machine."""
_ASKED = "nvidia.com/gpu=0"
_GPU_0, _GPU_1, _GPU_7 = (195, 0), (195, 1), (195, 7)
_CHOWN, _SETGID, _SETUID = 1 << 0, 1 << 6, 1 << 7  # capabilities(7)
_SERVICE_OWNER, _FIRST_FREE_ID = 70000, 100000
_TUNNEL_MTU, _USUAL_MTU, _PAGE_BYTES = 1400, 1500, 100_000
_TABLE_BYTES, _MOST_MEMORY = 48 << 20, 128 << 20


def run_check(folder: LabFolder) -> str:
    """Start what run.sh starts, and return what is found. Raises MinirunError, OSError."""
    check = CHECKS[folder.name]
    if folder.run(_LIMITS.get(folder.name, _LIMIT) * pace()) is None:
        return ENDLESS
    end = time.monotonic() + _SETTLING_SECONDS * pace()
    while (found := check(folder)) != SOLVED and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _patience() -> float:
    """Return how long the answer to a connection is waited for, on this machine."""
    return _PACKET_SECONDS * pace()


def stacked_overlay(lab: LabFolder) -> str:
    """Is there an overlay that can be written to, and does what is written lie on the disk?"""
    found = {mount.mount_point: mount.fs_type for mount in facts.mounts()}
    merged, disk = lab.path / "merged", lab.path / "disk"
    if found.get(str(disk)) != "overlay":
        return "other-disk"
    if found.get(str(merged)) != "overlay":
        return "refused"
    if not (merged / "file").exists():
        return "no-image"
    probe = merged / f"probe-{os.getpid()}"
    try:
        probe.touch()
    except OSError:
        return "read-only"
    is_inside = any(disk.rglob(probe.name))
    probe.unlink()
    return SOLVED if is_inside else "outside"


def zombie_init(lab: LabFolder) -> str:
    """Are there children of process 1 that are dead, and not waited for?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    if None in [facts.stat_in_root(pid, f"/done-{number}") for number in (1, 2, 3)]:
        return "not-done"
    lab.minirun("exec", facts.CONTAINER, "sh", "-c", "sleep 0.1 &")  # one that is not of run.sh
    time.sleep(0.4)  # a child ends after its work: it is dead a moment later
    return "zombies" if facts.zombies(pid) else SOLVED


def shared_mounts(lab: LabFolder) -> str:
    """Has the host the mount that was made in the namespace?"""
    inside, shared = str(lab.path / "shared/inside"), str(lab.path / "shared")
    views = [facts.mounts(pid) for pid in facts.elsewhere(lab, "mnt")]
    host = {mount.mount_point: mount for mount in facts.mounts()}  # after these: it has it later
    if inside in host:
        return "leaked"
    if shared not in host or not any("shared:" in each for each in host[shared].propagation):
        return "host-changed"
    found = any(mount.mount_point == inside for view in views for mount in view)
    return SOLVED if found else "no-mount"


def lost_whiteout(lab: LabFolder) -> str:
    """Is the file of the lower layer hidden, and nothing but that?"""
    merged = lab.path / "merged"
    if str(merged) not in {mount.mount_point for mount in facts.mounts()}:
        return "not-mounted"
    if not (lab.path / "layers/1/secret").exists():
        return "layer-changed"
    if (merged / "secret").exists():
        return "visible"
    if (merged / ".wh.secret").exists():
        return "left-over"
    return SOLVED if (merged / "kept").exists() else "too-much"


def lost_reply(lab: LabFolder) -> str:
    """Has init gone on, and after it had its map?"""
    for pid in facts.elsewhere(lab, "user"):
        if facts.program(pid) != "sleep":
            return "waiting"
        if not (lab.path / "map").stat().st_size:
            return "too-early"
        return SOLVED if Path(f"/proc/{pid}/uid_map").read_text() else "no-map"
    return "stopped"


def failing_hook(lab: LabFolder) -> str:
    """Does the container run, with the folder that the hook makes?"""
    pid = facts.init_of(lab)
    if not pid:
        return "failed"
    folder = facts.stat_in_root(pid, "/scratch")
    if folder is None or not stat.S_ISDIR(folder.st_mode):
        return "no-folder"
    return SOLVED if folder.st_uid == 1000 else "wrong-owner"


def wrong_capabilities(lab: LabFolder) -> str:
    """Was the folder given away, by a process that may do no more than that?"""
    pid = facts.init_of(lab)
    if not pid:
        return "EPERM"
    folder = facts.stat_in_root(pid, "/service")
    if folder is None or folder.st_uid != 1000:
        return "not-done"
    return SOLVED if int(facts.field(pid, "CapEff") or "0", 16) == _CHOWN else "too-much"


def wrong_minor(lab: LabFolder) -> str:
    """Which GPU is behind the name?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    numbers = facts.device(pid, "/dev/nvidia0")
    if numbers != _GPU_0:
        return "other-gpu" if numbers == _GPU_1 else "no-node"
    rules = facts.cgroup_of(lab).effective_device_rules()
    if not facts.allows(rules, *_GPU_0):
        return "denied"
    return "too-much" if facts.allows(rules, *_GPU_1) else SOLVED


def denied_cgroup(lab: LabFolder) -> str:
    """May the container open the node that it has, and only this one?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    if facts.device(pid, "/dev/nvidia0") != _GPU_0:
        return "no-node"
    rules = facts.cgroup_of(lab).effective_device_rules()
    if not facts.allows(rules, *_GPU_0):
        return "denied"
    return "too-much" if facts.allows(rules, *_GPU_7) else SOLVED


def same_file_system(lab: LabFolder) -> str:
    """Is the jail the root of its mount namespace, and the old root gone?"""
    jail = lab.path / "jail"
    for pid in facts.elsewhere(lab, "mnt"):
        there = os.stat(jail)
        if facts.root_of_namespace(pid) != (there.st_dev, there.st_ino):
            return "chroot"
        inside = {mount.mount_point for mount in facts.mounts(pid)}
        return "old-root" if any(point.startswith("/old") for point in inside) else SOLVED
    return "refused"


def leaked_descriptor(lab: LabFolder) -> str:
    """Has the container a file of the host among its descriptors, beside the one it is to have?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    opened = facts.descriptors(pid)
    others = [found for fd, found in opened.items() if fd != 3]
    own = [lab.path / name for name in ("licence", "output")]
    if max(opened) > 3 or not all(_is_stream(found, own) for found in others):
        return "leaked"
    return SOLVED if facts.same(opened.get(3), lab.path / "licence") else "not-handed"


def _is_stream(found: os.stat_result, own: list[Path]) -> bool:
    """Return True for what a command may have as standard input and output."""
    is_own = any(facts.same(found, path) for path in own)
    return is_own or stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)


def slow_hook(lab: LabFolder) -> str:
    """Has the start come to its end, with all that the hooks leave?"""
    pid = facts.init_of(lab)
    if not pid:
        return "failed"
    done = [facts.stat_in_root(pid, f"/{name}") for name in ("network", "licence", "log")]
    return "hook-missing" if None in done else SOLVED


def daemon_reload(lab: LabFolder) -> str:
    """May the container open its GPU after the rules of config.json were written anew?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    if facts.device(pid, "/dev/nvidia0") != _GPU_0:
        return "no-node"
    container = facts.cgroup_of(lab)
    bundle = naming.record_of(str(lab.state), facts.CONTAINER).bundle
    known = validate.load(bundle).resources.get("devices") or []
    container.set_device_rules(container_rules(known))
    return SOLVED if facts.allows(container.effective_device_rules(), *_GPU_0) else "taken-away"


def version_skew(lab: LabFolder) -> str:
    """Which libcuda does the linker find: the driver's, or one that was brought along?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    driver = _libcuda(pid)
    if not driver:
        return "no-library"
    folders = facts.variable(pid, "LD_LIBRARY_PATH").split(":")
    searched = [*filter(None, folders), os.path.dirname(driver)]  # ld.so(8)
    for folder in searched:
        found = facts.stat_in_root(pid, f"{folder}/libcuda.so.1")
        if found is not None:
            return (
                SOLVED
                if facts.same(found, facts.stat_in_root(pid, driver) or found)
                else "old-library"
            )
    return "no-library"


def missing_library(lab: LabFolder) -> str:
    """Is libcuda in the container?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    if facts.device(pid, "/dev/nvidia0") != _GPU_0:
        return "no-node"
    return SOLVED if _libcuda(pid) else "no-library"


def dropped_packets(lab: LabFolder) -> str:
    """Does another host get a connection to the published port, and to nothing else behind it?"""
    far = facts.init_of(lab, "far")
    if not (far and facts.init_of(lab) and facts.init_of(lab, "lan")):
        return "stopped"
    if refusal := inside.connects(far, "192.0.2.1", 8080, _patience()):
        return "dropped" if refusal.startswith("no answer") else "refused"
    reaches_lan = not inside.connects(far, "198.51.100.2", 80, _patience())
    return "open" if reaches_lan else SOLVED


def lost_route(lab: LabFolder) -> str:
    """Does the container reach a machine behind the router, by a link with the new address?"""
    pid = facts.init_of(lab)
    if not (pid and facts.init_of(lab, "host") and facts.init_of(lab, "far")):
        return "stopped"
    links = {link.name: link for link in interfaces.interfaces(pid)}
    if "eth0" not in links or links["eth0"].mac != "02:00:00:00:00:07":
        return "other-mac"
    refusal = inside.connects(pid, "192.0.2.2", 80, _patience())
    if refusal == os.strerror(errno.ENETUNREACH).lower():
        return "unreachable"
    return "no-answer" if refusal else SOLVED


def loopback_only(lab: LabFolder) -> str:
    """Does the server take what comes by its cable, and what comes from its own namespace?"""
    pid, far = facts.init_of(lab), facts.init_of(lab, "far")
    if not (pid and far):
        return "stopped"
    if refusal := inside.connects(far, "10.7.0.2", 80, _patience()):
        return "refused" if refusal == os.strerror(errno.ECONNREFUSED).lower() else "no-answer"
    return "not-local" if inside.connects(pid, "127.0.0.1", 80, _patience()) else SOLVED


def large_mtu(lab: LabFolder) -> str:
    """Does a page arrive that needs packets of full size, by a tunnel that stays narrow?"""
    host, far = facts.init_of(lab, "host"), facts.init_of(lab, "far")
    if not (facts.init_of(lab) and host and far):
        return "stopped"
    if (facts.mtu(host, "e0"), facts.mtu(far, "eth0")) != (_TUNNEL_MTU, _USUAL_MTU):
        return "not-yours"
    if facts.fetched(far, "10.7.0.2", "/page", _patience()) >= _PAGE_BYTES:
        return SOLVED
    return "stalls" if facts.fetched(far, "10.7.0.2", "/small", _patience()) else "no-answer"


def stale_hosts(lab: LabFolder) -> str:
    """Does the address that the container's hosts file has for db lead to it, after it moved?"""
    pid, db = facts.init_of(lab), facts.init_of(lab, "db")
    if not (pid and db):
        return "stopped"
    has = {each.partition("/")[0] for link in interfaces.interfaces(db) for each in link.addresses}
    if "10.7.0.3" in has or "10.7.0.4" not in has:
        return "not-moved"
    named = [address for address, names in inside.hosts(pid) if "db" in names]
    if not named:
        return "no-name"
    return "old-address" if inside.connects(pid, named[0], 80, _patience()) else SOLVED


def crashing_worker(lab: LabFolder) -> str:
    """Has the worker made all of its table, without a kill, below a limit of memory?"""
    pid = facts.init_of(lab)
    if not pid:
        return "stopped"
    if facts.oom_kills(lab):
        return "killed"
    table = facts.stat_in_root(pid, "/table")
    if table is None or table.st_size < _TABLE_BYTES:
        return "not-done"
    return SOLVED if facts.memory_limit(lab) <= _MOST_MEMORY else "no-limit"


def dropped_capability(lab: LabFolder) -> str:
    """Has the server left root behind, its groups too, with the two rights that this takes?"""
    pid = facts.init_of(lab)
    if not pid:
        return "EPERM"
    if {*facts.field(pid, "Uid").split()} != {"1000"}:
        return "as-root"
    if {*facts.field(pid, "Gid").split(), *facts.field(pid, "Groups").split()} != {"1000"}:
        return "roots-group"
    bounding = int(facts.field(pid, "CapBnd") or "0", 16)
    return SOLVED if bounding == _SETUID | _SETGID else "too-much"


def unmapped_owner(lab: LabFolder) -> str:
    """Does the service run, and belongs its folder to its user, by a map of free ids?"""
    for pid in facts.elsewhere(lab, "user"):
        if facts.program(pid) != "sleep":
            continue
        rows = facts.uid_map(pid)
        if any(outside < _FIRST_FREE_ID for _, outside, _ in rows):
            return "host-ids"
        folder = facts.stat_in_root(pid, "/mnt/service")
        owners = [outside + _SERVICE_OWNER - inside for inside, outside, size in rows
                  if inside <= _SERVICE_OWNER < inside + size]  # fmt: skip
        return SOLVED if folder is not None and folder.st_uid in owners else "wrong-owner"
    return "EINVAL"


def stale_cdi(lab: LabFolder) -> str:
    """Does the container run, with the GPU and the driver's library?"""
    return _has_gpu(lab, "/dev/nvidia0")


def wrong_mode(lab: LabFolder) -> str:
    """Has the container GPU 0 alone, with the library, by an annotation as before?"""
    known = validate.load(str(lab.path / "bundle")).raw
    if _ASKED not in (known.get("annotations") or {}).values():
        return "other-way"
    return _has_gpu(lab, "/dev/nvidia0", "/dev/nvidia1")


def forgotten_claim(lab: LabFolder) -> str:
    """Has the container the GPU that was allocated, and no other?"""
    return _has_gpu(lab, "/dev/nvidia1", "/dev/nvidia0")


def _has_gpu(lab: LabFolder, wanted: str, other: str = "") -> str:
    """Say whether a container has a GPU, not the other one if it is named, and the library."""
    pid = facts.init_of(lab)
    if not pid:
        return "failed"
    if other and facts.device(pid, other) is not None:
        return "other-gpu"
    if facts.device(pid, wanted) is None:
        return "no-node"
    return SOLVED if _libcuda(pid) else "no-library"


def _libcuda(pid: int) -> str:
    """Return where the driver's libcuda is mounted in the container; "" if it is not."""
    for mount in facts.mounts(pid):
        name = os.path.basename(mount.mount_point)
        if name.startswith("libcuda.so.") and not mount.root.endswith("//deleted"):
            return mount.mount_point
    return ""


CHECKS: dict[str, Callable[[LabFolder], str]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        stacked_overlay, zombie_init, shared_mounts, lost_whiteout, lost_reply, failing_hook,
        wrong_capabilities, wrong_minor, denied_cgroup, same_file_system, leaked_descriptor,
        slow_hook, daemon_reload, version_skew, missing_library, dropped_packets,
        lost_route, loopback_only, large_mtu, stale_hosts, crashing_worker, dropped_capability,
        unmapped_owner, stale_cdi, wrong_mode, forgotten_claim,
    )
}  # fmt: skip
"""Name → check."""
