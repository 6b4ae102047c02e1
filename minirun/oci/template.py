"""`minirun spec` without an image: the config.json that runc writes, to be edited.

runc's example (libcontainer/specconv/example.go) fact by fact: a shell on a terminal, three
capabilities, a read-only root, five namespaces, masked paths. Rootless (--rootless): a user
namespace in which the caller is root, no network namespace, and nothing that needs more rights.
"""

import os

from minirun.core import state
from minirun.oci import generate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "cgroup")
_OPEN_FILES = 1024
_BIND_SYS = {
    "destination": "/sys", "type": "none", "source": "/sys",
    "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
}  # fmt: skip


def document(*, rootless: bool = False) -> "dict[str, Any]":
    """Return the template."""
    made: dict[str, Any] = {
        "ociVersion": state.OCI_VERSION,
        "process": _process(),
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "minirun",
        "mounts": _mounts(),
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "maskedPaths": list(generate.MASKED),
            "readonlyPaths": list(generate.READONLY),
        },
    }
    if rootless:
        _without_root(made)
    return made


def _process() -> "dict[str, Any]":
    kinds = ("bounding", "effective", "permitted")
    return {
        "terminal": True,
        "user": {"uid": 0, "gid": 0},
        "args": ["sh"],
        "env": [f"PATH={generate.PATH}", "TERM=xterm"],
        "cwd": "/",
        "capabilities": {kind: list(CAPABILITIES) for kind in kinds},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": _OPEN_FILES, "soft": _OPEN_FILES}],
        "noNewPrivileges": True,
    }


def _mounts() -> "list[dict[str, Any]]":
    return [
        {"destination": path, "type": kind, "source": source, "options": list(options)}
        for path, kind, source, options in generate.MOUNTS
    ]


def _without_root(made: "dict[str, Any]") -> None:
    """Change what only root may have."""
    linux = made["linux"]
    del linux["resources"]
    kinds = [kind for kind in NAMESPACES if kind != "network"]
    linux["namespaces"] = [{"type": kind} for kind in (*kinds, "user")]
    for name, own in (("uidMappings", os.geteuid()), ("gidMappings", os.getegid())):
        linux[name] = [{"containerID": 0, "hostID": own, "size": 1}]
    mounts = []
    for mount in made["mounts"]:
        options = [o for o in mount["options"] if not o.startswith(("gid=", "uid="))]
        if mount["destination"] == "/sys":  # a new one needs a network namespace of one's own
            mounts.append(_BIND_SYS)
        else:
            mounts.append({**mount, "options": options})
    made["mounts"] = mounts
