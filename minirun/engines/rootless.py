"""Who runs minirun: root of the host, or a user with no rights but in a namespace of its own.

What happens: a user without privileges may still make a user namespace, in which it is root
(user_namespaces(7)); all that is made along with it belongs to it. So a container works that is
content with that: minirun.engines.rootless_config changes and checks config.json,
minirun.oci.namespaces.idmap writes the id maps, minirun.cgroups.delegated finds a cgroup, or says
that there is none.

What the specification says: of the XDG base directories, $XDG_RUNTIME_DIR is the user's own, and
gone after logout. What the real stack does: runc and crun keep their containers there too, and
podman keeps its images below ~/.local/share.

Imported only for a user without privileges.
"""

from __future__ import annotations

import os

from minirun.core.keeping.places import CONTAINERS, ROOT, STORE
from minirun.core.keeping.visible import warn

_DIRECTORY = 4
"""S_IFDIR, as the upper four bits of a mode: inode(7)."""


def places() -> tuple[str, str]:
    """Return (store, state root) if neither is named.

    Below /var/lib for root. For a user the store is $XDG_DATA_HOME/minirun or
    ~/.local/share/minirun, the root $XDG_RUNTIME_DIR/minirun or /run/user/UID/minirun, else below
    the store. User 0 of a user namespace is such a user if he cannot write to /var/lib, as with
    `podman unshare`; runc asks $USER instead. A runtime directory counts only if it is the user's
    own, and no link. podman calls its runtime without $HOME: then the store, which it does not
    need, is beside the root. If there is neither, the places are root's: that
    can be read (`replay` needs nothing else), and :func:`check_home` says why it is not written.
    """
    if os.geteuid() == 0 and os.access(os.path.dirname(STORE), os.W_OK):
        return STORE, ROOT
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = (runtime, f"/run/user/{os.geteuid()}")
    own = [each for each in folders if each.startswith("/") and _may_hold(each)]
    home = os.environ.get("HOME", "")
    data = os.environ.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home[:1] == "/" else "")
    if not data and not own:
        return STORE, ROOT
    store = f"{data}/minirun" if data else f"{own[0]}/minirun-store"
    return store, f"{own[0]}/minirun" if own else f"{store}/{CONTAINERS}"


def _may_hold(folder: str) -> bool:
    """Return True if containers may be kept below a runtime directory; warn if it is not safe.

    The XDG base directory specification: it "MUST be owned by the user", and only theirs to
    write. Else another user could put in the place of a record one of theirs.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    reason = why_not_own(folder)
    if reason:
        warn(f"$XDG_RUNTIME_DIR: {folder} is not used: {reason}")
    return not reason


def why_not_own(folder: str) -> str:
    """Return why a folder may be another user's work; empty if only the caller writes to it."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return ""
    if found.st_mode >> 12 != _DIRECTORY:
        return "it is a link, or no directory"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    return "other users may write to it" if found.st_mode & 0o022 else ""
