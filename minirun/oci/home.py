"""$HOME, if config.json sets none: what the image's /etc/passwd says of the user, or /.

What the spec says: nothing. What the real stack does: docker and containerd leave it to the
runtime, and runc and crun fill it in.
"""

from __future__ import annotations

from minirun.core.container import Extra
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_SIZE = 1 << 20  # bytes of /etc/passwd that are read: it is the image's, and may have no end


class Home(Extra):
    """The home directory of one container's user."""

    def variables(self, root: Root, entries: list[str]) -> list[str]:
        """Return the variables with HOME among them; see :func:`added`."""
        return added(entries, self.config.process, root)


def added(entries: list[str], process: dict[str, Any], root: Root) -> list[str]:
    """Return `entries` with the HOME of the process's user, if they have none.

    Of several the last counts; an empty one is none.
    """
    homes = [entry for entry in entries if entry.startswith("HOME=")]
    if homes[-1:] not in ([], ["HOME="]):
        return entries
    home = of(root, (process.get("user") or {}).get("uid", 0))
    return [*(entry for entry in entries if entry not in homes), f"HOME={home}"]


def of(root: Root, uid: int) -> str:
    """Return the home directory of user `uid` in the image; "/" if it is not known.

    The first line with the number counts, with all of passwd(5)'s seven fields or fewer, as in
    runc. One with a NUL, which no environment can carry, is left out.
    """
    try:
        data = root.read("/etc/passwd", _MAX_SIZE)
    except OSError:  # none; or a link to nowhere, a FIFO, a device
        return "/"
    for line in data.split(b"\n"):
        fields = [*line.strip().split(b":"), *[b""] * 5]
        if fields[2] == b"%d" % uid and b"\0" not in line:
            return fields[5].decode(errors="surrogateescape") or "/"
    return "/"
