"""How a CDI spec is to be made: under which names, with which hooks, called by which program."""

from minirun.core.record import Record
from minirun.gpu.cdi.container_edits import CdiHook

KIND = "nvidia.com/gpu"
STRATEGIES = ("index", "uuid", "type-index")
HOOKS = (
    "create-symlinks", "chmod", "enable-cuda-compat", "update-ldcache",
    "disable-device-node-modification", "update-application-profile",
)  # fmt: skip
OFF = ("chmod",)
"""Hooks that are only made where they are asked for."""
DEBUG = ("NVIDIA_CTK_DEBUG=false",)
"""The hooks' environment. With none at all, runc would give them the image's (CVE-2025-23266)."""


class HookProgram(Record):
    """The program of the hooks: its path, argv up to the name of a hook, environment."""

    path: str
    argv: "tuple[str, ...]"
    env: "tuple[str, ...]" = DEBUG


class Recipe(Record):
    """How a spec is to be made; the defaults are nvidia-ctk's."""

    program: HookProgram
    kind: str = KIND
    names: "tuple[str, ...]" = ("index", "uuid")
    """Out of STRATEGIES: each device appears once for each."""
    devices: "tuple[str, ...]" = ("all",)
    every: bool = True
    """Whether there is a device `all`."""
    without: "tuple[str, ...]" = OFF
    """Names of hooks that are left out; `all` for every one."""
    ldconfig: str = ""
    """The host's ldconfig, where the hook shall not choose."""
    gids: bool = True
    """Whether the groups of nodes that not everybody may use are given too."""

    def hook(self, name: str, *words: str) -> "tuple[CdiHook, ...]":
        """Return a createContainer hook; none if it is left out."""
        if name in self.without or "all" in self.without:
            return ()
        args = (*self.program.argv, name, *words)
        return (CdiHook("createContainer", self.program.path, args, self.program.env),)

    def links(self, links: "list[str]") -> "tuple[CdiHook, ...]":
        """Return the hook that makes links, each as `target::link`; none if there are none."""
        return self.hook("create-symlinks", *options("--link", links)) if links else ()


def options(name: str, values: "list[str]") -> "list[str]":
    """Return `name` before each of `values`."""
    return [word for value in values for word in (name, value)]
