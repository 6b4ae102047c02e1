"""`minirun run`: docker's `run IMAGE [COMMAND…]`. runc's `run --bundle DIR ID`: run_bundle."""

from __future__ import annotations

import os

from minirun.cli import as_runc
from minirun.cli.flags import ANY
from minirun.cli.run import run_options
from minirun.cli.run.run_flags import (
    HEALTH_FLAGS,
    ONLY_WITH_BUNDLE,
    WITH_BUNDLE,
    CreateFlags,
    RunFlags,
)
from minirun.common import docker_record
from minirun.common.docker_record import DockerRecord
from minirun.common.two_words import free_name
from minirun.core import endings
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.keeping import places, state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.lazy import lazy
from minirun.image import split, store, workshop
from minirun.oci import run_config
from minirun.running import shelves, supervise
from minirun.running.output import Leaving, OutputLimits, Viewers, check_input
from minirun.running.reserve import first_record, reserve

with lazy:
    from minirun.cli import words
    from minirun.cli.run import properties
    from minirun.cli.runc import run_bundle
    from minirun.common import preferences
    from minirun.engines import rootless_config
    from minirun.gpu.asked.ways import installed_hook
    from minirun.oci.terminal import keys as detach
    from minirun.running import background, control, lookup, volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.common.docker_record import Asked
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.image.store import Image
    from minirun.running.supervise import SupervisorOptions


def main_run(args: list[str], settings: Settings) -> int:
    """Run a container to its end (or with -d, to its start); return the command's exit status."""
    flags = _read(args)
    if flags.bundle or _bundle_follows(flags) or _is_beside(flags, settings):
        return as_runc(lambda: run_bundle.main(args, settings))
    _check(flags)
    if unprivileged():
        rootless_config.check_home(settings.root)
    settings = run_options.log_settings(flags, settings)
    return _launch(flags, settings)


def main_create(args: list[str], settings: Settings) -> int:
    """Make a container whose command waits for `start`, and print its id: docker's `create`."""
    flags = CreateFlags(args)
    _check(flags)
    return _launch(flags, settings)


def _launch(flags: CreateFlags, settings: Settings) -> int:
    """Make the container; what then depends on the flags. Raises MinirunError, OSError."""
    container_id, name = os.urandom(32).hex(), flags.name or free_name(settings.root)
    options, image = run_options.from_flags(flags, settings, container_id)
    document = run_config.config(container_id, options)
    joined = options.joined
    if unprivileged():
        joined = rootless_config.adapt(document, joined)
    config = Config(document, f"{settings.root}/{container_id}", options.choices)
    limits = _limits(flags)
    own = options.declared.get("healthcheck")
    health = docker_record.health_check(own) if own else None
    if flags.given & HEALTH_FLAGS:
        health = properties.health(flags, health)
    restart = flags.restart if flags.restart != "no" else ""
    supervision = _supervision(flags, settings, options, limits)

    def record() -> ContainerRecord:
        """Return the container's first record, of the process that calls: its supervisor."""
        record = first_record(settings, container_id, config)._replace(args=list(options.args))
        docker = DockerRecord(
            managed=True, auto_remove=flags.rm, image=image.name, gpus=flags.gpus,
            warnings=list(options.warnings), seccomp=options.seccomp,
            network=options.network,
            default_pids_limit="pids_limit" not in flags.given, declared=options.declared,
            mounts=list(options.mount_records) or None, joined=joined,
            cap_add=flags.cap_add or None, cap_drop=flags.cap_drop or None,
            shared_memory=options.shm == places.SHM,
            labels=options.labels, restart=restart, interactive=flags.interactive, health=health,
            stdin_once=_is_stdin_ours(flags) and not flags.detach,
            stop_timeout=whole(flags.stop_timeout, -1) or 0,
            output=limits.as_json() if limits else None, asked=_asked(flags, options, image),
        )  # fmt: skip
        return docker_record.put(record, docker)

    def make() -> Container:
        """Make the container's directory, and write --cidfile."""
        container = reserve(settings, config, record(), name)
        if flags.cidfile:
            _write_id(flags.cidfile, container)
        return container

    if isinstance(flags, RunFlags) and flags.dry_run:
        shelves.show_plan(Container(settings, config, record(), name))
        return 0
    if supervision.detach:
        return background.run(make, supervision)
    if isinstance(flags, RunFlags) and flags.sig_proxy == "false":
        return _apart(make, supervision, flags, settings)
    if flags.tty and flags.interactive and os.isatty(0):
        leaving = Leaving(detach.parse(flags.detach_keys), background.step_aside())
        supervision = supervision._replace(leaving=leaving)
    return supervise.run(make, supervision)


