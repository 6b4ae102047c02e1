"""config.json of a bundle that an image was unpacked into: image-spec conversion.md.

What `run` would give a container of the image stands in it: docker's capabilities, masked paths
and profile of system calls. Environment, command, directory and user are the image's; the user is
looked up in the image's own files. Labels, and what has no place in config.json, are annotations.
"""

from __future__ import annotations

import os

from minirun.core.rootfs.inroot import Root
from minirun.oci import run_config, user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PREFIX = "org.opencontainers.image"
_SHELL = ("sh",)
_VOLUME = ["rw", "nosuid", "nodev", "noexec", "relatime"]


def document(name: str, image: Mapping[str, Any], rootfs: str) -> dict[str, Any]:
    """Return config.json for an image's configuration, a checked one, and its root filesystem.

    `name` becomes the host name. Raises MinirunError if the user is unknown, OSError.
    """
    config = image.get("config") or {}
    root = Root.at(rootfs)
    try:
        found = user.resolve_user(root, config.get("User") or "")
    finally:
        root.close()
    args = (*_words(config, "Entrypoint"), *_words(config, "Cmd")) or _SHELL
    options = run_config.RunOptions(
        args, env=tuple(config.get("Env") or ()), cwd=absolute(config.get("WorkingDir") or "/"),
        user=(found.uid, found.gid, tuple(found.groups)),
        annotations=tuple(image_annotations(image).items()),
    )  # fmt: skip
    made = run_config.config(name, options)
    process = made["process"]
    process["env"] = list({text.partition("=")[0]: text for text in process["env"]}.values())
    for volume in sorted(config.get("Volumes") or ()):
        path = absolute(volume)
        if path != "/":
            row = {"destination": path, "type": "tmpfs", "source": "none", "options": _VOLUME}
            made["mounts"].append(row)
    return made


def image_annotations(image: Mapping[str, Any]) -> dict[str, str]:
    """Return conversion.md's annotations; labels of the same name count more."""
    config = image.get("config") or {}
    texts = {
        "os": image.get("os"), "architecture": image.get("architecture"),
        "variant": image.get("variant"), "author": image.get("author"),
        "created": image.get("created"), "stopSignal": config.get("StopSignal"),
        "exposedPorts": ",".join(sorted(map(str, config.get("ExposedPorts") or ()))),
    }  # fmt: skip
    found = {f"{_PREFIX}.{key}": text for key, text in texts.items() if isinstance(text, str)}
    found = {key: text for key, text in found.items() if text}
    return found | (config.get("Labels") or {})


def _words(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A command; docker's oldest images have one text for it."""
    found = config.get(key) or ()
    return (found,) if isinstance(found, str) else tuple(found)


def absolute(path: str) -> str:
    """Return a path below the container's root, without "..", as a shell would clean it."""
    return "/" + os.path.normpath(f"/{path}").lstrip("/")
