"""nvidia-container-runtime-hook: from config.json to a command line for nvidia-container-cli.

environment     NVIDIA_VISIBLE_DEVICES and its relatives → NvidiaRequest
command_line    config.json + state → the argument list
program         the program of that name; installed: NVIDIA's own, for --gpu-mode hook

Here: where config.toml is, which all of NVIDIA's programs read.
"""

import os


def config_path() -> str:
    """Return the path of config.toml, whether or not it is there."""
    explicit = os.environ.get("NVIDIA_CTK_CONFIG_FILE_PATH")
    folder = os.environ.get("XDG_CONFIG_HOME") or "/etc"
    return explicit or f"{folder}/nvidia-container-runtime/config.toml"


def ldconfig_of(path: str) -> str:
    """Prefer the host's ldconfig.real: on Ubuntu, /sbin/ldconfig is a script around it."""
    if path.startswith("@"):
        plain = path[1:].removesuffix(".real")
        return f"@{plain}.real" if os.path.exists(f"{plain}.real") else f"@{plain}"
    return path
