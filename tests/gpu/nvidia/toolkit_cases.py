"""The golden cases of NVIDIA's toolkit, and the tables in which they are short."""

from __future__ import annotations

import os
from typing import Any

_LDCONFIG = "--ldconfig=@/sbin/ldconfig"


def of_this_host(arguments: list[str] | None) -> list[str] | None:
    """A case's arguments on a host such as Ubuntu: /sbin/ldconfig is a script there, and NVIDIA's
    toolkit names the program beside it.
    """
    if arguments is None or not os.path.exists("/sbin/ldconfig.real"):
        return arguments
    return [f"{word}.real" if word == _LDCONFIG else word for word in arguments]


def toml(case: dict[str, Any]) -> str:
    """The config.toml of a hook's case, in which `cli.` and `rt.` stand for two tables."""
    text: str = case.get("config", "")
    for short, name in (("cli.", "nvidia-container-cli."), ("rt.", "nvidia-container-runtime.")):
        text = "\n".join(
            name + line.removeprefix(short) if line.startswith(short) else line
            for line in text.splitlines()
        )
    return f"{text}\n"


def document(env: dict[str, str], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """The config.json that the golden cases began with."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["sh"],
            "env": ["PATH=/usr/bin", *(f"{name}={value}" for name, value in env.items())],
            "cwd": "/",
            "capabilities": {"bounding": ["CAP_CHOWN"]},
        },
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "namespaces": [{"type": "mount"}, {"type": "pid"}],
        },
        "annotations": annotations or {},
    }
