"""`minirun nvidia-ctk cdi`: generate, list, transform root.

What is found and what is missing is logged on stderr in the real tool's words, errors as well; the
spec goes to stdout, or into --output. Each flag of generate can be given by the environment too, in
a variable of the real tool's name; lists by commas.
"""

from __future__ import annotations

import os
import sys

from minirun.cli.flags import flag
from minirun.cli.output import write as write_out
from minirun.core.errors import GPUError, MinirunError, UsageError, from_os
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.state import read_text
from minirun.gpu.cdi import names, registry
from minirun.gpu.cdi.check import check
from minirun.gpu.nvidia.shared import config
from minirun.gpu.nvidia.shared.find import Finder
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.gpu.nvidia.specs import modes, recipe
from minirun.toolkit.commands.ctk import CtkFlags
from minirun.toolkit.ctk import make, transform


class CdiList(CtkFlags):
    """List the CDI devices of this host."""

    command = "nvidia-ctk cdi list"
    spec_dir: list[str]


class TransformRoot(CtkFlags):
    """Let the paths of a CDI spec begin elsewhere."""

    command = "nvidia-ctk cdi transform root"
    from_: str
    to: str
    relative_to: str = flag(default="host")
    input: str = flag(default="-")
    output: str


class CdiGenerate(CtkFlags):
    """Make a CDI spec of the GPUs of this host."""

    command = "nvidia-ctk cdi generate"
    output: str
    format: str
    discovery_mode: str = flag("--mode", default="auto")
    device_name_strategy: list[str]
    device_ids: list[str] = flag("--device-id", "--device", "--devices")
    no_all_device: bool
    cdi_vendor: str = flag("--vendor", default="nvidia.com")
    cdi_class: str = flag("--class", default="gpu")
    driver_root: str
    dev_root: str
    nvidia_cdi_hook_path: str = flag("--nvidia-ctk-path")
    ldconfig_path: str
    library_search_path: list[str]
    config_search_path: list[str]
    disable_hooks: list[str] = flag("--disable-hook")
    enable_hooks: list[str] = flag("--enable-hook")
    feature_flags: list[str] = flag("--feature-flag")
    csv__file: list[str]
    csv__ignore_pattern: list[str]


_VARIABLES = {
    "output": "OUTPUT_FILE_PATH", "format": "GENERATE_OUTPUT_FORMAT",
    "discovery_mode": "GENERATE_MODE",
    "device_name_strategy": "GENERATE_DEVICE_NAME_STRATEGIES", "device_ids": "GENERATE_DEVICE_IDS",
    "no_all_device": "GENERATE_NO_ALL_DEVICE", "cdi_vendor": "GENERATE_VENDOR",
    "cdi_class": "GENERATE_CLASS", "nvidia_cdi_hook_path": "HOOK_PATH",
    "ldconfig_path": "GENERATE_LDCONFIG_PATH", "disable_hooks": "GENERATE_DISABLED_HOOKS",
    "library_search_path": "GENERATE_LIBRARY_SEARCH_PATHS",
    "config_search_path": "GENERATE_CONFIG_SEARCH_PATHS",
    "enable_hooks": "GENERATE_ENABLED_HOOKS", "feature_flags": "GENERATE_FEATURE_FLAGS",
}  # fmt: skip
"""Flag → $NVIDIA_CTK_CDI_…"""
_SPEC_DIRS = "NVIDIA_CTK_CDI_SPEC_DIRS"
_ROOTS = {"driver_root": "NVIDIA_CTK_DRIVER_ROOT", "dev_root": "NVIDIA_CTK_DEV_ROOT"}


def main(words: list[str], log: ToolkitLog, settings: Settings) -> int:
    """Run one of the commands. Errors are logged as the real tool logs them, with status 1."""
    try:
        if words[:1] == ["generate"]:
            return _generate(words[1:], log, settings.store)
        if words[:1] == ["list"]:
            return _list(words[1:], log)
        if words[:2] == ["transform", "root"]:
            return _transform(words[2:])
        hint = "generate, list, transform root"
        raise UsageError(f"unknown command 'nvidia-ctk cdi {' '.join(words[:2])}'", hint, status=1)
    except (MinirunError, OSError) as error:
        return _fail(from_os(error) if isinstance(error, OSError) else error, log)


def _fail(error: MinirunError, log: ToolkitLog) -> int:
    log.error(str(error))
    if error.hint:
        log.info(f"Hint: {error.hint}")
    return 1


def _put(content: str, path: str) -> int:
    """Write a spec to a file, or to standard output. Raises OSError."""
    if path:
        make.save(path, content)
    else:
        write_out(content)
    return 0


def _list(args: list[str], log: ToolkitLog) -> int:
    flags = CdiList(args)
    named = [name for name in os.environ.get(_SPEC_DIRS, "").split(",") if name]
    found = registry.load(tuple(flags.spec_dir or named) or config.load().spec_dirs)
    names = sorted(name for name in found.devices if name not in found.conflicts)
    log.info(f"Found {len(names)} CDI devices")
    for line in (*found.warnings, *found.conflicts.values()):
        log.warning(line)
    os.write(1, "".join(f"{name}\n" for name in names).encode())
    return 0


