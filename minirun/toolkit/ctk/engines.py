"""nvidia-ctk runtime configure: a runtime's entry in the configuration of an engine.

    docker       /etc/docker/daemon.json: JSON, rewritten with its keys sorted
    containerd   /etc/containerd/config.toml, and a drop-in file that it imports: containerd.py
    crio         /etc/crio/crio.conf, and a drop-in file

The entry copies the options of the default runtime, of runc or of crun, where one is configured.
The result means the same as the real nvidia-ctk's; comments and order of a TOML file that is
changed stay as they are (tomlkit), where the real one writes all of it anew, sorted and indented.
"""

from __future__ import annotations

import glob
import json
import os

import tomlkit

from minirun.core.errors import ConfigError
from minirun.core.keeping.record import Record
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.ctk import containerd
from minirun.toolkit.ctk.engine_files import (
    EngineSetup,
    Written,
    dumped,
    merged,
    options,
    other_default,
    read,
    read_toml,
    table_at,
    value_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Engine(Record):
    """Where an engine keeps its configuration, and which program it is given by default."""

    config: str
    drop_in: str
    runtime: str
    commands: tuple[tuple[str, ...], ...] = ()
    """Commands that print the configuration in force, the first that there is counts."""


ENGINES = {
    "docker": Engine("/etc/docker/daemon.json", "", "nvidia-container-runtime"),
    "containerd": Engine(
        "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml",
        "/usr/bin/nvidia-container-runtime", (("containerd", "config", "dump"),),
    ),
    "crio": Engine(
        "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/99-nvidia.toml",
        "/usr/bin/nvidia-container-runtime",
        (("crio", "status", "config"), ("crio-status", "config")),
    ),
}  # fmt: skip


_TABLES = ("runtimes", "features")
"""Tables of docker's daemon.json."""


def configure(setup: EngineSetup, log: ToolkitLog) -> tuple[Written, ...]:
    """Return the files as they are to be, nothing written yet. Raises ConfigError."""
    make = {"docker": _docker, "containerd": containerd.configure, "crio": _crio}[setup.engine]
    return tuple(file._replace(text=f"{file.text.rstrip()}\n") for file in make(setup, log))


def _docker(setup: EngineSetup, log: ToolkitLog) -> tuple[Written, ...]:
    text = read(setup.config)
    if text:
        log.info(f"Loading config from {setup.config}")
    else:
        log.info("Config file does not exist; using empty config")
    try:
        config: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"{setup.config}: {error}", status=1) from None
    tables = (
        [config, *(config.get(key, {}) for key in _TABLES)] if isinstance(config, dict) else [0]
    )
    if not all(isinstance(table, dict) for table in tables):
        what = f"{setup.config}: it, and {' and '.join(_TABLES)} in it, must be objects"
        raise ConfigError(what, status=1)
    config.setdefault("runtimes", {})[setup.name] = {"path": setup.path, "args": []}
    if setup.default:
        config["default-runtime"] = setup.name
    if setup.cdi:
        config.setdefault("features", {})["cdi"] = True
    text = json.dumps(config, indent=4, sort_keys=True, ensure_ascii=False)
    return (Written(setup.config, text, ""),)


def _crio(setup: EngineSetup, log: ToolkitLog) -> tuple[Written, ...]:
    """Return the file with the entry. CRI-O merges drop-ins level by level, in order of names."""
    main = read_toml(setup.config)
    target: Any = tomlkit.document() if setup.drop_in else main
    crio = ("crio", "runtime")
    files: dict[str, Any] = merged({}, main.unwrap())
    for path in sorted(glob.glob(f"{setup.config}.d/*")):
        if path != setup.drop_in and os.path.isfile(path):
            files = merged(files, read_toml(path).unwrap())
    in_force = value_at(dumped(setup) or files, crio)
    default, runtimes = value_at(in_force, ("default_runtime",)), value_at(in_force, ("runtimes",))
    entry = options(setup, default, runtimes, log)
    table = table_at(target, crio, setup.config)
    if setup.default:
        table["default_runtime"] = setup.name
    elif setup.name in (table.get("default_runtime"), value_at(files, (*crio, "default_runtime"))):
        _set_other_default(setup, table, runtimes, log)
    entry.update({"runtime_path": setup.path, "runtime_type": "oci"})
    table_at(target, (*crio, "runtimes"), setup.config)[setup.name] = entry
    return (Written(setup.drop_in or setup.config, tomlkit.dumps(target), ""),)


def _set_other_default(setup: EngineSetup, table: Any, runtimes: Any, log: ToolkitLog) -> None:
    """Have the runtime be the default one no more, as far as another one is known."""
    other = other_default(setup, runtimes)
    if other:
        table["default_runtime"] = other
    elif "default_runtime" in table:
        del table["default_runtime"]
    else:
        log.warning(f"{setup.name} stays the default runtime: set another one in {setup.config}")


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
