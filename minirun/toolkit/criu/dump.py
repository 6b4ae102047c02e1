"""`minirun checkpoint`: the processes of a container become files.

CRIU freezes the container through its cgroup, so that no process forks away, puts code of its own
into each process and lets it tell what it is. If that fails, it takes the code out again and the
container goes on as if nothing had been. A dump is not cut short by a signal either: killed in its
middle, CRIU would leave the container frozen.

Of cgroups it is told only those hierarchies that the container has joined. In another one init is
where its caller was, perhaps at the root, and CRIU would save all that is below that: at restore it
would make the cgroups of the whole host again.

--pre-dump saves memory alone, and the container runs on; a later dump with --parent-path saves only
the pages that have changed since.
"""

from __future__ import annotations

import os

from minirun.core import endings
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.kernel import mountinfo
from minirun.toolkit.criu import mounts, outside, program, refuse, streams

LOG = "dump.log"


class CriuOptions(Record):
    """How a checkpoint, or a restore, is to be made."""

    images: str
    """The directory of CRIU's files, an absolute path."""
    work: str
    """The directory of its log; the same as `images` by default."""
    words: list[str]
    """What goes to CRIU as it is."""
    pre_dump: bool = False
    leave_running: bool = False


def checkpoint(container: Container, options: CriuOptions) -> None:
    """Save a container, and end it unless it is to go on. Raises MinirunError, OSError."""
    check(container)
    criu = program.find()
    names = []
    if not options.pre_dump:
        pid = container.record.first_process()["pid"]
        names = streams.describe(pid, {mount.mount_id for mount in mountinfo.read(pid)})
    for directory in (options.images, options.work):
        make_directory(directory)
    words = [*streams.external(names), *_describe(container, options, names)]
    what = "pre-dump" if options.pre_dump else "dump"
    argv = [criu, what, *words, *_usual(container, options)]
    forget(options, LOG)
    outcome = program.run(what, lambda: _privately(argv), {})
    if outcome.status != 0:
        raise program.failure(what, outcome, f"{options.work}/{LOG}", "the container runs on")
    if not options.pre_dump and not options.leave_running:
        endings.destroy(container)


def _privately(argv: list[str]) -> list[str]:
    """In the child that will be CRIU: make its files private, since they hold all memory."""
    os.umask(0o077)
    return argv


def check(container: Container) -> None:
    """Refuse what cannot be saved, before anything is touched. Raises StateError, MinirunError."""
    record, config = container.record, container.config
    if record.status not in (state.RUNNING, state.PAUSED):
        raise StateError(f"container cannot be checkpointed in {record.status} state")
    if container.unprivileged or os.geteuid() != 0:
        raise MinirunError("checkpoint needs root: CRIU reads every process's memory and mounts")
    refuse.config(config, "checkpointed", container.directory)


def _describe(container: Container, options: CriuOptions, names: list[str]) -> list[str]:
    """Write what lies outside next to CRIU's files, and return CRIU's arguments for it."""
    if options.pre_dump:
        return outside.dump_options(container.config)
    pid = container.record.first_process()["pid"]
    found = mounts.find(container.config, pid, mountinfo.read(pid))
    streams.save(options.images, names)
    mounts.save(options.images, found)
    return [*mounts.dump_options(found), *outside.dump_options(container.config)]


def _usual(container: Container, options: CriuOptions) -> list[str]:
    """Return the part of CRIU's command line that is the same for every dump."""
    cgroup = container.record.cgroup
    dirs = cgroup["dirs"] if cgroup else {}
    freezer = dirs.get("freezer") or dirs.get("")
    controllers = (word for name in dirs for word in ("--cgroup-dump-controller", name))
    return [
        "--tree", str(container.record.first_process()["pid"]), "--root", container.config.rootfs,
        *common(options, LOG), *controllers, *(["--freeze-cgroup", freezer] if freezer else []),
        *(["--leave-running"] if options.leave_running and not options.pre_dump else []),
    ]  # fmt: skip


def common(options: CriuOptions, log: str) -> list[str]:
    """Return the options that dump and restore share: the files' place, what is logged."""
    places = ["--images-dir", options.images, "--work-dir", options.work, "--log-file", log, "-v4"]
    return [*places, *options.words]


def make_directory(path: str) -> None:
    """Make a directory that only its owner may read; one that is there is used. Raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise MinirunError(f"{path}: is not a directory", "--image-path names one") from None


def forget(options: CriuOptions, log: str) -> None:
    """Remove the log of an earlier run, or its error would be told again. Raises OSError."""
    try:
        os.unlink(f"{options.work}/{log}")
    except FileNotFoundError:
        pass
