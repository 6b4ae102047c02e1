"""`minirun nvidia-ctk cdi generate`: the flags of the real tool.

Each can be given by the environment too, in a variable of the real tool's name; lists by commas.
"""

import os

from minirun.cli.ctk_cdi import NAME, put, read_flags
from minirun.cli.flags import HELP, Flag, Parsed
from minirun.core.errors import GPUError, UsageError
from minirun.gpu.cdi import names, request
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.ctk import modes, recipe, write
from minirun.gpu.nvidia.find import Finder
from minirun.gpu.nvidia.runtime import config, host, lookup
from minirun.gpu.nvidia.runtime.log import ToolkitLog

_NODES = "no-additional-gids-for-device-nodes"
GENERATE = (
    Flag(("--output",), "FILE", "write the spec to FILE (default: standard output)"),
    Flag(("--format",), "FORMAT", "json or yaml (default: by the name of FILE, else yaml)"),
    Flag(
        ("--mode", "--discovery-mode"), "MODE",
        "auto, nvml, management, imex, gdrcopy, gds, mofed or nvswitch", default="auto",
    ),
    Flag(
        ("--device-name-strategy",), "HOW", "index, uuid or type-index; again for more", many=True
    ),
    Flag(
        ("--device-id", "--device-ids", "--device", "--devices"), "ID",
        "only this index or uuid (default: all)", many=True,
    ),
    Flag(("--no-all-device",), "", "make no device that is called all"),
    Flag(("--vendor", "--cdi-vendor"), "NAME", "first half of the kind", default="nvidia.com"),
    Flag(("--class", "--cdi-class"), "NAME", "second half of the kind", default="gpu"),
    Flag(("--driver-root",), "DIR", "where the driver is installed (default: config.toml, else /)"),
    Flag(("--dev-root",), "DIR", "where /dev is (default: the driver's root)"),
    Flag(
        ("--nvidia-cdi-hook-path", "--nvidia-ctk-path"), "PATH",
        "the program of the hooks (default: nvidia-cdi-hook in $PATH, else minirun)",
    ),
    Flag(("--ldconfig-path",), "PATH", "the host's ldconfig that the hook runs"),
    Flag(("--library-search-path",), "DIR", "where libraries are looked for", many=True),
    Flag(("--config-search-path",), "DIR", "where configuration files are looked for", many=True),
    Flag(("--disable-hook", "--disable-hooks"), "NAME", "leave a hook out; or all", many=True),
    Flag(("--enable-hook", "--enable-hooks"), "NAME", "make a hook after all", many=True),
    Flag(("--feature-flag", "--feature-flags"), "NAME", _NODES, many=True),
    Flag(("--csv.file",), "FILE", "refused: for Tegra boards", many=True),
    Flag(("--csv.ignore-pattern",), "PATTERN", "refused: for Tegra boards", many=True),
    HELP,
)  # fmt: skip
VARIABLES = {
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
ROOTS = {"driver_root": "NVIDIA_CTK_DRIVER_ROOT", "dev_root": "NVIDIA_CTK_DEV_ROOT"}


def run(args: "list[str]", log: ToolkitLog) -> int:
    """Make a spec and print or write it. Raises MinirunError, OSError."""
    text = "Make a CDI spec of the GPUs of this host."
    flags = read_flags(f"{NAME} generate", GENERATE, args, text)
    if flags is None:
        return 0
    _from_environment(flags)
    form = _checked(flags, log)
    root = _driver_root(flags)
    finder = Finder(
        root, flags.dev_root or None, log,
        tuple(flags.library_search_path), tuple(flags.config_search_path),
    )  # fmt: skip
    _announce(finder, log)
    mode = flags.discovery_mode
    wanted = _recipe(flags)
    try:
        found = _host(root, log) if mode in ("auto", "nvml", "management") else None
        if found and found.simulated:
            finder.root = found.root
            if not flags.nvidia_cdi_hook_path:  # it has a hook more than NVIDIA's program
                wanted = wanted._replace(program=request.program())
        spec = modes.spec(mode, found, wanted, finder)
    except GPUError as error:
        raise _in_place(error) from None
    log.info(f"Generated CDI spec with version {spec['cdiVersion']}")
    try:
        content = write.text(spec, form)
    except GPUError as error:
        where = "" if flags.output else "failed to write CDI spec to STDOUT: "
        raise GPUError(f"{where}{error}", error.hint, status=1) from None
    return put(content, flags.output)


def _in_place(error: GPUError) -> GPUError:
    """Say, as the real tool does, in which part of its work an error came."""
    text = str(error)
    parts = {
        "failed to construct": "failed to create device CDI specs: ",
        "failed to locate libcuda": "failed to create edits common for entities: ",
    }
    part = next((words for begin, words in parts.items() if text.startswith(begin)), "")
    return GPUError(f"failed to generate CDI spec: {part}{text}", error.hint, status=1)


def _from_environment(flags: Parsed) -> None:
    """Let the environment give what the command line does not."""
    names = {key: f"NVIDIA_CTK_CDI_{name}" for key, name in VARIABLES.items()} | ROOTS
    for key, name in names.items():
        value = os.environ.get(name, "")
        if not value or key in flags.given:
            continue
        old = flags.values[key]
        flags.values[key] = value.lower() in ("1", "t", "true") if old is False else value
        if isinstance(old, list):
            flags.values[key] = [value]
    for key, value in flags.values.items():
        if isinstance(value, list):
            flags.values[key] = [word for words in value for word in words.split(",") if word]


def _checked(flags: Parsed, log: ToolkitLog) -> str:
    """Return the format, after a look at all flags. Raises UsageError in the real tool's words."""
    form = flags.format.lower() or write.format_of(flags.output) or "yaml"
    if form not in write.FORMATS:
        raise UsageError(f"invalid output format: {form}", "json or yaml", 1)
    told = write.format_of(flags.output)
    if told and told != form:
        said = f'Requested output format "{form}" does not match format implied by output file name'
        log.warning(f'{said}: "{told}"')
    mode = flags.values["discovery_mode"] = flags.discovery_mode.lower()
    if mode in modes.REFUSED or flags.values["csv.file"] or flags.values["csv.ignore_pattern"]:
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
        flags.values["no_all_device"] = True
    return form


def _check_hooks(flags: Parsed) -> None:
    if "all" in flags.enable_hooks:
        raise UsageError("enabling all hooks is not supported", ", ".join(recipe.HOOKS), 1)
    for name in (*flags.enable_hooks, *flags.disable_hooks):
        if name not in (*recipe.HOOKS, "all"):
            raise UsageError(f"unknown hook: {name}", ", ".join(recipe.HOOKS), 1)
    for name in flags.feature_flags:
        if name != _NODES:
            raise UsageError(f"unknown feature flag: {name}", _NODES, 1)


def _recipe(flags: Parsed) -> recipe.Recipe:
    """Return how the spec is to be made."""
    off = "all" if "all" in flags.disable_hooks else ""
    without = recipe.HOOKS if off else (*recipe.OFF, *flags.disable_hooks)
    return recipe.Recipe(
        _program(flags.nvidia_cdi_hook_path),
        f"{flags.cdi_vendor}/{flags.cdi_class}",
        tuple(flags.device_name_strategy) or ("index", "uuid"),
        tuple(flags.device_ids) or ("all",),
        not flags.no_all_device,
        tuple(name for name in without if name not in flags.enable_hooks),
        flags.ldconfig_path,
        _NODES not in flags.feature_flags,
    )


def _program(asked: str) -> recipe.HookProgram:
    """Return the program of the hooks: the one that is asked for, nvidia-cdi-hook, or minirun."""
    name = asked or "nvidia-cdi-hook"
    path = name if name.startswith("/") else lookup.program(name)
    if not path and asked:
        path = f"/usr/bin/{name}"
    if not path:
        return request.program()
    last = path.rpartition("/")[2]
    if last == "nvidia-ctk":
        return recipe.HookProgram(path, (last, "hook"))
    return recipe.HookProgram(path, (last, request.HOOK) if last == "minirun" else (last,))


def _driver_root(flags: Parsed) -> str:
    root: str = flags.driver_root or config.load().hook.root
    return root.rstrip("/")


def _announce(finder: Finder, log: ToolkitLog) -> None:
    """Say which of NVIDIA's libraries tell about GPUs."""
    other = "libnvidia-sandboxutils.so.1"
    if not finder.locate_library(other):
        twice = "\n".join([f"{other}: not found"] * 2)
        log.warning(f"Ignoring error in locating {other}: {twice}")
        log.warning("Failed to init nvsandboxutils: ERROR_LIBRARY_LOAD; ignoring")
    for path in finder.locate_library("libnvidia-ml.so.1")[:1]:
        log.info(f"Using {finder.root}{path}")


def _host(root: str, log: ToolkitLog) -> Inventory:
    found = host.host_inventory(root)
    if found.simulated:
        log.warning("SIMULATED: no driver is behind the devices of this spec (MINIRUN_SIM)")
    return found
