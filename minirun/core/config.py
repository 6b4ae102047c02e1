"""config.json, as the stages read it, and what minirun's caller chose (Choices).

A thin view on the parsed document, so that properties this version does not know are kept and
passed on. Source: the OCI runtime-spec, config.md and config-linux.md.
"""

from __future__ import annotations

from minirun.core.keeping.choices import DEFAULTS, Choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ANNOTATION = "io.minirun."
LOG = ANNOTATION + "log"
"""stages or syscalls: what its log holds (core.container). minirun obeys no other annotation."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for if no PATH says it, here and in a container: docker's."""
GPU_HOOK = "nvidia-container-runtime-hook"
GPU_HOOK_ROW = {"path": f"/usr/bin/{GPU_HOOK}", "args": [GPU_HOOK, "prestart"]}
"""The hook that asks for GPUs. minirun itself does its work, so no program has to be there."""


def environment_of(entries: Iterable[str] | None) -> dict[str, str]:
    """Return the variables of a list of "NAME=VALUE", as config.json, images and hooks have it.

    If a name stands twice the last value counts, as in runc (and in Go's os/exec, and in NVIDIA's
    hook). execve(2) itself would pass both on, and getenv(3) finds the first: so it is this
    dictionary that minirun hands to execve. An entry without "=", or without a name before it, is
    no variable: getenv(3) never finds it. runc refuses it; an image or an engine's bundle that has
    one runs here without it.
    """
    pairs = (entry.partition("=") for entry in entries or ())
    return {name: value for name, equals, value in pairs if name and equals}


class Config:
    """A validated config.json, its directory (the bundle), and what the caller chose beside it."""

    def __init__(self, raw: dict[str, Any], bundle: str, choices: Choices = DEFAULTS) -> None:
        self.raw = raw
        self.bundle = bundle
        self.choices = choices
        self.linux: dict[str, Any] = raw.get("linux") or {}
        self.process: dict[str, Any] = raw.get("process") or {}
        self.annotations: dict[str, str] = raw.get("annotations") or {}

    @property
    def rootfs(self) -> str:
        """The absolute path of the root filesystem on the host."""
        path: str = self.raw["root"]["path"]
        return path if path.startswith("/") else f"{self.bundle}/{path}"

    @property
    def terminal(self) -> bool:
        """Return True if the process gets a pseudo-terminal."""
        return bool(self.process.get("terminal"))

    @property
    def layers(self) -> list[str]:
        """Directories of the image's layers, lowest first; empty if root.path is used as is."""
        return list(self.choices.layers)

    @property
    def namespaces(self) -> dict[str, str]:
        """Kind of namespace → path of an existing one to join, or "" for a new one."""
        return {ns["type"]: ns.get("path", "") for ns in self.linux.get("namespaces") or []}

    @property
    def environment(self) -> dict[str, str]:
        """The container's variables: see :func:`environment_of`."""
        return environment_of(self.process.get("env"))

    def with_variables(self, entries: list[str]) -> Config:
        """Return a copy whose process has the variables `entries`; this one stays as it is."""
        process = {**self.process, "env": entries}
        return Config({**self.raw, "process": process}, self.bundle, self.choices)

    @property
    def cgroups_path(self) -> str:
        """linux.cgroupsPath; empty if the runtime chooses."""
        return self.linux.get("cgroupsPath") or ""

    def new_namespace(self, kind: str) -> bool:
        """Return True if a namespace of this kind is made for the container."""
        return self.namespaces.get(kind) == ""

    @property
    def resources(self) -> dict[str, Any]:
        """linux.resources."""
        found: dict[str, Any] = self.linux.get("resources") or {}
        return found

    def hooks(self, kind: str) -> list[dict[str, Any]]:
        """The hooks of one kind (prestart, createRuntime, …), in order."""
        return (self.raw.get("hooks") or {}).get(kind) or []

    def hooks_of_stage_3(self) -> list[tuple[str, int, dict[str, Any]]]:
        """Return the hooks that run before pivot_root: (kind, its number among them, hook).

        The specification replaced prestart by createRuntime; podman 5 writes that for both.
        """
        kinds = ("prestart", "createRuntime")
        return [(kind, n, hook) for kind in kinds for n, hook in enumerate(self.hooks(kind))]

    def in_line(self, hook: dict[str, Any]) -> bool:
        """Return True if a hook of stage 3 is NVIDIA's, and minirun itself does its work."""
        path: str = hook["path"]
        return path.rpartition("/")[2] == GPU_HOOK and not self.choices.gpu_hook
