"""--volume, --mount, --tmpfs and --volumes-from of `run`, and the image's volumes, together.

What one flag mounts: minirun.cli.run.mount_flags. All raise UsageError.
"""

from __future__ import annotations

import os

from minirun.cli.run.mount_flags import (
    MountArgument,
    destination,
    exists,
    named,
    of_mount_flag,
    of_tmpfs_flag,
    of_volume,
    of_volume_flag,
)
from minirun.common import docker_record
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import places, state
from minirun.core.lazy import lazy
from minirun.core.rootfs.mount_options import COPY_UP
from minirun.oci.bundle import absolute
from minirun.oci.run_config import SPREADING

with lazy:
    from minirun.core.kernel import mountinfo
    from minirun.engines import roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cli.run.run_flags import ConfigFlags
    from minirun.common.docker_record import MountRecord
    from minirun.core.keeping.settings import Settings
    from minirun.oci.run_config import RunOptions

VOLUME_LIMIT = 100
"""So many volumes one image may declare."""


def add(run: RunOptions, flags: ConfigFlags, settings: Settings) -> RunOptions:
    """Return the options with what the flags mount; none may hide another, in docker's words.

    The same -v or --tmpfs twice is one. What --volumes-from brings gives way to a flag with the
    same destination. Nothing is made yet.
    Raises MinirunError.
    """
    found: dict[str, MountArgument] = {}
    for row in (
        *(of_volume_flag(text, settings) for text in dict.fromkeys(flags.volume)),
        *(of_mount_flag(text, settings) for text in flags.mount),
        *map(of_tmpfs_flag, dict.fromkeys(flags.tmpfs)),
    ):
        if found.setdefault(row.target, row) is not row:
            hint = "one -v, --mount or --tmpfs for a destination"
            raise UsageError(f"duplicate mount point: {row.target}", hint)
    for text in flags.volumes_from:
        for row in _of_container(text, settings):
            if row.target not in found or found[row.target].inherited:
                found[row.target] = row
    rows = tuple(found.values())
    subpaths = {row.target: row.subpath for row in rows if row.subpath}
    return run._replace(
        mounts=tuple((row.source, row.target, row.options) for row in rows),
        mount_records=tuple(row.noted() for row in rows),
        volumes=tuple(row.volume for row in rows if row.volume),
        folders=tuple(row.source for row in rows if row.folder),
        root_propagation=_root_propagation(rows),
        choices=run.choices._replace(subpaths=subpaths),
    )


def add_declared(run: RunOptions) -> RunOptions:
    """Return the options with the volumes that the image declares. Raises UsageError.

    One becomes docker's anonymous volume: a directory of the container's own, kept apart from what
    the container writes elsewhere, and removed with it. In stage 1 it gets what the image has there
    (minirun.oci.mounts.copyup). A flag's mount with the same destination takes its place.
    """
    given = {absolute(path) for _, path, _ in run.mounts}
    declared = sorted({absolute(path) for path in run.declared["volumes"]} - given)
    if "/" in declared:
        raise UsageError("invalid volume '/': the image declares one in place of all its files")
    if len(declared) > VOLUME_LIMIT:
        raise UsageError(f"the image declares {len(declared)} volumes", f"{VOLUME_LIMIT} at most")
    rows = [
        MountArgument(f"{places.VOLUMES}/{n}", path, (COPY_UP,)) for n, path in enumerate(declared)
    ]
    noted: list[MountRecord] = [{**row.noted(), "type": "volume"} for row in rows]
    return run._replace(
        mounts=(*((row.source, row.target, row.options) for row in rows), *run.mounts),
        mount_records=(*noted, *run.mount_records),
    )


def in_bundle(document: dict[str, Any]) -> None:
    """Change a config.json that is to be a bundle's: only `run IMAGE` fills volumes.

    The volumes that the image declares become file systems in memory.
    """
    for row in document["mounts"]:
        if row["source"].startswith(f"{places.VOLUMES}/"):
            options = ["rw", "nosuid", "nodev", COPY_UP]
            row.update({"type": "tmpfs", "source": "tmpfs", "options": options})
        elif row["type"] == "bind":
            row["options"] = [word for word in row["options"] if word != COPY_UP]


def _of_container(text: str, settings: Settings) -> list[MountArgument]:
    """Return what --volumes-from CONTAINER[:ro|rw] mounts: volumes and bind mounts of another.

    Its record decides, which only root (or the user) can write; a volume counts by its name, and a
    path has to be absolute. Raises UsageError.
    """
    name, _, mode = text.partition(":")
    if mode not in ("", "ro", "rw") or not name:
        text = f"invalid --volumes-from {text!r}: {f'invalid mode {mode!r}' if mode else 'no name'}"
        raise UsageError(text, "--volumes-from CONTAINER, CONTAINER:ro or CONTAINER:rw")
    place, container_id = roots.locate(settings, name)
    try:
        record = state.load(place.root, container_id)
    except StateError as error:
        raise UsageError(f"--volumes-from {text}: {error}", error.hint) from None
    read_only = ("ro", "rro") if mode == "ro" else ()
    found = []
    for row in docker_record.of(record).mounts or ():
        if row["type"] == "tmpfs" or not row["source"]:
            continue  # as with docker: a file system in memory is the container's own
        options = (*row["options"], *(word for word in read_only if word not in row["options"]))
        found.append(_inherited(row, options, record.directory, settings, text))
    return found


def _inherited(
    row: MountRecord, options: tuple[str, ...], directory: str, settings: Settings, text: str
) -> MountArgument:
    """Return a mount of another container's record. Raises UsageError."""
    where = f"--volumes-from {text}"
    target = destination(row["target"], where, "another container")
    if row["name"]:
        volume = named(row["name"], where)._replace(anonymous=row.get("anonymous", False))
        subpath = row.get("subpath", "")
        found = of_volume(volume, target, options, settings, subpath, copies=False)
        return found._replace(inherited=True)
    source = row["source"]
    if source.startswith(f"{places.VOLUMES}/"):
        source = f"{directory}/{places.VOLUMES}/{os.path.basename(source)}"
    if not source.startswith("/") or not exists(source, where):
        raise UsageError(f"{where}: its source {source} does not exist", "without --volumes-from")
    return MountArgument(source, target, options, inherited=True)


def _root_propagation(rows: tuple[MountArgument, ...]) -> str:
    """Return what linux.rootfsPropagation has to be, as docker chooses it. Raises UsageError."""
    found = ""
    for row in rows:
        words = {word.removeprefix("r") for word in SPREADING & set(row.options)}
        kind = "shared" if "shared" in words else "slave" if "slave" in words else ""
        if kind:
            _check_spreading(row.source, kind)
            found = "shared" if "shared" in (found, kind) else "rslave"
    return found


def _check_spreading(source: str, kind: str) -> None:
    """Raise UsageError, in docker's words, if mounts cannot spread from or to a source."""
    real = os.path.realpath(source)
    over = [m for m in mountinfo.read() if f"{real}/".startswith(f"{m.mount_point.rstrip('/')}/")]
    top = max(over, key=lambda mount: len(mount.mount_point))  # of two at one place the later
    top = [mount for mount in over if mount.mount_point == top.mount_point][-1]
    fields = " ".join(top.propagation)
    if "shared:" in fields or (kind == "slave" and "master:" in fields):
        return
    wanted = "a shared mount" if kind == "shared" else "a shared or slave mount"
    text = f"path {source} is mounted on {top.mount_point} but it is not {wanted}"
    raise UsageError(text, f"mount --make-rshared {top.mount_point}")
