"""The state roots that are in use: an engine calls minirun with a --root of its own.

containerd says `--root /run/containerd/runc/NAMESPACE`, dockerd EXECROOT/runtime-runc/moby, podman
none. So that `timeline`, `inspect` and `ps` find every container, each root is remembered, by a
link in the store, when it is first used:

    STORE/roots/CRC32-NAME  ->  the root

A root that is gone (/run is empty after a boot) is forgotten at the next read. If a root is
named, by --root or $MINIRUN_ROOT, it alone counts. runc has nothing like it: its `list` shows one
root.
"""

from __future__ import annotations

import os
from binascii import crc32

from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.running import kept_logs

with lazy:
    from minirun.common import naming  # which needs Unix: `replay` does without

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
        fd = kept_logs.open_folder(root)
    except OSError:
        return  # there is none
    try:
        for name in kept_logs.names(fd):
            os.unlink(name, dir_fd=fd)
        os.rmdir(f"{root}/{places.HISTORY}")
    except OSError:
        pass  # there is more than minirun's
    finally:
        os.close(fd)


def _read(folder: str) -> dict[str, str]:
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


def known(settings: Settings) -> list[str]:
    """Return the roots to look at, the settings' own first, each directory once.

    The store's own is one of them: a user has it without a runtime directory, as in a cron job, and
    $XDG_RUNTIME_DIR/minirun at a login. Left out are those that may not be read, and those that are
    gone, which are forgotten.
    """
    if settings.root_is_named:
        return [settings.root]
    remembered = {root: entry for entry, root in _read(f"{settings.store}/{places.ROOTS}").items()}
    roots = {_identity(settings.root): settings.root}
    for root in (f"{settings.store}/{places.CONTAINERS}", *remembered):
        try:
            identity = _identity(root, missing=False)
        except (FileNotFoundError, NotADirectoryError):
            if root in remembered:
                _forget(remembered[root])
            continue
        except OSError:
            continue
        if os.access(root, os.R_OK | os.X_OK):
            roots.setdefault(identity, root)
    return list(roots.values())


def _identity(root: str, *, missing: bool = True) -> tuple[int, int]:
    """Return device and inode of a directory: one has many paths, as by a link in /run.

    `missing`: (0, 0) in place of an error. Raises OSError.
    """
    try:
        found = os.stat(root)
    except OSError:
        if not missing:
            raise
        return 0, 0
    return found.st_dev, found.st_ino


def _forget(entry: str) -> None:
    try:
        os.unlink(entry)
    except OSError:
        pass


def own(settings: Settings, name: str) -> str:
    """Return the id of the container of the settings' own root that `name` means: runc's verbs.

    `name` is its name, its id, or the begin of an id that was made up. If nothing fits, it is
    returned: loading the container raises then. Raises StateError if several fit.
    """
    if found := naming.id_of(settings.root, name):
        return found
    return _only([(settings.root, each) for each in _begun(settings.root, name)], name)[1]


def locate(settings: Settings, name: str, *, only_made_up: bool = False) -> tuple[Settings, str]:
    """Return the settings for the root of the container that `name` means, and its whole id.

    `name` is its name, its id, or the begin of an id that no other container has; the settings' own
    root comes first. If nothing fits, the arguments are returned: loading the container raises
    then.
    `only_made_up`: an id that a user has chosen has to be whole, as docker has it for names, so
    that `rm -f web` is not the end of web2. Raises StateError if several fit.
    """
    everywhere = [settings.root] if settings.root_is_named else known(settings)
    there = [(root, each) for root in everywhere if (each := naming.id_of(root, name))]
    whole = [place for place in there if _has(*place)]
    own_root = [place for place in whole or there if place[0] == settings.root]
    exact = only_made_up or settings.root_is_named
    begun = ((root, each) for root in everywhere for each in _begun(root, name, exact))
    root, found = _only(own_root or whole or there or list(begun), name)
    return (settings._replace(root=root) if root else settings), found


def _begun(root: str, text: str, only_made_up: bool = True) -> list[str]:
    """Return the ids of minirun's containers below a root that begin so, or whose names do."""

    def begins(container_id: str) -> bool:
        if container_id.startswith(text) and (_is_made_up(container_id) or not only_made_up):
            return True
        return not only_made_up and state.name_of(f"{root}/{container_id}").startswith(text)

    return [each for each in (_names(root) if text else ()) if begins(each)]


def _only(near: list[tuple[str, str]], name: str) -> tuple[str, str]:
    """Return the one root and id that there is; "" and the name if there is none.

    Raises StateError for several.
    """
    if len(near) > 1:
        text = f"{name!r} may be {', '.join(f'{each} in {root}' for root, each in near[:4])}"
        raise StateError(text, "type more of it, or name the --root", status=1)
    return near[0] if near else ("", name)


def _is_made_up(container_id: str) -> bool:
    """Return True for an id of 64 digits, or of 12, as minirun 0.2 made them up."""
    return state.is_made_up(container_id.ljust(64, "0")) and len(container_id) in (12, 64)


def _names(root: str) -> list[str]:
    """minirun's containers below a root, which may hold runc's too; none if it is closed."""
    try:
        return [name for name in state.names(root) if _has(root, name)]
    except PermissionError:
        return []


def _has(root: str, name: str) -> bool:
    return state.is_id(name) and os.path.exists(f"{root}/{name}/{places.CONFIG}")
