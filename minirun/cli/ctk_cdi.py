"""`minirun nvidia-ctk cdi`: generate | list | transform root.

What is found and what is missing is logged on stderr in the real tool's words, errors as well; the
spec goes to stdout, or into --output.
"""

import os
import sys

from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.core.errors import GPUError, MinirunError, UsageError, from_os
from minirun.core.state import read_text
from minirun.gpu.cdi import registry
from minirun.gpu.cdi.check import check
from minirun.gpu.nvidia.ctk import transform, write
from minirun.gpu.nvidia.runtime import config
from minirun.gpu.nvidia.runtime.log import ToolkitLog

NAME = "nvidia-ctk cdi"
LIST = (
    Flag(("--spec-dir",), "DIR", "read this folder (default: /etc/cdi, /var/run/cdi)", many=True),
    HELP,
)
ROOT = (
    Flag(("--from",), "DIR", "the root that paths begin with"),
    Flag(("--to",), "DIR", "the root that they begin with afterwards"),
    Flag(("--relative-to",), "WHERE", "host or container", default="host"),
    Flag(("--input",), "FILE", "the spec, or - for standard input", default="-"),
    Flag(("--output",), "FILE", "write the spec to FILE (default: standard output)"),
    HELP,
)


def main(words: "list[str]") -> int:
    """Run one of the commands. Errors are logged as the real tool logs them, with status 1."""
    log = ToolkitLog("info")
    try:
        if words[:1] == ["generate"]:
            from minirun.cli import ctk_generate

            return ctk_generate.run(words[1:], log)
        if words[:1] == ["list"]:
            return _list(words[1:], log)
        if words[:2] == ["transform", "root"]:
            return _transform(words[2:])
        hint = "generate, list, transform root"
        raise UsageError(f"unknown command '{NAME} {' '.join(words[:2])}'", hint, status=1)
    except OSError as error:
        return _fail(from_os(error), log)
    except MinirunError as error:
        return _fail(error, log)


def _fail(error: MinirunError, log: ToolkitLog) -> int:
    log.error(str(error))
    if error.hint:
        log.info(f"Hint: {error.hint}")
    return 1


def read_flags(
    name: str, known: "tuple[Flag, ...]", args: "list[str]", text: str
) -> "Parsed | None":
    """Read flags; print the help, and return None, where it is asked for. Raises UsageError."""
    flags = parse(name, known, args)
    if flags.args:
        raise UsageError(f"{name}: unexpected argument {flags.args[0]!r}", status=1)
    if flags.help:
        sys.stdout.write(usage(name, "", text, known))
        return None
    return flags


def put(content: str, path: str) -> int:
    """Write a spec to a file, or to standard output. Raises OSError."""
    if path:
        write.save(path, content)
    else:
        os.write(1, content.encode())
    return 0


def _list(args: "list[str]", log: ToolkitLog) -> int:
    flags = read_flags(f"{NAME} list", LIST, args, "List the CDI devices of this host.")
    if flags is None:
        return 0
    found = registry.load(tuple(flags.spec_dir) or config.load().spec_dirs)
    names = sorted(name for name in found.devices if name not in found.conflicts)
    log.info(f"Found {len(names)} CDI devices")
    for line in (*found.warnings, *found.conflicts.values()):
        log.warning(line)
    os.write(1, "".join(f"{name}\n" for name in names).encode())
    return 0


def _transform(args: "list[str]") -> int:
    text = "Let the paths of a CDI spec begin elsewhere."
    flags = read_flags(f"{NAME} transform root", ROOT, args, text)
    if flags is None:
        return 0
    if flags.relative_to not in transform.RELATIVE:
        hint = "host or container"
        raise UsageError(f"invalid --relative-to value: {flags.relative_to}", hint, 1)
    where = "standard input" if flags.input == "-" else flags.input
    try:
        text = sys.stdin.read() if flags.input == "-" else read_text(flags.input)
        spec = check(registry.parse(text, as_json=flags.input.endswith(".json")))
    except ValueError as error:
        short = " ".join(str(error).split())
        what = f"failed to load CDI specification: failed to parse CDI spec: {where}: {short}"
        raise GPUError(what, status=1) from None
    moved = transform.root(spec, transform.Move(flags.values["from"], flags.to), flags.relative_to)
    form = write.format_of(flags.output) or "yaml"
    return put(write.text(moved, form), flags.output)
