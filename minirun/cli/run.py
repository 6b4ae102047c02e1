"""`minirun run`: docker's `run IMAGE [COMMAND…]`, and runc's `run --bundle DIR ID`; `minirun spec`.

`spec` prints the config.json that `run` with the same flags would make (Figure 2). Without an image
it is runc's command: it writes a template to config.json in the bundle.
"""

import os

from minirun.cgroups import hierarchies
from minirun.cli import run_options, words
from minirun.cli.flags import write
from minirun.cli.run_options import RunFlags
from minirun.core import errors, gates, jsonlite, places
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.settings import Settings, unprivileged
from minirun.engines import rootless
from minirun.oci import generate
from minirun.running import supervise
from minirun.running.reserve import first_record, reserve
from minirun.running.visible_json import clean_json
from minirun.show.viewers import LogViewers, ViewOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


PROGRESS = ("auto", "plain", "tty", "quiet")


class Run(RunFlags):
    """Run a command in a new container, and show the seven stages of its start on a terminal."""

    command, mixed = "run", False


class RunBundle(Run):
    """The same, whose flags may stand after the id too."""

    mixed = True


class Spec(RunFlags):
    """Print the config.json for an image and flags; without an image, write a template."""

    command, mixed = "spec", False
    rootless: bool


def main_run(args: "list[str]", settings: Settings) -> int:
    """Run a container to its end (or with -d, to its start); return the command's exit status."""
    flags = Run(args)
    if flags.bundle or _bundle_follows(flags):
        return errors.as_runc(lambda: _run_bundle(RunBundle(args), settings))
    if not flags.args:
        hint = "minirun run ubuntu; minirun images lists what there is"
        raise UsageError("run needs an image", hint)
    if flags.progress not in PROGRESS:
        raise UsageError(f"invalid --progress {flags.progress!r}", ", ".join(PROGRESS))
    if flags.tty and flags.interactive and not flags.detach and not os.isatty(0):
        raise UsageError("the input device is not a TTY", "leave -t out", status=1)
    rootless.check_home(settings.root)
    settings = run_options.log_settings(flags, settings)
    container_id = flags.name or os.urandom(6).hex()
    options, image = run_options.from_flags(flags, settings, container_id)
    directory = f"{settings.root}/{container_id}"
    document = generate.config(container_id, options)
    if unprivileged():
        from minirun.engines import rootless_config  # 7 ms, for users without root

        rootless_config.adapt(document)
    config = Config(document, directory, options.choices)
    supervision = supervise.SupervisorOptions(
        detach=flags.detach, interactive=flags.interactive, auto_remove=flags.rm,
        viewers=LogViewers(_view_options(flags)), pid_file=flags.pid_file,
        log=words.log_limits(flags.log_opt),
        begin=_note_holders(options),
    )  # fmt: skip
    extra = {
        "managed": True, "auto_remove": flags.rm, "image": image, "args": list(options.args),
        "gpus": flags.gpus, "warnings": list(options.warnings), "seccomp": options.seccomp,
        "default_pids_limit": not flags.pids_limit,
    }  # fmt: skip
    if flags.dry_run:
        return _print_plan(settings, container_id, config, extra)
    return supervise.run(lambda: reserve(settings, container_id, config, **extra), supervision)


def _print_plan(
    settings: Settings, container_id: str, config: Config, extra: "dict[str, object]"
) -> int:
    """Print what would be done. Raises MinirunError, OSError."""
    from minirun.show import dry_run  # few runs are dry

    record = first_record(settings, container_id, config) | extra
    dry_run.write(Container(settings, config, record))
    return 0


def _note_holders(options: generate.RunOptions) -> "Callable[[Container], None] | None":
    """Return what writes down who has which GPU; None if stage 5 does, or if there are none."""
    cdi = options.cdi
    if not (cdi or options.gpu_hook):
        return None
    from minirun.gpu import run_request

    return lambda container: run_request.record_holders(container, cdi)


def _run_bundle(flags: RunBundle, settings: Settings) -> int:
    """Do runc's `run`, with its flags before or after the id. Raises MinirunError, OSError."""
    from minirun.cli import create  # what engines alone need
    from minirun.running import bundle

    container_id = create.only_id(flags)
    flags.or_before(settings.choices)
    choices = settings.choices._replace(
        gpu_driver=flags.gpu_driver, driver_root=flags.driver_root, gpus=flags.gpus,
        load_kmods=flags.load_kmods,
    )  # fmt: skip
    options = bundle.BundleOptions(
        container_id, flags.bundle, create.bundle_choices(choices), flags.console_socket,
        flags.pidfd_socket, flags.pid_file, flags.preserve_fds, flags.no_pivot,
        flags.no_new_keyring, flags.detach, flags.keep,
    )  # fmt: skip
    if flags.dry_run:
        return _print_plan(settings, container_id, options.config(), {})
    return bundle.run(options, settings)


def _bundle_follows(flags: Run) -> bool:
    """Return True if this is `run ID -b DIR`, as Slurm writes it: flags after the id."""
    rest = flags.args[1:]
    if not rest or not rest[0].startswith("-"):
        return False
    return any(word in ("-b", "--bundle") or word.startswith("--bundle=") for word in rest)


def _view_options(flags: Run) -> ViewOptions:
    """Return what is to be shown of the run. Raises UsageError, OSError."""
    step = flags.step or ("stage" if flags.script else "")
    if step not in ("", "stage", gates.EVERY_EVENT):
        raise UsageError(f"invalid --step {step!r}", "--step, or --step=syscall")
    if flags.script:
        from minirun.show import keys  # 40 ms

        keys.read_script(flags.script)  # its mistakes are told before anything is made
    elif step and (flags.detach or not os.isatty(0)):
        hint = "or play the keys of a file: --script FILE"
        raise UsageError("--step needs a terminal to read keys from", hint)
    show = flags.plain or flags.progress in ("plain", "tty")
    show = show or bool(step) or (flags.progress == "auto" and os.isatty(2))
    plain = flags.plain or flags.progress == "plain"
    quiet = flags.quiet or flags.progress == "quiet"
    return ViewOptions(show and not quiet, plain, step, flags.script, flags.snapshots)


def main_spec(args: "list[str]", settings: Settings) -> int:
    """Print a config.json, or write the template."""
    flags = Spec(args)
    if flags.args:
        options, _ = run_options.from_flags(flags, settings)
        without_root = flags.rootless or unprivileged()
        if not flags.pids_limit and (
            without_root or not hierarchies.count_processes(settings.cgroup_version)
        ):
            options = options._replace(pids_limit=0)  # in a bundle it would no longer be a default
        document = generate.config(flags.name or "minirun", options)
        if without_root:
            from minirun.engines import rootless_config

            rootless_config.adapt(document)
        return write(clean_json(jsonlite.dumps(document, indent=2)) + "\n")
    return _write_template(flags.bundle or ".", without_root=flags.rootless)


def _write_template(bundle: str, *, without_root: bool) -> int:
    """Write config.json into `bundle`, unless there is one. Raises UsageError, OSError."""
    from minirun.oci import template  # 8 ms

    path = f"{bundle}/{places.CONFIG}"
    if os.path.exists(path):
        raise UsageError(f"File {os.path.basename(path)} exists. Remove it first", status=1)
    text = jsonlite.dumps(template.document(rootless=without_root), indent=2)
    with open(path, "w") as file:
        file.write(text + "\n")
    return 0