def _transform(args: list[str]) -> int:
    flags = TransformRoot(args)
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
    moved = transform.root(spec, transform.Move(flags.from_, flags.to), flags.relative_to)
    form = make.format_of(flags.output) or "yaml"
    return _put(make.text(moved, form), flags.output)


def _generate(args: list[str], log: ToolkitLog, store: str) -> int:
    """Make a spec and print or write it. Raises MinirunError, OSError."""
    flags = CdiGenerate(args)
    _from_environment(flags)
    form = _checked(flags, log)
    root = (flags.driver_root or config.load().hook.options.root).rstrip("/")
    finder = Finder(
        root, flags.dev_root or None, log,
        tuple(flags.library_search_path), tuple(flags.config_search_path),
    )  # fmt: skip
    own_program = not flags.nvidia_cdi_hook_path
    how, mode = _recipe(flags), flags.discovery_mode
    spec = make.spec(mode, how, finder, log, store, own_program=own_program)
    try:
        content = make.text(spec, form)
    except GPUError as error:
        where = "" if flags.output else "failed to write CDI spec to STDOUT: "
        raise GPUError(f"{where}{error}", error.hint, status=1) from None
    return _put(content, flags.output)


def _from_environment(flags: CdiGenerate) -> None:
    """Let the environment give what the command line does not."""
    names_of = {key: f"NVIDIA_CTK_CDI_{name}" for key, name in _VARIABLES.items()} | _ROOTS
    for key, one in flags.known().items():
        value = os.environ.get(names_of.get(key, ""), "")
        if value and key not in flags.given:
            is_true = value.lower() in ("1", "t", "true")
            setattr(flags, key, [value] if one.many else is_true if one.kind == "bool" else value)
        if one.many:
            words = [word for words in getattr(flags, key) for word in words.split(",") if word]
            setattr(flags, key, words)


def _checked(flags: CdiGenerate, log: ToolkitLog) -> str:
    """Return the format, after a look at all flags. Raises UsageError in the real tool's words."""
    form = flags.format.lower() or make.format_of(flags.output) or "yaml"
    if form not in make.FORMATS:
        raise UsageError(f"invalid output format: {form}", "json or yaml", 1)
    told = make.format_of(flags.output)
    if told and told != form:
        said = f'Requested output format "{form}" does not match format implied by output file name'
        log.warning(f'{said}: "{told}"')
    mode = flags.discovery_mode = flags.discovery_mode.lower()
    if mode in modes.REFUSED or flags.csv__file or flags.csv__ignore_pattern:
        which = mode if mode in modes.REFUSED else "csv"
        raise UsageError(f"mode {which} is not supported", f"one of {', '.join(modes.MODES)}", 1)
    if mode not in modes.MODES:
        raise UsageError(f"invalid discovery mode: {mode}", f"one of {', '.join(modes.MODES)}", 1)
    for way in flags.device_name_strategy:
        if way not in recipe.STRATEGIES:
            hint = f"one of {', '.join(recipe.STRATEGIES)}"
            raise UsageError(f"invalid device name strategy: {way}", hint, 1)
    kind = f"{flags.cdi_vendor}/{flags.cdi_class}"
    if problem := names.kind_problem(kind):
        raise UsageError(f"invalid CDI kind: {problem}", "as in --vendor nvidia.com --class gpu", 1)
    _check_hooks(flags)
    if "none" in flags.device_ids and not flags.no_all_device:
        log.warning("Disabling generation of 'all' device")
        flags.no_all_device = True
    return form


def _check_hooks(flags: CdiGenerate) -> None:
    if "all" in flags.enable_hooks:
        raise UsageError("enabling all hooks is not supported", ", ".join(recipe.HOOKS), 1)
    for name in (*flags.enable_hooks, *flags.disable_hooks):
        if name not in (*recipe.HOOKS, "all"):
            raise UsageError(f"unknown hook: {name}", ", ".join(recipe.HOOKS), 1)
    for name in flags.feature_flags:
        if name != recipe.NO_GIDS:
            raise UsageError(f"unknown feature flag: {name}", recipe.NO_GIDS, 1)


def _recipe(flags: CdiGenerate) -> recipe.CdiRecipe:
    """Return how the spec is to be made."""
    off = "all" if "all" in flags.disable_hooks else ""
    without = recipe.HOOKS if off else (*recipe.OFF, *flags.disable_hooks)
    return recipe.CdiRecipe(
        make.program(flags.nvidia_cdi_hook_path),
        f"{flags.cdi_vendor}/{flags.cdi_class}",
        tuple(flags.device_name_strategy) or ("index", "uuid"),
        tuple(flags.device_ids) or ("all",),
        not flags.no_all_device,
        tuple(name for name in without if name not in flags.enable_hooks),
        flags.ldconfig_path,
        recipe.NO_GIDS not in flags.feature_flags,
    )
