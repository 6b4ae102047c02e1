"""`minirun run`: docker's `run IMAGE [COMMAND…]`, and runc's `run --bundle DIR ID`."""

import os

from minirun.cli import run_options
from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.core import config as oci_config
from minirun.core import errors, gates, jsonlite, places, state
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.settings import Settings, unprivileged
from minirun.engines import rootless
from minirun.oci import generate
from minirun.running import supervise
from minirun.running.reserve import first_record, reserve
from minirun.show.viewers import LogViewers, ViewOptions

PROGRESS = ("auto", "plain", "tty", "quiet")
FLAGS = (
    Flag(("-i", "--interactive"), "", "keep standard input open"),
    Flag(("-t", "--tty"), "", "give the command a terminal"),
    Flag(("-d", "--detach"), "", "run in the background and print the container's id"),
    Flag(("--rm",), "", "delete the container when its command ends"),
    Flag(("--name",), "NAME", "name of the container (default: made up)"),
    Flag(("-e", "--env"), "NAME=VALUE", "set a variable; NAME alone takes the caller's", many=True),
    Flag(("-v", "--volume"), "SRC:DST[:ro]", "bind a host directory or file", many=True),
    Flag(("-w", "--workdir"), "DIR", "working directory"),
    Flag(("-u", "--user"), "USER[:GROUP]", "user of the command, by name or number"),
    Flag(("--hostname",), "NAME", "host name of the container"),
    Flag(("-m", "--memory"), "SIZE", "memory limit: bytes, or with b, k, m, g"),
    Flag(("--cpus",), "NUMBER", "limit of CPUs, such as 1.5"),
    Flag(("--pids-limit",), "N", "limit of processes (default: 2048); 0 or -1: none"),
    Flag(("--read-only",), "", "make the root filesystem read-only"),
    Flag(("--cap-add",), "CAP", "add a capability", many=True),
    Flag(("--cap-drop",), "CAP", "drop a capability", many=True),
    Flag(
        ("--security-opt",), "OPTION",
        "seccomp=FILE|unconfined, no-new-privileges, apparmor=PROFILE, label=disable,"
        " systempaths=unconfined",
        many=True,
    ),
    Flag(
        ("--device",), "DEV[:DEV[:rwm]]",
        "add a host's device, or a CDI device: vendor.com/class=name", many=True,
    ),
    Flag(
        ("--cdi-spec-dir",), "DIR", "CDI specs (default: /etc/cdi, then /var/run/cdi)", many=True
    ),
    Flag(("--network", "--net"), "none|host", "none: a loopback of its own", default="none"),
    Flag(("--uidmap",), "C:H:SIZE", "a user namespace: container id, host id, size", many=True),
    Flag(("--gidmap",), "C:H:SIZE", "the same for groups (default: as --uidmap)", many=True),
    Flag(
        ("--gpus", "--gpu"), "GPUS",
        "all, none, 0,1 (a bare number is an INDEX, not docker's count), device=…, count=N; "
        "with ,exclusive nobody else has them or gets them",
    ),
    Flag(
        ("--gpu-driver",), "NAME",
        "nvidia, amd, intel, gaudi or simulated (default: what this host has)",
    ),
    Flag(("--driver-root",), "DIR", "where the GPU driver is, if not in / (it is looked for)"),
    Flag(("--load-kmods",), "", "load NVIDIA's kernel modules and make its nodes first"),
    Flag(
        ("--gpu-mode",), "MODE",
        "legacy: stages 4 and 5, in-line; hook: an installed hook does them; cdi: config.json",
        default="legacy",
    ),
    Flag(
        ("--gpu-mps",), "THREADS%,MEMORY",
        "use the GPUs through MPS, at the same time as others (minirun gpu mps start)",
        optional="on",
    ),
    Flag(("--entrypoint",), "PROGRAM", "instead of the image's entrypoint"),
    Flag(("--annotation",), "KEY=VALUE", "put an annotation into config.json", many=True),
    Flag(("-q", "--quiet"), "", "do not show the stages"),
    Flag(("--progress",), "HOW", "show the stages: auto, plain, tty or quiet", default="auto"),
    Flag(("--plain",), "", "the same as --progress plain: one line after the other, no colours"),
    Flag(("--dry-run",), "", "print what would be done, stage by stage, and do nothing"),
    Flag(
        ("--step",), "WHERE",
        "stop before and after each stage and wait for a key; --step=syscall: after each event",
        optional="stage",
    ),
    Flag(("--script",), "FILE", "with --step: play these keys, as a presenter would press them"),
    Flag(("--snapshots",), "", "record the container's state at each stage's begin and end"),
    Flag(
        ("--log-opt",), "KEY=VALUE",
        "what `logs` keeps: max-size=20m of one file (-1: no limit), max-file=5", many=True,
    ),
    Flag(("--log",), "FILE", "append all events to FILE"),
    Flag(("--log-format",), "FORMAT", "text or json"),
    Flag(("-b", "--bundle"), "DIR", "run an OCI bundle; the argument is the container's id"),
    Flag(("--pid-file",), "FILE", "write init's pid to FILE"),
    Flag(("--console-socket",), "PATH", "a socket that gets the terminal's master end"),
    Flag(("--pidfd-socket",), "PATH", "a socket that gets a descriptor of init"),
    Flag(("--preserve-fds",), "N", "hand N descriptors from 3 on to the command"),
    Flag(("--keep",), "", "with --bundle: do not delete the container when its command has ended"),
    Flag(("--no-pivot",), "", "move the root instead, which a capable container can leave"),
    Flag(("--no-new-keyring",), "", "keep the caller's session keyring"),
    Flag(("--no-subreaper",), "", "accepted: minirun is never one"),
    HELP,
)  # fmt: skip


