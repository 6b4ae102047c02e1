"""Who asked for a container: what config.json and its bundle's path tell of the engine above.

No part of the runtime-spec: each engine leaves annotations, or a way to place bundles, of its own.

    podman, CRI-O      io.container.manager
    containerd's CRI   io.kubernetes.cri.*
    containerd         …/io.containerd.runtime.v2.task/NAMESPACE/ID; dockerd's namespace is moby
    buildah            the id is buildah-buildahN, as the bundle's directory is
    Slurm              the job's variables

podman and docker keep the names that they show to themselves: config.json has none of them.
"""

from __future__ import annotations

import os

from minirun.core.config import Config

PLAIN = "plain"
"""A bundle that none of them has made."""
_MANAGERS = {"libpod": "podman"}
_TASKS = "/io.containerd.runtime.v2.task/"
_CRI = "io.kubernetes.cri."
_CRIO = "io.kubernetes.cri-o."


def origin(config: Config, container_id: str) -> dict[str, str]:
    """Return `engine`, and if they are known `name` and `image`, of a bundle's container."""
    notes = config.annotations
    found = {"engine": _engine(config, container_id)}
    words = (notes.get(f"{_CRI}sandbox-namespace"), notes.get(f"{_CRI}sandbox-name"),
             notes.get(f"{_CRI}container-name"))  # fmt: skip
    name = "/".join(word for word in words if word) or notes.get(f"{_CRIO}Name", "")
    if found["engine"] == "slurm":
        name = _variable(config, "SLURM_JOB_NAME")
    image = notes.get(f"{_CRI}image-name") or notes.get(f"{_CRIO}ImageName", "")
    return found | {key: text for key, text in (("name", name), ("image", image)) if text}


def _engine(config: Config, container_id: str) -> str:
    manager = config.annotations.get("io.container.manager", "")
    if manager:
        return _MANAGERS.get(manager, manager)
    if f"{_CRI}container-type" in config.annotations:
        return "containerd/cri"
    if _TASKS in config.bundle:
        space = config.bundle.partition(_TASKS)[2].partition("/")[0]
        return "docker" if space == "moby" else "containerd"
    last = config.bundle.rpartition("/")[2]
    if last.startswith("buildah") and container_id.startswith("buildah-"):
        return "buildah"
    return "slurm" if _variable(config, "SLURM_JOB_ID") else PLAIN


def _variable(config: Config, name: str) -> str:
    return config.environment.get(name) or os.environ.get(name, "")
