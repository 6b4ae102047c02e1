"""nvidia-ctk runtime configure: a runtime's entry in the configuration of an engine.

    docker       /etc/docker/daemon.json: JSON, rewritten with its keys sorted
    containerd   /etc/containerd/config.toml, versions 1 to 3, and a drop-in file that it imports
    crio         /etc/crio/crio.conf, and a drop-in file

The entry copies the options of the default runtime, of runc or of crun, where one is configured.
The result means the same as the real nvidia-ctk's; comments and order of a TOML file that is
changed stay as they are (tomlkit), where the real one writes all of it anew, sorted and indented.
"""

import json
import os
import subprocess

import tomlkit
from tomlkit.exceptions import TOMLKitError

from minirun.core.errors import ConfigError
from minirun.core.record import Record
from minirun.gpu.nvidia.ctk import make
from minirun.gpu.nvidia.runtime.log import ToolkitLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLUGINS = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
"""containerd's plugin that runs containers for Kubernetes, by the version of the file's format."""


class Engine(Record):
    """Where an engine keeps its configuration, and which program it is given by default."""

    config: str
    drop_in: str
    runtime: str
    commands: "tuple[tuple[str, ...], ...]" = ()
    """Commands that print the configuration in force, the first that there is counts."""


ENGINES = {
    "docker": Engine("/etc/docker/daemon.json", "", "nvidia-container-runtime"),
    "containerd": Engine(
        "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml",
        "/usr/bin/nvidia-container-runtime", (("containerd", "config", "dump"),),
    ),
    "crio": Engine(
        "/etc/crio/crio.conf", "/etc/crio/conf.d/99-nvidia.toml",
        "/usr/bin/nvidia-container-runtime",
        (("crio", "status", "config"), ("crio-status", "config")),
    ),
}  # fmt: skip


class EngineSetup(Record):
    """What is to be configured: the files, the runtime's name and program. Paths are absolute."""

    engine: str
    config: str
    drop_in: str
    """"" for none: the main file is changed."""
    name: str
    path: str
    default: bool
    cdi: bool
    commands: "tuple[tuple[str, ...], ...]" = ()
    """As in Engine, if the engine itself is asked and not its file."""


class Written(Record):
    """A file's new text, and the line that is logged before it where it is only printed."""

    path: str
    text: str
    title: str


def configure(setup: EngineSetup, log: ToolkitLog) -> "tuple[Written, ...]":
    """Return the files as they are to be, nothing written yet. Raises ConfigError."""
    make = {"docker": _docker, "containerd": _containerd, "crio": _crio}[setup.engine]
    return tuple(file._replace(text=f"{file.text.rstrip()}\n") for file in make(setup, log))


def _docker(setup: EngineSetup, log: ToolkitLog) -> "tuple[Written, ...]":
    text = _read(setup.config)
    if text:
        log.info(f"Loading config from {setup.config}")
    else:
        log.info("Config file does not exist; using empty config")
    try:
        config: "Any" = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"{setup.config}: {error}", status=1) from None
    if not isinstance(config, dict) or not isinstance(config.get("runtimes", {}), dict):
        raise ConfigError(f"{setup.config}: it, and runtimes in it, must be objects", status=1)
    config.setdefault("runtimes", {})[setup.name] = {"path": setup.path, "args": []}
    if setup.default:
        config["default-runtime"] = setup.name
    if setup.cdi:
        config.setdefault("features", {})["cdi"] = True
    text = json.dumps(config, indent=4, sort_keys=True, ensure_ascii=False)
    return (Written(setup.config, text, ""),)


def _containerd(setup: EngineSetup, log: ToolkitLog) -> "tuple[Written, ...]":
    main, asked = read_toml(setup.config), _in_force(setup)
    version = asked.get("version", 1 if len(asked) else 2)
    if version not in _PLUGINS:
        raise ConfigError(f"{setup.config}: version {version} is not known: 1, 2, 3", status=1)
    plugin = _PLUGINS[version]
    log.info(f"Using config version {version}")
    log.info(f'Using CRI runtime plugin name "{plugin}"')
    drop_in = setup.drop_in if version > 1 else ""  # a file of version 1 takes no plugins' imports
    target = tomlkit.document() if drop_in else main
    target["version"] = version
    cri = ("plugins", plugin)
    runtimes = (*cri, "containerd", "runtimes")
    options = _options(asked, (*cri, "containerd", "default_runtime_name"), runtimes, log)
    defaults = {
        "runtime_type": "io.containerd.runc.v2", "runtime_root": "", "runtime_engine": "",
        "privileged_without_host_devices": False,
    }  # fmt: skip
    entry = table_at(target, (*runtimes, setup.name), setup.config)
    entry.update(options or defaults)
    binary = table_at(target, (*runtimes, setup.name, "options"), setup.config)
    binary["BinaryName"] = setup.path
    if version == 1:
        binary["Runtime"] = setup.path
    if setup.default:
        table_at(target, (*cri, "containerd"), setup.config)["default_runtime_name"] = setup.name
    if setup.cdi:
        table_at(target, cri, setup.config)["enable_cdi"] = True
    if not drop_in:
        return (Written(setup.config, tomlkit.dumps(target), ""),)
    _import(main, version, f"{os.path.dirname(drop_in)}/*.toml", setup.config)
    return (
        Written(drop_in, tomlkit.dumps(target), "Drop-in config:"),
        Written(setup.config, tomlkit.dumps(main), "Top-level config:"),
    )


