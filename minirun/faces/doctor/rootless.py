"""What a user without root can do here: tried as such a user, in a user namespace of its own.

Root tries it as user 65534 (nobody), who has no privilege and no grant; any other user as himself.
So the report tells root what the users of the machine will meet.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import NoReturn

from minirun import cgroups
from minirun.cgroups import delegated, hierarchies, systemd
from minirun.common.network_request import NetworkRequest
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.kernel import mounts, namespaces, process
from minirun.faces.doctor import networks
from minirun.faces.doctor.attempts import Ability, Lacking, Workplace, result_of
from minirun.net import helpers, userspace
from minirun.oci.namespaces import idmap

STAGE = 8
"""Where `doctor` shows these: after the seven stages."""
_NOBODY = 65534
_HOST = (
    "root", "namespace user", "namespace time", "overlay", "mknod", "kernel modules", "terminal",
    "cgroup v1", "cgroup v2", "device rules v1", "device rules v2",
    *(name for name, _, _ in networks.ABILITIES),
)  # fmt: skip
_PLAIN = (
    "kernel", "interpreter", "python-prctl", "disk", "images", "image builders", "nvidia tools",
    "gpu way", "gpu", "root mount",
)  # fmt: skip


def _become_user() -> None:
    """Become user 65534 if the caller is root. Raises OSError."""
    if not unprivileged():
        process.setgroups([])
        process.setgid(_NOBODY)
        process.setuid(_NOBODY)
        process.prctl(process.PR_SET_DUMPABLE, 1)  # setuid cleared it, and with it one's own /proc


def _enter() -> None:
    """Be root of a new user namespace in which one's own id is the only one. Raises OSError."""
    _become_user()
    maps = [(name, f"0 {own} 1\n") for name, own in idmap.own_ids().items()]
    namespaces.unshare(namespaces.FLAGS["user"])
    for name, text in [("setgroups", "deny"), *maps]:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def within(attempt: Callable[[Workplace], str]) -> Callable[[Workplace], str]:
    """Return `attempt`, made by a user without privileges in a namespace of its own."""

    def inside(place: Workplace) -> str:
        _enter()
        return attempt(place)

    return inside


def namespace(place: Workplace) -> str:
    """A user namespace of a user's own, with one id."""
    _enter()
    if os.geteuid() != 0:
        raise Lacking(f"its maker is user {os.geteuid()} in it")
    try:
        os.setgroups([])
    except PermissionError:
        return "one id: the user is 0 in it; no other users, no additional groups"
    raise Lacking("setgroups was not denied")


def more_ids(place: Workplace) -> str:
    """newuidmap, newgidmap, and the ids that are granted."""
    missing = [program for name, program in idmap.PROGRAMS.items() if not idmap.find_program(name)]
    if missing:
        raise Lacking(f"not installed: {', '.join(missing)}")
    if not unprivileged():
        return "newuidmap and newgidmap are installed; /etc/subuid and /etc/subgid say for whom"
    counts = [sum(row["size"] for row in rows) - 1 for rows in idmap.default()]
    if not all(counts):
        raise Lacking(f"{counts[0]} user ids and {counts[1]} group ids are granted to you")
    return f"{counts[0]} user ids, {counts[1]} group ids"


def overlay(place: Workplace) -> str:
    """OverlayFS in a user namespace: Linux 5.11, with its marks in user.* attributes."""
    os.mkdir(f"{place.scratch}/rootless")
    os.chdir(f"{place.scratch}/rootless")  # so that no directory above need be open to the user
    if not unprivileged():
        os.chown(".", _NOBODY, _NOBODY)
    _enter()
    namespaces.unshare(namespaces.FLAGS["mount"])
    for name in ("lower", "upper", "work", "merged"):
        os.mkdir(name)
    options = "lowerdir=lower,upperdir=upper,workdir=work,userxattr"
    mounts.mount("overlay", "merged", "overlay", 0, options)
    os.mkdir("merged/new")
    mounts.umount2("merged")
    os.chmod("work/work", 0o700)  # overlayfs makes it with mode 0, which its owner could not remove
    return "mounted by a user"


def file_systems(place: Workplace) -> str:
    """proc, sysfs and tmpfs of one's own: nothing may lie over the host's /proc or /sys."""
    _enter()
    kinds = ("mount", "pid", "network")
    namespaces.unshare(sum(namespaces.FLAGS[kind] for kind in kinds))

    def mount_all() -> str:
        mounts.mount("tmpfs", "/tmp", "tmpfs")
        for kind in ("proc", "sysfs"):
            os.mkdir(f"/tmp/{kind}")
            mounts.mount(kind, f"/tmp/{kind}", kind)
        return "proc, sysfs, tmpfs"

    return result_of(mount_all)


