"""Ring 2: what accompanies a container while it runs: streams, signals, log, clean-up."""

from binascii import crc32

from minirun.core.keeping import places


def own_cgroup(root: str, container_id: str, *, systemd: bool) -> str:
    """Return the cgroup of a container whose config.json names none.

    An id is unique below one state root; below another one a cgroup has that root's mark.
    """
    mark = "" if root == places.ROOT else f".{crc32(root.encode()):08x}"
    return f"{':minirun:' if systemd else '/minirun/'}{container_id}{mark}"
