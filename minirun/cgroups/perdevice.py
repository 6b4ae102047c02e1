"""linux.resources that speak of one device each: blockIO, hugepageLimits, network and rdma.

runtime-spec, config-linux.md; Documentation/admin-guide/cgroup-v1/{blkio-controller, hugetlb,
net_cls, net_prio, rdma}.rst, and cgroup-v2.rst. Such a file takes a line for each device, page size
or interface; each write changes one line. Version 2 knows no leaf weights, and leaves marking
packets to eBPF programs, so there those two are an error.

A weight is for a scheduler: CFQ had blkio.weight, and went with Linux 5.0; BFQ has files of its
own, tried if the first name is missing (runc does the same). Imported only when asked for.
Types have been checked by then: minirun.oci.validate.
"""

from __future__ import annotations

from minirun.cgroups.rules import Setting
from minirun.core.errors import ConfigError
from minirun.core.keeping.numbers import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    LocatedRows = list[tuple[str, dict[str, Any]]]

_THROTTLES = {
    "throttleReadBpsDevice": ("blkio.throttle.read_bps_device", "rbps"),
    "throttleWriteBpsDevice": ("blkio.throttle.write_bps_device", "wbps"),
    "throttleReadIOPSDevice": ("blkio.throttle.read_iops_device", "riops"),
    "throttleWriteIOPSDevice": ("blkio.throttle.write_iops_device", "wiops"),
}
"""Property: version 1's file, and the key in version 2's io.max. Bytes, or requests, a second."""

_UNITS = ("KB", "MB", "GB")


def settings(resources: dict[str, Any], version: int) -> list[Setting]:
    """Return the settings for the files of a version, 1 or 2. Raises ConfigError."""
    return [
        *_block(resources.get("blockIO", {}), version),
        *_huge_pages(_rows(resources, "hugepageLimits", "linux.resources"), version),
        *_network(resources.get("network", {}), version),
        *_rdma(resources.get("rdma", {})),
    ]


def io_weight(weight: int) -> int:
    """Convert a block weight (10 to 1000) to version 2's io.weight (1 to 10000), in a line."""
    return 1 + (weight - 10) * 9999 // 990


def _block(block: dict[str, Any], version: int) -> list[Setting]:
    where = "linux.resources.blockIO"
    found = _weights(block, "", "", where, version)
    for origin, row in _rows(block, "weightDevice", where):
        found += _weights(row, "_device", f"{_device(row)} ", origin, version)
    for name, (file, key) in _THROTTLES.items():
        for origin, row in _rows(block, name, where):
            device, rate = _device(row), row.get("rate", 0)
            if version == 1:
                found.append(Setting(origin, "blkio", file, f"{device} {rate}"))
            else:
                found.append(Setting(origin, "io", "io.max", f"{device} {key}={rate or 'max'}"))
    return found


def _weights(
    group: dict[str, int], suffix: str, device: str, where: str, version: int
) -> list[Setting]:
    """Return the weight and the leaf weight in `group`, unless they are 0."""
    found = []
    weight, leaf = group.get("weight"), group.get("leafWeight")
    if weight and version == 1:
        origin, value = f"{where}.weight", f"{device}{weight}"
        bfq = Setting(origin, "blkio", f"blkio.bfq.weight{suffix}", value)
        found.append(Setting(origin, "blkio", f"blkio.weight{suffix}", value, bfq))
    elif weight:
        origin = f"{where}.weight"
        plain = Setting(origin, "io", "io.weight", f"{device}{io_weight(weight)}")
        found.append(Setting(origin, "io", "io.bfq.weight", f"{device}{weight}", plain))
    if leaf and version == 2:
        _refuse(f"{where}.leafWeight")
    if leaf:
        file = f"blkio.leaf_weight{suffix}"
        found.append(Setting(f"{where}.leafWeight", "blkio", file, f"{device}{leaf}"))
    return found


def _huge_pages(rows: LocatedRows, version: int) -> list[Setting]:
    """Limit the pages, and, if the kernel can (5.7), also what may be reserved of them."""
    found = []
    for origin, row in rows:
        size, limit = row["pageSize"], str(row["limit"])
        number = size[:-2]
        if size[-2:] not in _UNITS or not whole(number, 1) or number[0] == "0":
            raise ConfigError(f"{origin}.pageSize: {size!r} is no size like 2MB or 1GB")
        for kind in ("", "rsvd."):
            file = f"hugetlb.{size}.{kind}{'limit_in_bytes' if version == 1 else 'max'}"
            found.append(Setting(origin, "hugetlb", file, limit, optional=bool(kind)))
    return found


def _network(network: dict[str, Any], version: int) -> list[Setting]:
    """Mark packets with a class (net_cls), and give interfaces priorities (net_prio)."""
    where = "linux.resources.network"
    found = []
    if identity := network.get("classID"):
        found.append(Setting(f"{where}.classID", "net_cls", "net_cls.classid", str(identity)))
    for origin, row in _rows(network, "priorities", where):
        name = row["name"]
        if name.split() != [name]:
            raise ConfigError(f"{origin}.name: {name!r} is no name of a network interface")
        line = f"{name} {row['priority']}"
        found.append(Setting(origin, "net_prio", "net_prio.ifpriomap", line))
    if found and version == 2:
        _refuse(found[0].origin)
    return found


def _rdma(devices: dict[str, dict[str, int]]) -> list[Setting]:
    """Limit handles and objects of each RDMA device; the file is the same in both versions."""
    found = []
    for name, limits in devices.items():
        origin = f"linux.resources.rdma.{name}"
        words = [name]
        for key, word in (("hcaHandles", "hca_handle"), ("hcaObjects", "hca_object")):
            if key in limits:
                words.append(f"{word}={limits[key]}")
        if name.split() != [name]:
            raise ConfigError(f"{origin}: is no name of a device")
        if len(words) > 1:
            found.append(Setting(origin, "rdma", "rdma.max", " ".join(words)))
    return found


def _rows(group: dict[str, Any], key: str, where: str) -> LocatedRows:
    """Return (path, row) of each row of a list of objects; none if there is no list."""
    return [(f"{where}.{key}[{index}]", row) for index, row in enumerate(group.get(key, ()))]


def _device(row: dict[str, int]) -> str:
    return f"{row.get('major', 0)}:{row.get('minor', 0)}"


def _refuse(origin: str) -> None:
    raise ConfigError(
        f"{origin}: cgroup2 has no such setting",
        "take it out of config.json, or choose cgroup v1",
    )
