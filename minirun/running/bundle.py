"""A container of a bundle, for `create` and `restore`; and runc's `run`, to its end.

minirun is never a subreaper: the container's init is its child, and everything in a pid namespace
is init's.
"""

from __future__ import annotations

import os

from minirun.cgroups import cgroup_of, stopping
from minirun.core import endings, events, gates, lifecycle
from minirun.core.config import ANNOTATION, LOG, Config
from minirun.core.container import Console, Container
from minirun.core.errors import UsageError
from minirun.core.handshake import Init
from minirun.core.keeping import state
from minirun.core.keeping.choices import DEFAULTS, Choices
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean, warn
from minirun.core.lazy import lazy
from minirun.engines import other_hook
from minirun.engines.origin import origin
from minirun.gpu.vendors import signs
from minirun.oci import validate
from minirun.oci.exec import sealed
from minirun.running import ends, handover, notify, signals
from minirun.running.reserve import first_record, reserve

with lazy:
    from minirun.gpu.asked import of_bundle  # only if the caller names GPUs
    from minirun.gpu.asked.ways import vendor  # 15 ms, for GPUs that are not NVIDIA's
    from minirun.running import output  # `create` has none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.asked.ways.records import CdiEdits

_SHOWN = 5
"""So many annotations that are ignored are named."""


class BundleOptions(Record):
    """What the flags of `create` say. A path is "" if it is not given."""

    container_id: str
    directory: str = ""
    """The bundle; empty: the current directory."""
    choices: Choices = DEFAULTS
    console_socket: str = ""
    pidfd_socket: str = ""
    pid_file: str = ""
    preserve_fds: str = ""
    no_pivot: bool = False
    no_new_keyring: bool = False
    detach: bool = True
    """`run`: do not wait for the container's end."""
    keep: bool = False
    """`run`: do not delete the container after its end."""

    def config(self) -> Config:
        """Return the bundle's config.json. Raises ConfigError, GPUError, OSError."""
        return self.load()[0]

    def load(self) -> tuple[Config, CdiEdits | None]:
        """Return config.json, and what GPUs of another vendor than NVIDIA have added to it.

        Raises ConfigError, GPUError, UsageError, OSError.
        """
        config = validate.load(os.path.abspath(self.directory or "."), self.choices)
        if other_hook.is_there(config):
            config.choices = config.choices._replace(gpu_hook=True)
        if config.choices.gpu_driver not in signs.OTHER_VENDORS:
            return (of_bundle.put_into(config) if config.choices.nvidia_gpus else config), None
        gpus = vendor.of_bundle(config)
        if gpus:
            gpus.put_into(config.raw, ())
            config = Config(config.raw, config.bundle, config.choices)
        return config, gpus


def choices(before: Choices) -> Choices:
    """Return what is chosen `before` the command for a bundle. Raises UsageError."""
    driver, root, gpus = before.gpu_driver, before.driver_root, before.gpus
    if driver and driver not in signs.GPU_DRIVERS:
        raise UsageError(f"invalid --gpu-driver {driver!r}", ", ".join(signs.GPU_DRIVERS))
    return before._replace(
        driver_root=root and os.path.abspath(root), gpus=gpus or None,
        dev_root=before.dev_root and os.path.abspath(before.dev_root),
    )  # fmt: skip


def create(options: BundleOptions, settings: Settings) -> None:
    """Make a container whose init waits at exec.fifo. Raises MinirunError, OSError."""
    container = new_container(options, settings, notified=True)
    try:
        signals.catch()
        notify.make_directory(container.directory)
        init = lifecycle.create(container)
        container.save(container.record._replace(status=state.CREATED, complete=True))
        handover.announce(options.pid_file, options.pidfd_socket, init.pid, init.pidfd)
    except BaseException:
        endings.abandon(container)
        raise


def new_container(
    options: BundleOptions, settings: Settings, *, relayed: bool = False, notified: bool = False
) -> Container:
    """Reserve a container. Raises MinirunError, OSError.

    Signals wait from then on, until the caller catches them. `relayed`: the caller itself will
    hold the master end of a terminal for which no socket is named. `notified`: its command is new,
    and gets a $NOTIFY_SOCKET if the caller has one.
    """
    kept, listening = handover.preserved(options.preserve_fds), handover.listen_fds()
    config, gpus = options.load()
    if not config.process:
        raise UsageError("config.json: process: is required to create a container", status=1)
    if config.namespaces.get("pid"):
        sealed.ensure()
    if config.terminal != bool(options.console_socket) and not (config.terminal and relayed):
        what = "needs --console-socket" if config.terminal else "cannot take a --console-socket"
        raise UsageError(f"config.json: process.terminal: {str(config.terminal).lower()} {what}")
    socket = handover.connect_console(options.console_socket) if options.console_socket else -1
    if notified:
        config = notify.offered(config, f"{settings.root}/{options.container_id}")
    if listening:
        added = (f"LISTEN_FDS={listening}", "LISTEN_PID=1")
        config = config.with_variables([*(config.process.get("env") or []), *added])
    signals.block()
    container = _reserve(options, settings, config)
    if gpus:
        try:
            gpus.record(container)
        except BaseException:
            endings.abandon(container)
            raise
    container.preserve_fds = listening + kept
    container.console = Console(socket=socket)
    return container


