"""`minirun checkpoint` and `restore`: runc's flags; the work is minirun.toolkit.criu's.

What CRIU's options of the same name do, criu(8) says. --lazy-pages, with --status-fd, needs a
server that stays after the command, and a caller that speaks with it: refused.
"""

from __future__ import annotations

import os

from minirun.cli.flags import Flags, flag
from minirun.common.ports import port
from minirun.core import endings
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import bundle, handover, lookup, signals
from minirun.toolkit.criu import dump
from minirun.toolkit.criu import restore as remake

MODES = ("soft", "full", "strict", "ignore")
_SWITCHES = ("tcp_established", "ext_unix_sk", "shell_job", "file_locks", "auto_dedup")
"""Flags that CRIU has by the same names."""


class CriuFlags(Flags):
    """What both commands have."""

    image_path: str
    work_path: str
    manage_cgroups_mode: str = flag(default="soft")
    empty_ns: str
    tcp_established: bool
    ext_unix_sk: bool
    shell_job: bool
    file_locks: bool
    auto_dedup: bool
    lazy_pages: bool


class Checkpoint(CriuFlags):
    """Save a running container to files, through CRIU, and end it."""

    command = "checkpoint"
    leave_running: bool
    pre_dump: bool
    parent_path: str
    page_server: str
    status_fd: str
    link_remap: bool
    tcp_skip_in_flight: bool


class Restore(CriuFlags):
    """Make a container again from the files of a checkpoint, through CRIU."""

    command = "restore"
    bundle: str = flag("-b")
    pidfd_socket: str
    pid_file: str
    detach: bool = flag("-d")
    console_socket: str
    no_pivot: bool
    no_subreaper: bool
    lsm_profile: str
    lsm_mount_context: str


def main_checkpoint(args: list[str], settings: Settings) -> int:
    """Save a container to files. Raises MinirunError, OSError."""
    flags = Checkpoint(args)
    container = lookup.load(settings, roots.own(settings, flags.one_id()), whole=True)
    if flags.status_fd:
        raise _lazy_pages()
    options = _criu_options(flags)
    words = [*options.words, *_parent(flags, options.images), *_page_server(flags.page_server)]
    words += ["--link-remap"] * flags.link_remap + ["--skip-in-flight"] * flags.tcp_skip_in_flight
    options = options._replace(words=words, pre_dump=flags.pre_dump)
    container.open_log()
    signals.block()
    dump.checkpoint(container, options._replace(leave_running=flags.leave_running))
    return 0


def main_restore(args: list[str], settings: Settings) -> int:
    """Make a container again from files. Returns its command's exit status, or 0 with -d.

    Raises MinirunError, OSError.
    """
    flags = Restore(args)
    options = _criu_options(flags)
    for name in ("lsm_profile", "lsm_mount_context"):
        if value := getattr(flags, name):
            options.words.extend((f"--{name.replace('_', '-')}", value))
    container_id, choices = state.check_id(flags.one_id()), bundle.choices(settings.choices)
    source = bundle.BundleOptions(container_id, flags.bundle, choices, flags.console_socket)
    remake.check(source.config(), options)
    container = bundle.new_container(source, settings)
    try:
        signals.catch()
        pid, pidfd = remake.restore(container, options)
        handover.announce(flags.pid_file, flags.pidfd_socket, pid, pidfd)
    except BaseException:
        endings.destroy(container)
        raise
    return 0 if flags.detach else _wait(container, pid, pidfd)


def _wait(container: Container, pid: int, pidfd: int) -> int:
    """Wait for the end of a restored container, and delete it, as `run --bundle` does."""
    signals.forward(pidfd)
    status = endings.wait(pidfd, pid)
    endings.destroy(container)
    return status


def _criu_options(flags: CriuFlags) -> dump.CriuOptions:
    """Return what both commands tell CRIU. Raises UsageError."""
    if flags.lazy_pages:
        raise _lazy_pages()
    flags.check("manage_cgroups_mode", *MODES)
    flags.check("empty_ns", "", "network")
    words = [f"--manage-cgroups={flags.manage_cgroups_mode}"]
    words += ["--empty-ns", "net"] if flags.empty_ns else []
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(flags, name)]
    images = os.path.abspath(flags.image_path or "checkpoint")
    return dump.CriuOptions(images, os.path.abspath(flags.work_path or images), words)


def _lazy_pages() -> UsageError:
    text = "--lazy-pages is not supported: the pages would need a server that goes on"
    return UsageError(text, "leave it and --status-fd out", 1)


def _parent(flags: Checkpoint, images: str) -> list[str]:
    """Return what CRIU is told of an earlier pre-dump, of which it links to the pages.

    Raises UsageError.
    """
    parent = flags.parent_path
    if not parent:
        return ["--track-mem"] if flags.pre_dump else []
    if parent.startswith("/"):
        hint = "relative to --image-path, so that both can be moved: ../parent"
        raise UsageError(f"--parent-path {parent}: must be relative", hint, 1)
    place = os.path.normpath(f"{images}/{parent}")  # `images` itself may still have to be made
    if not os.path.isdir(place):
        raise UsageError(f"--parent-path {parent}: {place}: no such directory", status=1)
    return ["--prev-images-dir", parent, "--track-mem"]


def _page_server(text: str) -> list[str]:
    """Return what CRIU is told of --page-server. Raises UsageError."""
    if not text:
        return []
    address, _, number = text.rpartition(":")
    there = port(number)
    if not address or there is None:
        hint = "as in 192.0.2.1:27015, where `criu page-server` listens"
        raise UsageError(f"invalid --page-server {text!r}", hint, 1)
    return ["--page-server", "--address", address, "--port", str(there)]