def _import(main: "tomlkit.TOMLDocument", version: int, pattern: str, path: str) -> None:
    """Make containerd's main file import the drop-in's folder. Raises ConfigError."""
    imports = main.get("imports", [])
    if not isinstance(imports, list):
        raise ConfigError(f"{path}: imports: expected a list", status=1)
    if pattern in imports:
        return
    if not len(main):
        main["version"] = version
    main["imports"] = [*imports, pattern]


def _crio(setup: EngineSetup, log: ToolkitLog) -> "tuple[Written, ...]":
    main = read_toml(setup.config)
    target = tomlkit.document() if setup.drop_in else main
    crio = ("crio", "runtime")
    options = _options(_in_force(setup), (*crio, "default_runtime"), (*crio, "runtimes"), log)
    if setup.default:
        table_at(target, crio, setup.config)["default_runtime"] = setup.name
    entry = table_at(target, (*crio, "runtimes", setup.name), setup.config)
    entry.update(options)
    entry.update({"runtime_path": setup.path, "runtime_type": "oci"})
    return (Written(setup.drop_in or setup.config, tomlkit.dumps(target), ""),)


def _in_force(setup: EngineSetup) -> "tomlkit.TOMLDocument":
    """Return what the engine says that it has, or what is in its file. Raises ConfigError."""
    failed = "there is no such program"
    for words in setup.commands:
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            return tomlkit.parse(done.stdout)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, subprocess.CalledProcessError, TOMLKitError) as error:
            failed = str(error)
    if not setup.commands:
        return read_toml(setup.config)
    raise ConfigError(f"{' '.join(setup.commands[0])}: {failed}", "--config-source=file", 1)


def oci_hook(program: str) -> str:
    """Return the file that has podman or cri-o call a hook for every container: oci-hooks(5)."""
    folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    folder, _, name = program.rpartition("/")
    if folder not in folders:
        folders.append(folder)
    hook = {"path": program, "args": [name, "prestart"], "env": [f"PATH={':'.join(folders)}"]}
    when = {"always": True, "commands": [".*"]}
    row = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["prestart"]}
    return f"{json.dumps(row, indent=2)}\n"


def _options(
    main: "tomlkit.TOMLDocument",
    default: "tuple[str, ...]",
    runtimes: "tuple[str, ...]",
    log: ToolkitLog,
) -> "dict[str, Any]":
    """Return the options of the first of the default runtime, runc and crun that has any."""
    name = _at(main, default)
    names = [name] if isinstance(name, str) and name else []
    names += ["runc", "crun"]
    for name in names:
        options = _at(main, (*runtimes, name))
        if isinstance(options, dict):
            log.debug(f"Using options from runtime {name}")
            plain: dict[str, Any] = options.unwrap() if hasattr(options, "unwrap") else options
            return plain
    log.warning(f"Could not infer options from runtimes [{' '.join(names)}]")
    return {}


def _at(table: "Any", keys: "tuple[str, ...]") -> "Any":
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def table_at(table: "Any", keys: "tuple[str, ...]", path: str) -> "Any":
    """Return the table at `keys`, made where it is missing. Raises ConfigError."""
    for at, key in enumerate(keys):
        if key not in table:
            table[key] = tomlkit.table(is_super_table=at < len(keys) - 1)
        table = table[key]
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {'.'.join(keys[: at + 1])}: expected a table", status=1)
    return table


def read_toml(path: str) -> "tomlkit.TOMLDocument":
    """Return a file's document, an empty one where it is missing. Raises ConfigError."""
    try:
        return tomlkit.parse(_read(path))
    except TOMLKitError as error:
        raise ConfigError(f"{path}: {error}", status=1) from None


def _read(path: str) -> str:
    """Return a file's text, "" where it is missing. Raises ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}", status=1) from None


def save(file: Written) -> None:
    """Write a file in one step, with its folder and the mode that it had. Raises OSError."""
    path = os.path.realpath(file.path)
    make.save(path, file.text, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
