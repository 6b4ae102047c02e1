"""The systemd cgroup driver without root: the scope is one of the user's own manager.

systemd runs a second manager for each user who has logged in, or lingers: user@.service(5). It has
the delegated part of the tree below user.slice, so its scopes are the user's; their path begins at
the manager's own cgroup. podman without root asks for this wherever cgroup version 2 is all there
is. What the real stack does: runc asks `busctl --user status` for the user's number, which a user
namespace hides; here the kernel tells it to the server (minirun.cgroups.systemd.bus).
"""

import os

from minirun.cgroups import systemd
from minirun.cgroups.systemd.bus import Bus


def bus() -> Bus:
    """Return a connection to the user's manager. Raises MinirunError."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    session = ""
    for address in os.environ.get("DBUS_SESSION_BUS_ADDRESS", "").split(";"):
        if address.startswith("unix:path="):  # D-Bus specification, "Server Addresses"
            session = session or address.removeprefix("unix:path=").partition(",")[0]
    return Bus((session or f"{folder}/bus", f"{folder}/systemd/private"))


def locate(cgroups_path: str) -> "tuple[str, str, str]":
    """Return (path of the cgroup, slice, scope), as :func:`minirun.cgroups.systemd.locate` does.

    The slice is user.slice by default, as with runc. Raises ConfigError, MinirunError.
    """
    systemd.check()
    slice_name, scope = systemd.parse(cgroups_path)
    slice_name = slice_name or "user.slice"
    connection = bus()
    try:
        top = connection.top()
    finally:
        connection.close()
    return f"{top}{systemd.expand(slice_name)}/{scope}", slice_name, scope
