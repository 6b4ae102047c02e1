"""Which folder may be the driver root: one that is as trustworthy as "/" itself.

From a driver root come libraries that root loads, nodes and mounts' sources. So it has to be root's
(or the caller's own, who has no more rights than that), with no folder above it in which another
user could exchange it, and not below a place in which containers or images lie, since those choose
their own files. In a folder with the sticky bit, as /tmp, no user can exchange what is another's:
unlink(2), EPERM.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import GPUError, reason
from minirun.core.keeping import places
from minirun.core.keeping.settings import unprivileged

STORES = (
    "/var/lib/containers", "/run/containers", "/run/libpod", "/run/crio",
    "/var/lib/docker", "/run/docker", "/var/lib/containerd", "/run/containerd",
    "/var/lib/buildkit", "/run/buildkit", "/var/lib/kubelet", "/var/lib/rancher", "/run/k3s",
    "/var/lib/lxc", "/var/lib/machines", f"{places.STORE}/{places.IMAGES}", places.ROOT,
    f"{places.STORE}/layers",
)  # fmt: skip
"""Where engines keep images and containers, unless they are told another place."""
MARKS = (
    "storage.lock", "io.containerd.metadata.v1.bolt", "engine-id", "image/overlay2",
    "buildkitd.lock", "image.json", "layer.json", places.NEW,
)  # fmt: skip
"""What lies in such a place: of podman and CRI-O, containerd, docker, buildkit; in the directories
of an image and of a layer of minirun's; in a state root of minirun's."""
_OVERFLOW = 65534
"""Owner of files whose uid is not mapped in this user namespace: user_namespaces(7)."""
_HINT = "a folder of root's, such as /run/nvidia/driver, that no other user may write to"


def check(root: str) -> str:
    """Return where the driver root really is: "" for the host's own. Raises GPUError.

    Refused is one that another user than root and the caller could change, and one among the files
    of a container or an image.
    """
    path = os.path.realpath(root) if root.strip("/") else "/"
    if path == "/":
        return ""
    if fault := not_a_folder(path):
        raise GPUError(f"driver root {root}: {fault}", _HINT)
    owners = {0, os.geteuid()}
    if os.geteuid() == 0 and unprivileged():
        owners.add(_OVERFLOW)  # the host's root cannot be told from others in here
    above = ["/"]
    for name in path[1:].split("/"):
        above.append(f"{above[-1].rstrip('/')}/{name}")
    for place in above:
        if fault := _fault(place, owners, last=place == path):
            raise GPUError(f"driver root {root}: {fault}", _HINT)
    return path


def not_a_folder(path: str) -> str:
    """Say why `path` is no folder in which the caller may look; "" if it is one."""
    try:
        os.stat(f"{path}/.")
    except FileNotFoundError:
        return "no such directory"
    except OSError as error:
        return reason(error)
    return ""


def _fault(place: str, owners: set[int], *, last: bool) -> str:
    """Say what is wrong with a folder on the way to the driver root; "" for nothing."""
    status = os.lstat(place)
    if status.st_uid not in owners:
        return f"{place} belongs to user {status.st_uid}"
    if status.st_mode & 0o022 and (last or not status.st_mode & stat.S_ISVTX):
        return f"{place} may be changed by others, its mode is {stat.S_IMODE(status.st_mode):o}"
    store = place in map(os.path.realpath, STORES)
    mark = next((name for name in MARKS if os.path.lexists(f"{place}/{name}")), "")
    return f"{place} holds containers or images" if store or mark else ""