def main(args: "list[str]", settings: Settings) -> int:
    """Run a container to its end (or with -d, to its start); return the command's exit status."""
    flags = parse("run", FLAGS, args)
    if flags.help:
        os.write(1, usage("run", "IMAGE [COMMAND] [ARG…]", SUMMARY, FLAGS).encode())
        return 0
    if flags.bundle or _bundle_follows(flags):
        from minirun.cli import bundle

        return errors.as_runc(lambda: bundle.run(args, FLAGS, settings))
    if not flags.args:
        hint = "minirun run ubuntu; minirun images lists what there is"
        raise UsageError("run needs an image", hint)
    if flags.progress not in PROGRESS:
        raise UsageError(f"invalid --progress {flags.progress!r}", ", ".join(PROGRESS))
    if flags.tty and flags.interactive and not flags.detach and not os.isatty(0):
        raise UsageError("the input device is not a TTY", "leave -t out", status=1)
    rootless.check_home(settings.root)
    settings = _log_settings(flags, settings)
    container_id = flags.name or run_options.random_id()
    options, image = run_options.from_flags(flags, settings, container_id)
    directory = places.container(settings.root, container_id)
    document = generate.config(container_id, options)
    if unprivileged():
        from minirun.engines import rootless_config as without_root

        without_root.adapt(document)
    config = oci_config.Config(document, directory, options.choices)
    supervision = supervise.SupervisorOptions(
        detach=flags.detach, interactive=flags.interactive, auto_remove=flags.rm,
        viewers=LogViewers(_view_options(flags)), pid_file=flags.pid_file,
        log=run_options.log_limits(flags.log_opt),
        begin=lambda container: _note(container, options),
    )  # fmt: skip
    extra = {
        "managed": True, "auto_remove": flags.rm, "image": image, "args": list(options.args),
        "gpus": flags.gpus, "warnings": list(options.warnings), "seccomp": options.seccomp,
        "default_pids_limit": not flags.pids_limit,
    }  # fmt: skip
    if flags.dry_run:
        record = first_record(settings, container_id, config) | extra
        from minirun.show import dry_run  # few runs are dry

        dry_run.write(Container(settings, config, record))
        return 0
    return supervise.run(lambda: reserve(settings, container_id, config, **extra), supervision)


def _note(container: Container, options: generate.RunOptions) -> None:
    """Write down who has which GPU, where no stage 5 of ours does: CDI, and a hook's own.

    Raises GPUError, OSError.
    """
    if not (options.cdi or options.gpu_hook):
        return
    from minirun.gpu.share import of_hook, sharing

    if options.cdi:
        sharing.record_holders(container, options.cdi.edits.gpus, options.cdi.edits.simulated)
        text = jsonlite.dumps(options.cdi.as_json())
        state.write(places.edits_json(container.directory), text)
    else:
        of_hook.record(container, options.choices.gpu_driver)


SUMMARY = "Run a command in a new container, and show the seven stages of its start on a terminal."


def _bundle_follows(flags: Parsed) -> bool:
    """Whether this is `run ID -b DIR`, as Slurm writes it: flags after the id, and no command."""
    rest = flags.args[1:]
    if not rest or not rest[0].startswith("-"):
        return False
    return any(word in ("-b", "--bundle") or word.startswith("--bundle=") for word in rest)


def _view_options(flags: Parsed) -> ViewOptions:
    """Return what is to be shown of the run. Raises UsageError, OSError."""
    step = flags.step or ("stage" if flags.script else "")
    if step not in ("", "stage", gates.EVERY_EVENT):
        raise UsageError(f"invalid --step {step!r}", "--step, or --step=syscall")
    if flags.script:
        from minirun.show import keys

        keys.read_script(flags.script)  # its mistakes are told before anything is made
    elif step and (flags.detach or not os.isatty(0)):
        hint = "or play the keys of a file: --script FILE"
        raise UsageError("--step needs a terminal to read keys from", hint)
    show = flags.plain or flags.progress in ("plain", "tty")
    show = show or bool(step) or (flags.progress == "auto" and os.isatty(2))
    plain = flags.plain or flags.progress == "plain"
    quiet = flags.quiet or flags.progress == "quiet"
    return ViewOptions(show and not quiet, plain, step, flags.script, flags.snapshots)


def _log_settings(flags: Parsed, settings: Settings) -> Settings:
    log_format = flags.log_format or settings.log_format
    if log_format not in ("text", "json"):
        raise UsageError(f"invalid --log-format {log_format!r}", "text or json")
    return settings._replace(log=flags.log or settings.log, log_format=log_format)