_ASKED = (
    "attach", "cgroup_parent", "cidfile", "detach", "device_cgroup_rule", "group_add", "init",
    "log_opt", "mount", "publish", "publish_all", "sysctl", "user", "userns", "volume",
    "volumes_from",
)  # fmt: skip
"""Flags that `inspect` shows as they were typed."""


def _asked(flags: CreateFlags, options: run_config.RunOptions, image: Image) -> Asked:
    """Return what the command line said, for `inspect` and `ps`."""
    own = options.env[len(image.env) :]
    names = {text.partition("=")[0] for text in own}
    theirs = (text for text in image.env if text.partition("=")[0] not in names)
    given = "entrypoint" in flags.given
    asked: Asked = {
        "image": flags.args[0], "env": [*own, *theirs],
        "entrypoint": int(bool(flags.entrypoint)) if given else len(image.entrypoint),
    }  # fmt: skip
    typed = {name: flags.value(name) for name in _ASKED if name in flags.given}
    return asked | typed  # type: ignore[return-value]


def _supervision(
    flags: CreateFlags, settings: Settings, options: run_config.RunOptions,
    limits: OutputLimits | None,
) -> SupervisorOptions:  # fmt: skip
    """Return how the container is dealt with around its life; `limits`: of its output's log."""
    supervision = supervise.SupervisorOptions(
        detach=flags.detach, interactive=flags.interactive, auto_remove=flags.rm, log=limits,
        begin=_begin(options), earlier=flags.earlier,
    )  # fmt: skip
    if not isinstance(flags, RunFlags):
        return supervision._replace(detach=True, held=True)
    if flags.attach and not flags.detach:
        supervision = supervision._replace(
            shown=tuple(flags.attach), interactive=_is_stdin_ours(flags)
        )
    return supervision._replace(viewers=_viewers(flags, settings), pid_file=flags.pid_file)


def _apart(
    make: Callable[[], Container], options: SupervisorOptions, flags: RunFlags, settings: Settings
) -> int:
    """Run a container in the background, with its streams here: a signal ends this command alone.

    Raises MinirunError, OSError.
    """
    options = options._replace(detach=True, held=True, viewers=Viewers())
    container = lookup.load(settings, background.start(make, options))
    return shelves.attach(
        container, flags.detach_keys, stdin=flags.interactive, proxy=False,
        first=lambda: control.start(container),
    )  # fmt: skip


def _write_id(path: str, container: Container) -> None:
    """Write --cidfile, as a new file. Raises OSError; the container is gone then."""
    try:
        with open(path, "x") as file:
            file.write(container.id)
    except OSError:
        endings.abandon(container)
        raise


def _read(args: list[str]) -> RunFlags:
    """Return the flags. Raises UsageError: with status 1 if -b is among them, as runc's `run`."""
    try:
        return RunFlags(args)
    except UsageError as error:
        for before, word in zip(("", *args), args, strict=False):
            if word.startswith(("-b", "--bundle")):
                error.status = 1
            if not before.startswith("-") and not word.startswith("-"):
                break  # neither a flag nor the value of one: the command
        raise


