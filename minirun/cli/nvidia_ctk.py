"""`minirun nvidia-ctk`: NVIDIA's tool for administrators: runtime configure, cdi, system, hook."""

import os
import sys

from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.gpu.nvidia.runtime.log import ToolkitLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.nvidia.ctk.engines import EngineSetup

NAME = "nvidia-ctk"
SUMMARY = """Configure what is around GPU containers, as NVIDIA's tool does.

  runtime configure                 register a runtime with docker, containerd or cri-o
  cdi generate                      make a CDI spec of this host's GPUs
  cdi list                          list the CDI devices of this host
  cdi transform root                let the paths of a CDI spec begin elsewhere
  hook NAME                         what nvidia-cdi-hook does
  system create-dev-char-symlinks   make /dev/char/MAJOR:MINOR for the driver's nodes"""
CONFIGURE = (
    Flag(("--runtime",), "ENGINE", "docker, containerd or crio", default="docker"),
    Flag(("--config",), "FILE", "the engine's configuration (default: where the engine reads it)"),
    Flag(("--drop-in-config",), "FILE", 'write to this file and import it; "" for the main file'),
    Flag(("--nvidia-runtime-name",), "NAME", "name of the runtime that is added", default="nvidia"),
    Flag(
        ("--nvidia-runtime-path", "--runtime-path"), "PATH",
        "its program (default: nvidia-container-runtime); minirun's path registers minirun",
    ),
    Flag(("--nvidia-set-as-default", "--set-as-default"), "", "make it the default runtime"),
    Flag(("--cdi.enabled", "--cdi.enable", "--enable-cdi"), "", "switch CDI on in the engine"),
    Flag(("--dry-run",), "", "print the files and write nothing"),
    HELP,
)  # fmt: skip
SYMLINKS = (
    Flag(("--create-all",), "", "for all nodes that there may be, not only those that are there"),
    Flag(("--driver-root",), "DIR", "where the driver is: its nodes are in DIR/dev", default="/"),
    Flag(("--dev-char-path",), "DIR", "where the links are made", default="/dev/char"),
    Flag(("--dry-run",), "", "only say what would be made"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Run one of its commands."""
    flags = parse(NAME, (HELP,), args)
    if flags.help or not flags.args:
        sys.stdout.write(usage(NAME, "COMMAND [ARG…]", SUMMARY, (HELP,)))
        return 0 if flags.help else 1
    if flags.args[0] == "cdi":
        from minirun.cli import ctk_cdi

        return ctk_cdi.main(flags.args[1:])
    if flags.args[0] == "hook":
        from minirun.cli import cdi_hook

        return cdi_hook.main(flags.args[1:], settings)
    words = " ".join(flags.args[:2])
    commands = {"runtime configure": _configure, "system create-dev-char-symlinks": _symlinks}
    if words not in commands:
        hint = "see 'minirun nvidia-ctk --help'"
        raise UsageError(f"unknown command 'nvidia-ctk {words}'", hint, status=1)
    return commands[words](flags.args[2:])


def _configure(args: "list[str]") -> int:
    name = f"{NAME} runtime configure"
    flags = _parse(name, CONFIGURE, args)
    if flags.help:
        text = "Add a runtime to an engine's configuration."
        sys.stdout.write(usage(name, "", text, CONFIGURE))
        return 0
    from minirun.gpu.nvidia.ctk import engines

    log = ToolkitLog("info")
    setup = _engine_setup(flags, log)
    for file in engines.configure(setup, log):
        if flags.dry_run:
            if file.title:
                log.info(file.title)
            sys.stdout.write(file.text)
            sys.stdout.flush()
        else:
            engines.save(file)
            log.info(f"Wrote updated config to {file.path}")
    if not flags.dry_run:
        log.info(f"It is recommended that {setup.engine} daemon be restarted.")
    return 0


def _engine_setup(flags: Parsed, log: ToolkitLog) -> "EngineSetup":
    """Return what the flags ask for, checked as the real tool checks it. Raises UsageError."""
    from minirun.gpu.nvidia.ctk import engines

    engine = engines.ENGINES.get(flags.runtime)
    if engine is None:
        raise UsageError(f"unrecognized runtime '{flags.runtime}'", ", ".join(engines.ENGINES), 1)
    path = flags.nvidia_runtime_path or "nvidia-container-runtime"
    if path == "nvidia-container-runtime":
        path = engine.runtime
    if flags.runtime != "docker" and not path.startswith("/"):
        raise UsageError(f'the NVIDIA runtime path "{path}" is not an absolute path', status=1)
    drop_in = flags.drop_in_config if "drop_in_config" in flags.given else engine.drop_in
    if drop_in and flags.runtime == "docker":
        raise UsageError("runtime docker does not support drop-in configs", status=1)
    if drop_in and not drop_in.startswith("/"):
        raise UsageError(f'the drop-in-config path "{drop_in}" is not an absolute path', status=1)
    if flags.values["cdi.enabled"] and flags.runtime == "crio":
        log.warning("Ignoring cdi.enabled flag for crio")
    return engines.EngineSetup(
        engine=flags.runtime,
        config=os.path.abspath(flags.config or engine.config),
        drop_in=drop_in,
        name=flags.nvidia_runtime_name,
        path=path,
        default=flags.nvidia_set_as_default,
        cdi=flags.values["cdi.enabled"],
    )


def _symlinks(args: "list[str]") -> int:
    name = f"{NAME} system create-dev-char-symlinks"
    flags = _parse(name, SYMLINKS, args)
    if flags.help:
        sys.stdout.write(usage(name, "", "Link /dev/char/MAJOR:MINOR to the nodes.", SYMLINKS))
        return 0
    from minirun.gpu.nvidia.ctk import devchar

    root = flags.driver_root.rstrip("/")
    nodes = (
        devchar.possible_nodes(root, devchar.Host())
        if flags.create_all
        else devchar.existing_nodes(root)
    )
    devchar.link(nodes, flags.dev_char_path, ToolkitLog("info"), dry_run=flags.dry_run)
    return 0


def _parse(name: str, known: "tuple[Flag, ...]", args: "list[str]") -> Parsed:
    """Read flags only. Raises UsageError, with exit status 1."""
    try:
        flags = parse(name, known, args)
    except UsageError as error:
        error.status = 1
        raise
    if flags.args:
        raise UsageError(f"{name}: unexpected argument {flags.args[0]!r}", status=1)
    return flags
