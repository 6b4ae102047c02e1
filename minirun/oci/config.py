"""config.json: what the stages read, and the only thing they read.

A thin view on the parsed document, so that properties this version does not know are kept and
passed on. Source: the OCI runtime-spec, config.md and config-linux.md.
"""

from minirun import jsonlite
from minirun.errors import ConfigError
from minirun.oci import state, validate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANNOTATION = "io.minirun."
LAYERS = ANNOTATION + "layers"
"""Layers of an image, lowest first, separated by colons; then root.path is an overlay of them."""
VOLATILE = ANNOTATION + "volatile"
"""true: what the container writes need not outlive it (--rm), so overlayfs never syncs the disk."""
GPU_DRIVER = ANNOTATION + "gpu-driver"
"""Which GPU driver the in-line step takes: nvidia or simulated."""
GPU_MODE = ANNOTATION + "gpu-mode"
"""hook: NVIDIA's hook is executed as any other, and not taken in-line."""
GPU_HOOK = "nvidia-container-runtime-hook"


class Config:
    """A validated config.json and the directory (bundle) that it lies in."""

    def __init__(self, raw: "dict[str, Any]", bundle: str) -> None:
        self.raw = raw
        self.bundle = bundle
        self.linux: dict[str, Any] = raw.get("linux") or {}
        self.process: dict[str, Any] = raw.get("process") or {}
        self.annotations: dict[str, str] = raw.get("annotations") or {}

    @property
    def rootfs(self) -> str:
        """The absolute path of the root filesystem on the host."""
        path: str = self.raw["root"]["path"]
        return path if path.startswith("/") else f"{self.bundle}/{path}"

    @property
    def readonly(self) -> bool:
        """Whether the root filesystem is mounted read-only."""
        return bool(self.raw["root"].get("readonly"))

    @property
    def terminal(self) -> bool:
        """Whether the process gets a pseudo-terminal."""
        return bool(self.process.get("terminal"))

    @property
    def layers(self) -> "list[str]":
        """Directories of the image's layers, lowest first; empty where root.path is used as is."""
        text = self.annotations.get(LAYERS, "")
        return text.split(":") if text else []

    @property
    def volatile(self) -> bool:
        """Whether the container's own layer is thrown away at its end."""
        return self.annotations.get(VOLATILE) == "true"

    @property
    def namespaces(self) -> "dict[str, str]":
        """Kind of namespace → path of an existing one to join, or "" for a new one."""
        return {ns["type"]: ns.get("path", "") for ns in self.linux.get("namespaces") or []}

    @property
    def environment(self) -> "dict[str, str]":
        """process.env as a dictionary; of a name that stands twice, the last one counts."""
        pairs = (entry.partition("=") for entry in self.process.get("env") or [])
        return {name: value for name, _, value in pairs if name}

    @property
    def cgroups_path(self) -> str:
        """linux.cgroupsPath; empty where the runtime chooses."""
        return self.linux.get("cgroupsPath") or ""

    def new_namespace(self, kind: str) -> bool:
        """Whether a namespace of this kind is made for the container."""
        return self.namespaces.get(kind) == ""

    def hooks(self, kind: str) -> "list[dict[str, Any]]":
        """The hooks of one kind (prestart, createRuntime, …), in order."""
        return (self.raw.get("hooks") or {}).get(kind) or []

    def in_line(self, hook: "dict[str, Any]") -> bool:
        """Whether a prestart hook is NVIDIA's, and minirun itself does its work (Figure 2)."""
        return is_gpu_hook(hook) and self.annotations.get(GPU_MODE) != "hook"


def load(bundle: str) -> Config:
    """Read and check `bundle`/config.json. Raises ConfigError."""
    path = f"{bundle}/config.json"
    try:
        raw = jsonlite.loads(state.read_text(path))
    except FileNotFoundError:
        hint = "a bundle is a directory with a config.json; minirun spec makes one"
        raise ConfigError(f"{path}: no such file", hint, status=1) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}", status=1) from None
    return Config(validate.check(raw), bundle)


def is_gpu_hook(hook: "dict[str, Any]") -> bool:
    """Whether a prestart hook is NVIDIA's."""
    path: str = hook["path"]
    return path.rpartition("/")[2] == GPU_HOOK
