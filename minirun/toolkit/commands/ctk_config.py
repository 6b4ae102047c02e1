"""`minirun nvidia-ctk config`: print the toolkit's config.toml with other values, or write it."""

from __future__ import annotations

from minirun.cli.flags import flag
from minirun.cli.output import write
from minirun.core.keeping.settings import Settings
from minirun.gpu.nvidia.shared.environment import config_path
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.commands.ctk import CtkFlags
from minirun.toolkit.ctk import config_file, engine_files

_DEFAULT = ("default", "create-default", "generate-default")


class ConfigDefault(CtkFlags):
    """Print or write the default file."""

    command = "nvidia-ctk config default"
    output: str = flag("-o")


class ConfigSet(CtkFlags):
    """Print or write the file with other values."""

    command = "nvidia-ctk config"
    config_file: str = flag("--config", "-c")
    set: list[str]
    in_place: bool = flag("-i")
    output: str = flag("-o")


def main(words: list[str], log: ToolkitLog, settings: Settings) -> int:
    """Run the command. Raises MinirunError, OSError."""
    if words[:1] and words[0] in _DEFAULT:
        return _put(config_file.default(), ConfigDefault(words[1:]).output)
    flags = ConfigSet(words)
    path = flags.config_file or config_path()
    text = config_file.changed(path, flags.set)
    return _put(text, path if flags.in_place else flags.output)


def _put(text: str, path: str) -> int:
    """Write to a file, or to standard output. Raises OSError."""
    if path:
        engine_files.save(engine_files.Written(path, text, ""))
        return 0
    return write(text)
