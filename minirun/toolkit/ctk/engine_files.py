"""What containerd's and CRI-O's configuration have in common: TOML, and a runtime's options.

A new runtime copies the options of a runtime that the engine has: of the default one, of runc or
of crun, the first that is configured. NVIDIA's own are passed over, as an entry of an earlier
`configure` says nothing of the engine.
"""

from __future__ import annotations

import os
import subprocess

import tomlkit
from tomlkit.exceptions import TOMLKitError

from minirun.core.errors import ConfigError
from minirun.core.keeping.record import Record
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.ctk import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    TomlTable = dict[str, Any]


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
    commands: tuple[tuple[str, ...], ...] = ()
    """Commands that print the configuration in force; none if the engine's files are read."""


class Written(Record):
    """A file's new text, and the line that is logged before it where it is only printed."""

    path: str
    text: str
    title: str


def dumped(setup: EngineSetup) -> TomlTable | None:
    """Return what the engine itself says that it has; None if it is not asked.

    The first command that there is counts. Raises ConfigError.
    """
    failed = "there is no such program"
    for words in setup.commands:
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            return tomlkit.parse(done.stdout).unwrap()
        except FileNotFoundError:
            continue
        except (OSError, ValueError, subprocess.CalledProcessError, TOMLKitError) as error:
            failed = str(error)
    if not setup.commands:
        return None
    raise ConfigError(f"{' '.join(setup.commands[0])}: {failed}", "--config-source=file", 1)


def options(setup: EngineSetup, default: Any, runtimes: Any, log: ToolkitLog) -> TomlTable:
    """Return a copy of the options of the first of `default`, runc and crun that has any."""
    names = [default] if isinstance(default, str) and not is_own(setup, default) else []
    names += ["runc", "crun"]
    for name in names:
        found = value_at(runtimes, (name,))
        if isinstance(found, dict):
            log.debug(f"Using options from runtime {name}")
            return merged({}, found)
    log.warning(f"Could not infer options from runtimes [{' '.join(names)}]")
    return {}


def is_own(setup: EngineSetup, name: str) -> bool:
    """Return True if no engine has a runtime of this name unless `configure` added it."""
    return name in ("", setup.name) or name.startswith("nvidia")


def other_default(setup: EngineSetup, runtimes: Any) -> str:
    """Return the runtime that is the default one if `setup.name` is not; "" if none is known."""
    known = [name for name in runtimes if not is_own(setup, name)] if runtimes else []
    return next((name for name in ("runc", "crun", *known) if name in known), "")


def merged(below: TomlTable, above: TomlTable) -> TomlTable:
    """Return both tables as one, level by level; where both have a value, it is `above`'s."""
    result = dict(below)
    for key, value in above.items():
        if isinstance(value, dict):
            lower = result.get(key)
            value = merged(lower if isinstance(lower, dict) else {}, value)
        result[key] = value
    return result


def value_at(table: Any, keys: tuple[str, ...]) -> Any:
    """Return the value at `keys`; None if there is none."""
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def table_at(table: Any, keys: tuple[str, ...], path: str) -> Any:
    """Return the table at `keys`, made where it is missing. Raises ConfigError."""
    for at, key in enumerate(keys):
        if key not in table:
            table[key] = tomlkit.table()
        table = table[key]
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {'.'.join(keys[: at + 1])}: expected a table", status=1)
    return table


def read_toml(path: str) -> tomlkit.TOMLDocument:
    """Return a file's document, an empty one where it is missing. Raises ConfigError."""
    try:
        return tomlkit.parse(read(path))
    except TOMLKitError as error:
        raise ConfigError(f"{path}: {error}", status=1) from None


def read(path: str) -> str:
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
