"""Namespaces that config.json names by path: not the container's own, they are joined again.

CRIU keeps network and pid namespaces out of its files when they are named as external, and takes a
descriptor of them at restore; IPC and UTS namespaces it joins by path. The names are runc's
(extRootNetNS). In a pid namespace that goes on, the numbers of the restored must be free there.
"""

from __future__ import annotations

import os

from minirun.core.config import Config
from minirun.core.errors import ConfigError, reason
from minirun.toolkit.criu.program import FIRST_FD

_NAMES = {"network": ("net", "extRootNetNS"), "pid": ("pid", "extRootPidNS")}
_FIRST = FIRST_FD + 3  # after the three streams


def dump_options(config: Config) -> list[str]:
    """Return the arguments of `criu dump` for them. Raises ConfigError if one is not there."""
    words = []
    for kind, path in config.namespaces.items():
        if path and kind in _NAMES:
            short, name = _NAMES[kind]
            words += ["--external", f"{short}[{_inode(kind, path)}]:{name}"]
    return words


def _inode(kind: str, path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError as error:
        raise _missing(kind, path, error) from None


def inherit(config: Config) -> tuple[list[str], dict[int, int]]:
    """Return `criu restore`'s arguments for them, and its number → our descriptor of each.

    Raises ConfigError.
    """
    words: list[str] = []
    fds: dict[int, int] = {}
    for kind, path in config.namespaces.items():
        if not path:
            continue
        if kind in _NAMES:
            number = _FIRST + len(fds)
            try:
                fds[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise _missing(kind, path, error) from None
            words += ["--inherit-fd", f"fd[{number}]:{_NAMES[kind][1]}"]
        else:
            words += ["--join-ns", f"{kind}:{path}"]  # ipc, uts: others are refused before
    return words, fds


def _missing(kind: str, path: str, error: OSError) -> ConfigError:
    text = reason(error)
    return ConfigError(f"config.json: linux.namespaces: {kind}: {path}: {text}")