def cgroup(place: Workplace) -> str:
    """A cgroup of one's own, for limits; root may delegate one if cgroup2 is mounted."""
    if not unprivileged():
        if not any(h.version == 2 for h in hierarchies.mounted()):
            raise Lacking("no cgroup2 is mounted, and version 1 cannot be delegated")
        return "cgroup2 is mounted: root can delegate a part of it"
    if cgroups.users_manager_makes_it(Settings(), bundle=False):
        return _scopes(hierarchies.version_2() + systemd.users_top())
    found = delegated.open_cgroup("/minirun/faces/doctor", named=False)
    if isinstance(found, delegated.NoCgroup):
        raise Lacking(f"{found.reason}: no limits, no pause")
    return found.directories()[0].removesuffix("/minirun/faces/doctor")


def _scopes(manager: str) -> str:
    """Return what the scopes of a user's manager can do, whose cgroup is `manager`."""
    with open(f"{manager}/cgroup.controllers", encoding="ascii") as file:
        controllers = ", ".join(file.read().split())
    return f"scopes of your systemd manager, with {controllers or 'no controllers'}"


def devices(place: Workplace) -> str:
    """The host's device nodes, bound: mknod is denied in a user namespace."""
    _enter()
    namespaces.unshare(namespaces.FLAGS["mount"])
    mounts.mount("tmpfs", "/tmp", "tmpfs")
    os.close(os.open("/tmp/null", os.O_CREAT | os.O_WRONLY))
    mounts.mount("/dev/null", "/tmp/null", None, mounts.MS_BIND)
    os.close(os.open("/tmp/null", os.O_WRONLY))
    return "the host's nodes, GPUs' too, are bound; no mknod, no device rules: SIMULATED needs root"


def user_network(place: Workplace) -> str:
    """pasta or slirp4netns: started for a network namespace of a user's own, as `run` does it."""
    folder = f"{place.scratch}/network"
    os.mkdir(folder)
    os.chdir(folder)  # so that no directory above need be open to the user
    if not unprivileged():
        os.chown(".", _NOBODY, _NOBODY)
    if not userspace.find():
        raise Lacking(userspace.NEITHER.partition(" (")[0])
    _become_user()
    os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))
    ready, written = os.pipe()
    pid = os.fork()
    if pid == 0:
        _hold_network(written)
    try:
        os.close(written)
        if not os.read(ready, 1):
            raise Lacking("no network namespace can be made")
        asked = NetworkRequest("userspace", any_program=True)
        name, helper, reason = userspace.start(asked, ".", [], pid)
        helpers.release(helper)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return f"{userspace.find(name)}: the default of `run` without root" + (
        reason and f" ({reason})"
    )


def _hold_network(ready: int) -> NoReturn:
    """In a child: be alone in a new network namespace, until the end."""
    try:
        process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL, why="it ends with its doctor")
        _enter()
        namespaces.unshare(namespaces.FLAGS["network"])
        os.write(ready, b"1")
        signal.pause()
    finally:
        os._exit(1)


_OLD = "needs Linux 5.11 or newer, and a file system with user.* attributes (tmpfs: Linux 6.6)"
_SYSCTL = (
    "sysctl user.max_user_namespaces; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns"
)
_IDS = (
    "apt-get install uidmap; usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"
)
_COVERED = "in a container itself its /proc and /sys must not be masked"

ABILITIES = (
    Ability("user namespace", STAGE, False, namespace, _SYSCTL),
    Ability("more ids", STAGE, False, more_ids, _IDS),
    Ability("overlay by a user", STAGE, False, overlay, _OLD),
    Ability("file systems", STAGE, False, file_systems, _COVERED),
    Ability("devices", STAGE, False, devices, "devtmpfs must be mounted at /dev"),
    Ability(
        "user network",
        STAGE,
        False,
        user_network,
        f"{userspace.HINT}; ls -l /dev/net/tun; without it a container has lo alone",
    ),
    Ability("delegated cgroup", STAGE, False, cgroup, delegated.advice()),
)
"""What `doctor` tries on behalf of users; tells root what they will meet."""

_ADVICE = {"gpu": "a real GPU needs NVIDIA's driver; SIMULATED ones need root"}
_NEEDED = ("user namespace", "overlay by a user", "file systems", "devices")


def for_user(table: tuple[Ability, ...]) -> tuple[Ability, ...]:
    """Return what a user without root needs and can use, out of root's `table` and from here."""
    rows = []
    for row in table:
        if row.name not in _HOST and row not in ABILITIES:
            attempt = row.attempt if row.name in _PLAIN else within(row.attempt)
            rows.append(row._replace(attempt=attempt, advice=_ADVICE.get(row.name, row.advice)))
    return (*rows, *(row._replace(needed=row.name in _NEEDED) for row in ABILITIES))
