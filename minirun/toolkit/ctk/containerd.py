"""nvidia-ctk runtime configure --runtime=containerd: config.toml, and a drop-in that it imports.

A file of version 1 has no drop-ins: the entry goes into it. What containerd does with a drop-in of
another version (its mergeConfig) decides what has to be in one:

    version 2        containerd before 2.0 takes each plugin's section whole from the last file that
                     has it. So the drop-in repeats the CRI plugin's section as it is without the
                     drop-in; else the user's sandbox_image, registry or SystemdCgroup were gone.
    version 3 on     containerd from 2.0 on merges sections level by level, so the drop-in has the
                     new entry alone, and what the user changes later in the main file counts.

nvidia-ctk 1.20 repeats the section of the main file in all versions. Facts: containerd v1.6.20,
v1.7.24, v2.0.0 and v2.3.4, their server/config/config.go; NVIDIA/nvidia-container-toolkit v1.20.0,
pkg/config/engine/containerd.
"""

from __future__ import annotations

import glob
import os

import tomlkit

from minirun.core.errors import ConfigError
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.ctk.engine_files import (
    EngineSetup,
    Written,
    dumped,
    merged,
    options,
    other_default,
    read_toml,
    table_at,
    value_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.toolkit.ctk.engine_files import TomlTable

    _ParsedFiles = list[tuple[str, TomlTable]]
    """Paths, and what is in the files."""

_PLUGINS = {0: "cri", 1: "cri", 2: "io.containerd.grpc.v1.cri"}
_LATER = "io.containerd.cri.v1.runtime"
"""containerd's plugin that runs containers for Kubernetes, by the version of the file's format."""
_DEFAULT, _RUNTIMES = ("containerd", "default_runtime_name"), ("containerd", "runtimes")
_TYPE = "io.containerd.runc.v2"
_BUILT_IN = {
    "runtime_type": _TYPE, "runtime_root": "", "runtime_engine": "",
    "privileged_without_host_devices": False,
}  # fmt: skip


def configure(setup: EngineSetup, log: ToolkitLog) -> tuple[Written, ...]:
    """Return the files as they are to be, nothing written yet. Raises ConfigError."""
    main, asked = read_toml(setup.config), dumped(setup)
    source = asked or main
    version = _version(main if len(main) else source, setup.config)
    plugin, of_source = _plugin(version), _plugin(_version(source, setup.config))
    log.info(f"Using config version {version}")
    log.info(f'Using CRI runtime plugin name "{plugin}"')
    drop_in = setup.drop_in if version > 1 else ""
    pattern = f"{os.path.dirname(drop_in)}/*.toml"
    files, later = _read_order(setup.config, main, drop_in, pattern)
    last, whole = _sections(files + later, plugin)
    in_force = value_at(asked, ("plugins", of_source))
    if not value_at(in_force, _RUNTIMES):
        in_force = whole
    default, runtimes = value_at(in_force, _DEFAULT), value_at(in_force, _RUNTIMES)
    entry = options(setup, default, runtimes, log) or dict(_BUILT_IN)
    if drop_in:
        repeated = {plugin: merged({}, last)} if version == 2 and last else {}
        target: Any = {"version": version, "plugins": repeated}
        _warn_of_later(setup, later, plugin, log)
    else:
        target = main
        target["version"] = version
    cri = table_at(target, ("plugins", plugin), setup.config)
    _set_default(setup, cri, whole)
    if version < 3:
        _keep_the_default(cri, setup.config)
    _add(setup, cri, entry, is_version_1=version == 1)
    if setup.cdi:
        cri["enable_cdi"] = True
    if not drop_in:
        return (Written(setup.config, tomlkit.dumps(target), ""),)
    _import(main, version, pattern, setup.config)
    return (
        Written(drop_in, tomlkit.dumps(target), "Drop-in config:"),
        Written(setup.config, tomlkit.dumps(main), "Top-level config:"),
    )


def _version(document: Any, path: str) -> int:
    """Return the version of a file's format: 1 if it has none, 2 for a new one."""
    version = document.get("version", 1 if len(document) else 2)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ConfigError(
            f"{path}: version {version} is no version of containerd's files", status=1
        )
    return max(1, int(version))


def _plugin(version: int) -> str:
    return _PLUGINS.get(version, _LATER)


def _read_order(
    path: str, main: Any, drop_in: str, pattern: str
) -> tuple[_ParsedFiles, _ParsedFiles]:
    """Return the files that containerd reads before the drop-in, and after it. Raises ConfigError.

    A file that is imported by an imported one comes after all of the importing one's neighbours.
    The drop-in may not be there yet, nor the line that imports it.
    """
    before: _ParsedFiles = []
    after: _ParsedFiles = []
    files, queue, seen = before, [path], set()
    while queue:
        path = queue.pop(0)
        if path in seen:
            continue
        seen.add(path)
        if path == drop_in:
            files = after
            continue
        document = read_toml(path).unwrap() if len(seen) > 1 else main.unwrap()
        files.append((path, document))
        own = [pattern] if drop_in and len(seen) == 1 else []
        for one in _imports(document, path) + own:
            one = os.path.join(os.path.dirname(path), os.path.normpath(one))
            paths = {*glob.glob(one)} if "*" in one else {one}
            queue += sorted(paths | ({drop_in} if one == pattern else set()))
    return before, after


def _imports(document: Any, path: str) -> list[str]:
    imports = document.get("imports", [])
    if not isinstance(imports, list) or not all(isinstance(one, str) for one in imports):
        raise ConfigError(f"{path}: imports: expected a list of paths", status=1)
    return list(imports)


def _sections(files: _ParsedFiles, plugin: str) -> tuple[TomlTable, TomlTable]:
    """Return the plugin's section of the last file that has it, and those of all files merged."""
    last: TomlTable = {}
    whole: TomlTable = {}
    for path, document in files:
        section = value_at(document, ("plugins", plugin))
        if section is None:
            continue
        if not isinstance(section, dict):
            raise ConfigError(f"{path}: plugins.{plugin}: expected a table", status=1)
        last, whole = section, merged(whole, section)
    return last, whole


def _warn_of_later(setup: EngineSetup, later: _ParsedFiles, plugin: str, log: ToolkitLog) -> None:
    """Warn of the files that containerd before 2.0 reads in place of the drop-in."""
    for path, document in later:
        if value_at(document, ("plugins", plugin)) is not None:
            log.warning(
                f"{path} is read after {setup.drop_in}: containerd before 2.0 takes"
                f" plugins.{plugin} from it alone. Import it earlier, or give the drop-in a later"
                " name (--drop-in-config)"
            )


def _add(setup: EngineSetup, cri: Any, entry: TomlTable, *, is_version_1: bool) -> None:
    """Put the runtime's entry into the CRI plugin's section, in place of an earlier one."""
    entry["runtime_type"] = entry.get("runtime_type") or _TYPE
    binary = entry.get("options")
    entry["options"] = dict(binary) if isinstance(binary, dict) else {}
    entry["options"]["BinaryName"] = setup.path
    if is_version_1:
        entry["options"]["Runtime"] = setup.path
    table_at(cri, _RUNTIMES, setup.config)[setup.name] = entry


def _set_default(setup: EngineSetup, cri: Any, whole: TomlTable) -> None:
    """Make the runtime the default one, or see that it is not.

    To leave the key out does not do where the main file has it and sections are merged.
    """
    above, key = _DEFAULT
    table = table_at(cri, (above,), setup.config)
    if setup.default:
        table[key] = setup.name
    elif setup.name in (table.get(key), value_at(whole, _DEFAULT)):
        table[key] = other_default(setup, value_at(whole, _RUNTIMES)) or "runc"


def _keep_the_default(cri: Any, path: str) -> None:
    """Add runc where it is the default runtime and not in the table.

    containerd before 2.0 has a runc of its own, but only if a file has no table of runtimes; a
    default runtime that is not in the table stops the CRI plugin.
    """
    runtimes = table_at(cri, _RUNTIMES, path)
    if value_at(cri, _DEFAULT) in (None, "", "runc") and "runc" not in runtimes:
        runtimes["runc"] = {"runtime_type": _TYPE}


def _import(main: tomlkit.TOMLDocument, version: int, pattern: str, path: str) -> None:
    """Make containerd's main file import the drop-in's folder. Raises ConfigError."""
    imports = _imports(main, path)
    if pattern in imports:
        return
    if not len(main):
        main["version"] = version
    main["imports"] = [*imports, pattern]
