"""`minirun checkpoint` and `restore`: runc's flags; the work is minirun.engines.criu's.

What CRIU's options of the same name do, criu(8) says. --lazy-pages, with --status-fd, needs a
server that stays after the command, and a caller that speaks with it: refused.
"""

import os

from minirun.cli import chosen, oci
from minirun.cli.flags import HELP, Flag, Parsed, one_id, parse, show_help
from minirun.core import config as oci_config
from minirun.core import endings, state
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.engines.criu import dump
from minirun.engines.criu import restore as remake
from minirun.running import existing, signals

MODES = ("soft", "full", "strict", "ignore")
_SWITCHES = {
    "tcp-established": "take connections over TCP along",
    "ext-unix-sk": "let a Unix socket's other end be outside",
    "shell-job": "take a session along whose leader is outside",
    "file-locks": "take locks of files along",
    "auto-dedup": "free pages that a later dump, or the restore, has made superfluous",
}
"""CRIU's options of the same names."""
_BOTH = (
    Flag(("--image-path",), "DIR", "where the files are (default: ./checkpoint)"),
    Flag(("--work-path",), "DIR", "where CRIU keeps its log (default: with the files)"),
    Flag(("--manage-cgroups-mode",), "MODE", "soft, full, strict or ignore", default="soft"),
    Flag(("--empty-ns",), "KIND", "a namespace whose properties are not kept: network"),
    *(Flag((f"--{name}",), "", text) for name, text in _SWITCHES.items()),
    Flag(("--lazy-pages",), "", "refused: it needs a server that goes on"),
    HELP,
)
CHECKPOINT = (
    Flag(("--leave-running",), "", "let the container go on"),
    Flag(("--pre-dump",), "", "save only its memory, and let it go on"),
    Flag(("--parent-path",), "DIR", "an earlier --pre-dump, relative to --image-path"),
    Flag(("--page-server",), "ADDRESS:PORT", "where memory is sent to: a `criu page-server`"),
    Flag(("--status-fd",), "FD", "refused: --lazy-pages would write to it"),
    *_BOTH,
)
_CREATE = ("bundle", "pidfd_socket", "pid_file")
RESTORE = (
    *(flag for flag in oci.CREATE if flag.key in _CREATE),
    Flag(("-d", "--detach"), "", "do not wait for the container"),
    Flag(("--console-socket",), "PATH", "refused: a terminal cannot be restored"),
    Flag(("--no-pivot",), "", "accepted: CRIU enters the root"),
    Flag(("--no-subreaper",), "", "accepted: minirun is never one"),
    Flag(("--lsm-profile",), "TYPE:NAME", "another security profile"),
    Flag(("--lsm-mount-context",), "CONTEXT", "another SELinux context for mounts"),
    *_BOTH,
)


def main_checkpoint(args: "list[str]", settings: Settings) -> int:
    """Save a container to files. Raises MinirunError, OSError."""
    flags = parse("checkpoint", CHECKPOINT, args, mixed=True)
    if flags.help:
        text = "Save a running container to files, through CRIU, and end it."
        return show_help("checkpoint", "ID", text, CHECKPOINT)
    container = existing.load(settings, one_id("checkpoint", flags))
    options = _criu_options(flags)
    words = [*options.words, *_parent(flags, options.images), *_page_server(flags.page_server)]
    container.open_log()
    signals.block()
    options = options._replace(
        words=words, pre_dump=flags.pre_dump, leave_running=flags.leave_running
    )
    dump.checkpoint(container, options)
    return 0


def main_restore(args: "list[str]", settings: Settings) -> int:
    """Make a container again from files. Returns its command's exit status, or 0 with -d.

    Raises MinirunError, OSError.
    """
    flags = parse("restore", RESTORE, args, mixed=True)
    if flags.help:
        text = "Make a container again from the files of a checkpoint, through CRIU."
        return show_help("restore", "ID", text, RESTORE)
    flags.values.update(preserve_fds="", no_new_keyring=False, no_pivot=False)
    options = _criu_options(flags)
    words = [*options.words, *_value("lsm-profile", flags), *_value("lsm-mount-context", flags)]
    options = options._replace(words=words)
    state.check_id(one_id("restore", flags))
    choices = chosen.of_bundle(flags, settings.choices)
    remake.check(oci_config.load(os.path.abspath(flags.bundle or "."), choices), options)
    container = oci.new_container(flags, settings)
    try:
        signals.catch()
        pid, pidfd = remake.restore(container, options)
        oci.announce(flags, pid, pidfd)
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


def _criu_options(flags: Parsed) -> dump.CriuOptions:
    """Return what both commands tell CRIU. Raises UsageError."""
    if flags.lazy_pages or flags.values.get("status_fd"):
        text = "--lazy-pages is not supported: the pages would need a server that goes on"
        raise UsageError(text, "leave it and --status-fd out", 1)
    mode = flags.manage_cgroups_mode
    if mode not in MODES:
        raise UsageError(f"invalid --manage-cgroups-mode {mode!r}", ", ".join(MODES), 1)
    if flags.empty_ns not in ("", "network"):
        raise UsageError(f"invalid --empty-ns {flags.empty_ns!r}", "network", 1)
    words = [f"--manage-cgroups={mode}", *(["--empty-ns", "net"] if flags.empty_ns else [])]
    words += [f"--{name}" for name in _SWITCHES if flags.values[name.replace("-", "_")]]
    images = os.path.abspath(flags.image_path or "checkpoint")
    return dump.CriuOptions(images, os.path.abspath(flags.work_path or images), words)


def _value(name: str, flags: Parsed) -> "list[str]":
    value = flags.values[name.replace("-", "_")]
    return [f"--{name}", value] if value else []


def _parent(flags: Parsed, images: str) -> "list[str]":
    """Return what CRIU is told of an earlier pre-dump, of which it links to the pages.

    Raises UsageError.
    """
    parent: str = flags.parent_path
    if not parent:
        return ["--track-mem"] if flags.pre_dump else []
    if parent.startswith("/"):
        hint = "relative to --image-path, so that both can be moved: ../parent"
        raise UsageError(f"--parent-path {parent}: must be relative", hint, 1)
    place = os.path.normpath(f"{images}/{parent}")  # `images` itself may still have to be made
    if not os.path.isdir(place):
        raise UsageError(f"--parent-path {parent}: {place}: no such directory", status=1)
    return ["--prev-images-dir", parent, "--track-mem"]


def _page_server(text: str) -> "list[str]":
    """Return what CRIU is told of --page-server. Raises UsageError."""
    if not text:
        return []
    address, _, port = text.rpartition(":")
    if not address or not (port.isascii() and port.isdigit()):
        hint = "as in 192.0.2.1:27015, where `criu page-server` listens"
        raise UsageError(f"invalid --page-server {text!r}", hint, 1)
    return ["--page-server", "--address", address, "--port", port]
