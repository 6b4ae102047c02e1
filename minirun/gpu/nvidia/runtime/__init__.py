"""nvidia-container-runtime, and what NVIDIA's programs share: config.toml, logs, the host.

config      config.toml, which all of them read
log         the lines they log
lookup      where a program is
wrapper     nvidia-container-runtime: what `create` changes in config.json, and the hand-over
graphics    of that, mode legacy: files of Vulkan, EGL and X11, and /dev/dri
devices     of that, modes auto and cdi: which CDI devices are asked for
jit         of that, mode auto: edits made from the host on the spot
versions    what older versions of the real toolkit make of the same
host        the host, errors in the toolkit's words
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
