"""Records: device rules (which nodes a container may open) and settings (values for files)."""

from __future__ import annotations

from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeviceRule(Record):
    """One rule of config.json's linux.resources.devices (runtime-spec, config-linux.md).

    `kind` is a (all), c or b; `major` and `minor` are None for any; `access` is out of "rwm".
    Among the rules of a container the last one that matches decides.
    """

    allow: bool
    kind: str
    major: int | None
    minor: int | None
    access: str

    def __str__(self) -> str:
        """The kernel's own form, as in devices.list: c 195:0 rw."""
        major, minor = ("*" if n is None else str(n) for n in (self.major, self.minor))
        return f"{self.kind} {major}:{minor} {self.access}"


class Setting(Record):
    """One value for one file of one controller; `origin` is the path in config.json.

    `otherwise` is what to set if the kernel has no such file; `optional`: then nothing.
    """

    origin: str
    controller: str
    file: str
    value: str
    otherwise: Setting | None = None
    optional: bool = False


PER_DEVICE = ("blockIO", "hugepageLimits", "network", "rdma")
"""The members of linux.resources that name devices; minirun.cgroups.perdevice reads them."""

_OPENED = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200), (136, None))
DEFAULT = (
    DeviceRule(True, "c", None, None, "m"),
    DeviceRule(True, "b", None, None, "m"),
    *(DeviceRule(True, "c", major, minor, "rwm") for major, minor in _OPENED),
)
"""mknod of any node; null, zero, full, random, urandom, tty, ptmx, and terminals.

Not 5:1, the host's console: a container's /dev/console is one of its own terminals.
But /dev/net/tun, which no specification names: programs of VPNs rely on it, and on any engine they
get it by `-v /dev/net/tun:/dev/net/tun`. Its use needs CAP_NET_ADMIN.
"""


def parse_rules(rows: list[dict[str, Any]]) -> list[DeviceRule]:
    """Return config.json's linux.resources.devices as rules; a number below 0 means any."""
    return [
        DeviceRule(
            row["allow"], row.get("type") or "a", _number(row.get("major")),
            _number(row.get("minor")), row.get("access") or "rwm",
        )
        for row in rows
    ]  # fmt: skip


def container_rules(rows: list[dict[str, Any]]) -> list[DeviceRule]:
    """Return the rules of a container: config.json's, then :data:`DEFAULT`, as runc has them.

    Any node may be made; null and its like, terminals and tun, may be opened. Engines rely on it:
    podman's and containerd's config.json refuse everything and name none of these.
    """
    return [*parse_rules(rows), *DEFAULT]


def _number(value: int | None) -> int | None:
    """Return a major or minor number; None, which means any, for one below 0."""
    return None if value is None or value < 0 else value
