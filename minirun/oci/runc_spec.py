"""`minirun spec` without an image: the config.json that runc writes, to be edited.

default_config.json is runc's example (libcontainer/specconv/example.go), fact by fact: a shell on a
terminal, three capabilities, a read-only root, masked paths. Rootless (--rootless): a user
namespace in which the caller is root, no network namespace, and nothing that needs more rights.
"""

from __future__ import annotations

import os

from minirun.oci import run_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BIND_SYS = {
    "destination": "/sys", "type": "none", "source": "/sys",
    "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
}  # fmt: skip


def document(*, rootless: bool = False) -> dict[str, Any]:
    """Return the template; if it is to be `rootless`, without what only root may have."""
    made = run_config.example()
    if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):  # as runc: on pure cgroup2 alone
        made["linux"]["namespaces"].remove({"type": "cgroup"})
    if not rootless:
        return made
    linux = made["linux"]
    del linux["resources"]
    linux["namespaces"].remove({"type": "network"})
    linux["namespaces"].append({"type": "user"})
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
    return made
