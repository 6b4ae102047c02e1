"""The state roots that are in use: an engine calls minirun with a --root of its own.

containerd says `--root /run/containerd/runc/NAMESPACE`, dockerd EXECROOT/runtime-runc/moby, podman
none. So that `timeline`, `inspect` and `ps` find every container, each root is remembered, by a
link in the store, when it is first used:

    STORE/roots/CRC32-NAME  ->  the root

A root that is gone (/run is empty after a boot) is forgotten at the next read. If a root is
named, by --root or $MINIRUN_ROOT, it alone counts. runc has nothing like it: its `list` shows one
root.
"""

import os
from binascii import crc32

from minirun.core import places, state
from minirun.core.errors import StateError
from minirun.core.settings import Settings
from minirun.running import history

LIMIT = 100
"""How many roots are remembered: of more, the one is forgotten that was used longest ago."""
_LONGEST = 64


def remember(settings: Settings) -> None:
    """Write down that this root, which is not the store's own, is in use, unless it is known.

    Costs one stat(2). If the store cannot be written, containers are made all the same.
    """
    entry = entry_of(settings.store, settings.root)
    try:
        os.lstat(entry)
    except FileNotFoundError:
        _write(settings, entry)
    except OSError:
        pass


def entry_of(store: str, root: str) -> str:
    """Return the path of the link that leads to a root."""
    last = root.rpartition("/")[2][-_LONGEST:]
    return f"{store}/{places.ROOTS}/{crc32(os.fsencode(root)):08x}-{last}"


def _write(settings: Settings, entry: str) -> None:
    folder = f"{settings.store}/{places.ROOTS}"
    try:
        os.makedirs(folder, mode=0o711, exist_ok=True)
        os.symlink(settings.root, entry)  # in one step: nothing half-written, and no other name
        _forget_beyond_the_limit(folder, settings.root)
    except OSError:
        pass


def _forget_beyond_the_limit(folder: str, new: str) -> None:
    """Forget what is too much; what is recorded below such a root goes too, if nothing lives."""
    found = _read(folder)
    if len(found) <= LIMIT:
        return
    used = {root: os.stat(root).st_mtime for root in found.values() if os.path.isdir(root)}
    for entry, root in sorted(found.items(), key=lambda pair: used.get(pair[1], 0)):
        if len(found) <= LIMIT:
            return
        if root != new:
            del found[entry]
            os.unlink(entry)
            if root in used and not state.names(root):
                _drop_history(root)


def _drop_history(root: str) -> None:
    """Remove what is recorded below a state root, and nothing else."""
    try:
        fd = history.open_folder(root)
    except OSError:
        return  # there is none
    try:
        for name in history.names(fd):
            os.unlink(name, dir_fd=fd)
        os.rmdir(f"{root}/{places.HISTORY}")
    except OSError:
        pass  # there is more than minirun's
    finally:
        os.close(fd)


def _read(folder: str) -> "dict[str, str]":
    """Return entry → root, also for roots that are gone; nothing if it cannot be read."""
    found: dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return found
    for name in names:
        try:
            found[f"{folder}/{name}"] = os.readlink(f"{folder}/{name}")
        except OSError:  # another command has just forgotten it; or it is no link, and none of ours
            continue
    return found


def known(settings: Settings) -> "list[str]":
    """Return the roots to look at, the settings' own first.

    Left out are those that may not be read, and those that are gone, which are forgotten.
    """
    roots = [settings.root]
    if settings.named:
        return roots
    for entry, root in _read(f"{settings.store}/{places.ROOTS}").items():
        try:
            os.stat(root)
        except (FileNotFoundError, NotADirectoryError):
            _forget(entry)
        except OSError:
            continue
        if os.access(root, os.R_OK | os.X_OK):
            roots.append(root)
    return roots


def _forget(entry: str) -> None:
    try:
        os.unlink(entry)
    except OSError:
        pass


def locate(settings: Settings, name: str) -> "tuple[Settings, str]":
    """Return the settings for the root of the container that `name` means, and its whole id.

    `name` is an id, or the begin of one that no other container has; the settings' own root comes
    first. If nothing fits, the arguments are returned: loading the container raises then. Raises
    StateError if several fit.
    """
    if settings.named or name in _names(settings.root):
        return settings, name
    places = [(root, each) for root in known(settings) for each in _names(root)]
    exact = [place for place in places if place[1] == name]
    near = exact or [place for place in places if name and place[1].startswith(name)]
    if len(near) > 1:
        text = f"{name!r} may be {', '.join(f'{each} in {root}' for root, each in near[:4])}"
        raise StateError(text, "type more of it, or name the --root", status=1)
    for root, each in near:
        return settings._replace(root=root), each
    return settings, name


def short(container_id: str) -> str:
    """Return the begin of an id that an engine has made up: 12 of 64 digits, as docker does."""
    made_up = len(container_id) == 64 and set(container_id) <= set("0123456789abcdef")
    return container_id[:12] if made_up else container_id


def _names(root: str) -> "list[str]":
    """minirun's containers below a root, which may hold runc's too; none if it is closed."""
    try:
        return [n for n in state.names(root) if os.path.exists(f"{root}/{n}/{places.CONFIG}")]
    except PermissionError:
        return []
