"""The mounts of a container that are not its own, but bound from the host.

CRIU makes a tmpfs, proc or sysfs of its own kind again, and binds what is bound from one of these.
What comes from the host has to be named: at the checkpoint `--external mnt[PLACE]:NAME`, so that it
is not looked into, and at the restore `--external mnt[NAME]:SOURCE`, where it comes from by then.
NAME is the place itself, as runc has it.

Which are the host's, config.json says: binds, with all that is mounted below them, and the cgroups
of a container without a cgroup namespace. maskedPaths and readonlyPaths are never taken for the
host's, or the host's file would lie unmasked at that place after the restore.

mounts.json, next to CRIU's files, remembers for each mount the entry of config.json that it belongs
to, and the path below it: at restore the sources are those of the config.json of that day. CRIU
mounts by path, so a root filesystem that has a link at such a place by then is refused.
"""

from __future__ import annotations

import errno
import os
from contextlib import closing

from minirun.cgroups import Cgroup
from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.keeping import jsonlite, state
from minirun.core.kernel import files, mountinfo
from minirun.core.kernel.mountinfo import Mount
from minirun.core.rootfs import mount_entry
from minirun.core.rootfs.inroot import Root

External = dict[str, list[str]]
FILE = "mounts.json"
_CGROUPS = ("cgroup", "cgroup2")
_OURS = ("", "")


def find(config: Config, pid: int, mounts: list[Mount]) -> External:
    """Return the mounts in the container of init `pid`: place → [destination, path below].

    Of one that is the container's own, the destination is empty. Raises OSError.
    """
    by_id = {mount.mount_id: mount for mount in mounts}
    owners = _owners(config, pid, by_id)
    found: External = {}
    for mount in mounts:
        top = mount
        while top.mount_id not in owners and top.parent in by_id:
            top = by_id[top.parent]
        destination, base = owners.get(top.mount_id, _OURS)
        place = mount.mount_point
        found[place] = [destination, place[len(base) :].lstrip("/")]
    return found


def _owners(config: Config, pid: int, mounts: dict[int, Mount]) -> dict[int, tuple[str, str]]:
    """Return by mount id: the destination of an entry that is the host's, and its place."""
    owners: dict[int, tuple[str, str]] = {}
    with closing(Root.at(f"/proc/{pid}/root")) as root:
        for row in config.raw.get("mounts") or []:
            number = _mount_at(root, row["destination"])
            if number not in mounts:
                continue
            owner = (row["destination"], mounts[number].mount_point)
            below = {m.mount_id: owner for m in mounts.values() if m.parent == number}
            if not _is_hosts(config, row):
                owners[number] = _OURS
            elif row.get("type") in _CGROUPS and below:  # version 1: binds upon a tmpfs of ours
                owners |= {number: _OURS, **below}
            else:
                owners[number] = owner
        for kind in ("maskedPaths", "readonlyPaths"):
            for place in config.linux.get(kind) or []:
                owners.setdefault(_mount_at(root, place), _OURS)
    return owners


def _is_hosts(config: Config, row: dict[str, object]) -> bool:
    if row.get("type") in _CGROUPS:
        return not config.new_namespace("cgroup")
    return mount_entry.is_bind(row)


def _mount_at(root: Root, place: str) -> int:
    """Return the id of the mount that lies at a place, 0 if there is no such file."""
    try:
        fd = root.open(place)
    except OSError:
        return 0
    try:
        return mountinfo.mount_id(fd)
    finally:
        os.close(fd)


def save(directory: str, found: External) -> None:
    """Write mounts.json into the directory of CRIU's files. Raises OSError."""
    state.write(f"{directory}/{FILE}", jsonlite.dumps(found))


def load(directory: str) -> External:
    """Read mounts.json. Raises MinirunError."""
    try:
        found: External = jsonlite.loads(state.read_text(f"{directory}/{FILE}"))
        return {str(place): [str(part) for part in parts] for place, parts in found.items()}
    except FileNotFoundError:
        raise MinirunError(f"{directory}/{FILE}: is not there: another runtime's") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise MinirunError(f"{directory}/{FILE}: {error}") from None


def dump_options(found: External) -> list[str]:
    """Return the arguments of `criu dump` for the host's mounts."""
    hosts = [place for place, (destination, _) in found.items() if destination]
    return [word for place in hosts for word in ("--external", f"mnt[{place}]:{place}")]


def restore_options(found: External, config: Config, cgroup: Cgroup) -> list[str]:
    """Return the arguments of `criu restore`: where each mount comes from now.

    Raises ConfigError if config.json has no such entry, or its source is not there.
    """
    words = []
    for place, (destination, below) in found.items():
        if destination:
            source = _source(config, cgroup, destination, below)
            words += ["--external", f"mnt[{place}]:{source}"]
    return words


def _source(config: Config, cgroup: Cgroup, destination: str, below: str) -> str:
    for index, row in enumerate(config.raw.get("mounts") or []):
        if row["destination"] == destination and _is_hosts(config, row):
            if row.get("type") in _CGROUPS:
                own = {m.path: m.directory for m in cgroup.mounts_for_container().mounts}
                if below in own:
                    return own[below]
                continue
            source = mount_entry.source_of(config, row, f"mounts[{index}]")
            return _below(source, below) if below else source
    hint = "restore it with the mounts that it had"
    raise ConfigError(f"config.json: mounts: nothing is bound at {destination}", hint)


def _below(source: str, path: str) -> str:
    """Return the place of a mount below a bound directory, which containers may write to.

    A link or .. would lead out of it. Raises ConfigError.
    """
    top = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        resolve = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS
        os.close(files.openat2(top, path, os.O_PATH, resolve))
    except OSError as error:
        text = f"config.json: mounts: {source}/{path}: {reason(error)}"
        raise ConfigError(text, "at the checkpoint something was mounted there") from None
    finally:
        os.close(top)
    return f"{source}/{path}"


def refuse_links(config: Config, root: Root, found: External) -> None:
    """Refuse a root filesystem in which CRIU's way to a mount point goes through a link.

    Raises ConfigError, OSError.
    """
    for place in found:
        try:
            resolve = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_SYMLINKS
            os.close(files.openat2(root.fd, place, os.O_PATH, resolve))
        except (FileNotFoundError, NotADirectoryError):
            pass  # below another mount
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            hint = "it was a mount point of the container: take the link away"
            text = f"config.json: root.path: {config.rootfs}{place}: is a link, or below one"
            raise ConfigError(text, hint) from None


def make_places(config: Config, root: Root) -> None:
    """Make the mount points that a fresh copy of the root filesystem lacks.

    None below a file system that the container mounts: there CRIU, or the host, has them.
    Raises OSError.
    """
    listed = config.raw.get("mounts") or []
    above = tuple(row["destination"].rstrip("/") + "/" for row in listed)
    for index, row in enumerate(listed):
        place = row["destination"]
        if place.rstrip("/").startswith(above):
            continue
        source = (
            mount_entry.source_of(config, row, f"mounts[{index}]")
            if mount_entry.is_bind(row)
            else "/"
        )
        os.close(root.make_dir(place) if os.path.isdir(source) else root.make_file(place))