def _reserve(options: BundleOptions, settings: Settings, config: Config) -> Container:
    """Take the name, and begin the log with who has asked. Raises MinirunError, OSError."""
    asked, args = origin(config, options.container_id), config.process.get("args")
    record = first_record(settings, options.container_id, config)._replace(
        no_pivot=options.no_pivot, no_new_keyring=options.no_new_keyring, origin=asked, args=args,
    )  # fmt: skip
    container = reserve(settings, config, record)
    try:
        container.open_log()
        places = {"bundle": config.bundle, "root": settings.root}
        events.emit("note", "origin", asked | places, why="who asked for this container, and where")
        _warn_of_ignored(config)
        if settings.gates:
            container.gates = gates.Gates(container.directory, settings.gates)
    except BaseException:
        endings.abandon(container)
        raise
    return container


def _warn_of_ignored(config: Config) -> None:
    """Name what of config.json is not obeyed, since an image may have brought it.

    Annotations in minirun's own name; a vendor's variable that could have brought GPUs; an ambient
    capability that the kernel refuses to raise: capabilities(7). Raises OSError.
    """
    sets = config.process.get("capabilities") or {}
    for name in sets.get("ambient") or ():
        needed = ("inheritable", "permitted")
        lacking = [kind for kind in needed if name not in (sets.get(kind) or ())]
        if lacking:
            text = f"can't raise ambient capability {name}: it is not {' and not '.join(lacking)}"
            _warn(text, "the container runs without it")
    if vendor := signs.refused(config):
        text = f"ignored variable: {signs.OTHER_VENDORS[vendor]}"
        _warn(text, f"--gpu-driver={vendor} before the command obeys it")
    asking = signs.asking(config)
    if asking and not signs.vendor(config):
        text = f"{asking} asks for gpus, and their driver is not loaded"
        _warn(text, "the container gets none")
    own = (name for name in config.annotations if name.startswith(ANNOTATION))
    names = sorted(name for name in own if name != LOG)
    if not names:
        return
    shown = [clean(name[:60]) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = f"ignored annotations: {', '.join(shown)}{more}"
    _warn(text, "an image may have brought them; minirun's own flags choose: see minirun --help")


def _warn(text: str, hint: str) -> None:
    events.emit("note", "warning", {"text": text}, why=hint)
    warn(f"config.json: {text} ({hint})")


def run(options: BundleOptions, settings: Settings) -> int:
    """Run a bundle's config.json as it is; return its exit status, or with `detach` 0.

    A terminal that config.json asks for is relayed to the caller's own, unless a console socket is
    named. Raises MinirunError, OSError.
    """
    relayed = not options.detach
    container = new_container(options, settings, relayed=relayed, notified=True)
    streams = None
    try:
        signals.catch()
        notify.make_directory(container.directory)
        if container.config.terminal and not options.console_socket:
            streams = output.Streams(container, True, detach=False)
            container.console = streams.console
        init = lifecycle.create(container)
        if streams:
            streams.close_containers_ends()
        handover.announce(options.pid_file, options.pidfd_socket, init.pid, init.pidfd)
        ready = notify.listen(container.directory)
        signals.forward_once_running(init.channel, init.pidfd)
        endings.start(container, init.channel, lambda: signals.forward(init.pidfd))
    except BaseException:
        endings.abandon(container)
        raise
    if container.console.socket >= 0 and not streams:
        os.close(container.console.socket)
    if options.detach:
        if ready:
            notify.relay_or_warn(ready, init.pidfd, init.pid)
        return 0
    join = notify.relay_aside(ready, init.pidfd, os.getpid()) if ready else None
    status = _wait(init, streams)
    if join:
        join()
    _end(container, status, keep=options.keep)
    return status


def _wait(init: Init, streams: output.Streams | None) -> int:
    """Wait for the container's end; return its exit status."""
    return streams.relay(init.pid, init.pidfd) if streams else endings.wait(init.pidfd, init.pid)


def _end(container: Container, status: int, *, keep: bool) -> None:
    """Delete the container, which has ended; to be kept are its record and its cgroup."""
    if keep:
        if not container.config.new_namespace("pid"):  # else init's end was that of all
            stopping.kill(cgroup_of(container))
        ends.save_end(container, status)
    else:
        endings.destroy(container)