def _check(flags: CreateFlags) -> None:
    """Raise UsageError if an image cannot be run so."""
    flags.takes(1, ANY)
    flags.refuse_flags(flags.given & ONLY_WITH_BUNDLE, "without --bundle", "run --bundle DIR ID")
    if flags.name and not (state.is_id(flags.name) and flags.name[0].isalnum()):
        text = f"invalid container name {flags.name!r}"
        raise UsageError(text, "letters, digits, '_', '+', '-', '.'; the first a letter or a digit")
    flags.check("log_driver", "json-file", "none", "local")
    if whole(flags.stop_timeout, -1) is None:
        right = "a number of seconds, or -1 to wait for ever"
        raise UsageError(f"invalid --stop-timeout {flags.stop_timeout!r}", right)
    shelves.check_restart(flags.restart) if "restart" in flags.given else None
    if flags.rm and flags.restart != "no":
        raise UsageError("--rm and --restart: conflicting options", "one of them")
    if flags.cidfile and os.path.lexists(flags.cidfile):
        text = f"--cidfile {flags.cidfile}: the file is there: perhaps its container runs"
        raise UsageError(text, "remove it, or name another")
    if flags.detach_keys:
        detach.parse(flags.detach_keys)
    for name in flags.attach:
        if name not in ("stdin", "stdout", "stderr"):
            raise UsageError(f"invalid --attach {name!r}", "stdin, stdout or stderr")
    if flags.attach and flags.detach:
        raise UsageError("--attach and --detach: conflicting options", "one of them", 1)
    if isinstance(flags, RunFlags):
        flags.check("sig_proxy", "true", "false")
        if "progress" not in flags.given and os.isatty(2):
            flags.progress = preferences.chosen("progress")
        flags.check("progress", *preferences.KEYS["progress"])
    if isinstance(flags, RunFlags) and not flags.detach:
        check_input(flags.tty, _is_stdin_ours(flags))


def _is_stdin_ours(flags: CreateFlags) -> bool:
    """Return True if the container's input is that of the command which attaches to it."""
    return flags.interactive and (not flags.attach or "stdin" in flags.attach)


def _limits(flags: CreateFlags) -> OutputLimits | None:
    """Return the bounds of the log of its output; None if none is kept. Raises UsageError."""
    if flags.log_driver == "none":
        return None
    return words.log_limits(flags.log_opt) if flags.log_opt else OutputLimits()


def _begin(options: run_config.RunOptions) -> Callable[[Container], None] | None:
    """Return what is to be done before stage 1, when there is a record: volumes, and -v's folders
    are made, and who has which GPU is noted. None if nothing is."""
    note = _note_holders(options)
    if not (options.volumes or options.folders):
        return note

    def begin(container: Container) -> None:
        volumes.prepare(container, options.volumes, options.folders)
        if note:
            note(container)

    return begin


def _note_holders(options: run_config.RunOptions) -> Callable[[Container], None] | None:
    """Return the function that records GPU holders.

    None: stage 5 records them, or no GPU was asked for.
    """
    if options.cdi:
        return options.cdi.record
    return installed_hook.record if options.gpu_hook else None


def _bundle_follows(flags: RunFlags) -> bool:
    """Return True if this is `run ID -b DIR`, as Slurm writes it: flags after the id."""
    rest = flags.args[1:]
    if not rest or not rest[0].startswith("-"):
        return False
    return any(word in ("-b", "--bundle") or word.startswith("--bundle=") for word in rest)


def _is_beside(flags: RunFlags, settings: Settings) -> bool:
    """Return True if this is runc's `run ID`, beside a config.json. Raises ImageError."""
    if len(flags.args) != 1 or not os.path.exists(places.CONFIG):
        return False
    return bool(flags.given & ONLY_WITH_BUNDLE) or _is_id(flags, settings)


def _is_id(flags: RunFlags, settings: Settings) -> bool:
    """Return True if the argument can be a container's id, since no image has that name.

    An image that is broken has its name all the same. Raises ImageError.
    """
    if not flags.given <= WITH_BUNDLE:
        return False
    wanted = split(flags.args[0])
    if store.find(settings.store, wanted):
        return False
    try:
        return not workshop.call("has_recipe")(wanted)
    except ModuleNotFoundError:  # there is no workshop, and so no recipe
        return True


def _viewers(flags: RunFlags, settings: Settings) -> Viewers:
    """Return the views of the start that the flags ask for. Raises UsageError, OSError."""
    quiet = flags.quiet or flags.progress == "quiet"
    show = flags.plain or flags.pace or flags.progress in ("lanes", "plain", "tty")
    stepped = flags.step or flags.script or flags.rehearse or flags.large
    watched = os.isatty(2) or stepped  # in lines, on a pipe too: they are what is stepped through
    show = not quiet and bool(show or (flags.progress == "auto" and watched))
    held = flags.snapshots or flags.pace or flags.web or settings.gates
    if not (show or stepped or held or settings.log):
        return Viewers()
    found: Viewers = shelves.viewers(flags, show=show)
    return found
