"""How a CDI spec is to be made: names, hooks, their program; devices and edits → one spec."""

from __future__ import annotations

import os
import sys

from minirun.core.keeping.record import Record
from minirun.gpu.cdi.check import least_version
from minirun.gpu.cdi.container_edits import dump
from minirun.gpu.cdi.inject import join
from minirun.gpu.cdi.registry import SIMULATED
from minirun.gpu.edits import CdiHook, Edits
from minirun.gpu.nvidia.shared import lookup
from minirun.gpu.steps import BindMount, DeviceNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "nvidia.com/gpu"
HOOK = "nvidia-cdi-hook"
STRATEGIES = ("index", "uuid", "type-index")
HOOKS = (
    "create-symlinks", "chmod", "enable-cuda-compat", "update-ldcache",
    "disable-device-node-modification", "update-application-profile",
)  # fmt: skip
OFF = ("chmod",)
"""Hooks that are only made where they are asked for."""
NO_GIDS = "no-additional-gids-for-device-nodes"
"""The feature flag that takes CdiRecipe.gids away."""
DEBUG = ("NVIDIA_CTK_DEBUG=false",)
"""The hooks' environment. With none at all, runc would give them the image's (CVE-2025-23266)."""


class HookProgram(Record):
    """The program of the hooks: its path, argv up to the name of a hook, environment."""

    path: str
    argv: tuple[str, ...]
    env: tuple[str, ...] = DEBUG


def own_program() -> HookProgram:
    """Return minirun's own nvidia-cdi-hook, for hooks: this program, as it runs now.

    A link to it (nvidia-ctk → minirun) counts as what it leads to. Started as `python -m minirun`
    it has no path of its own; then it is the interpreter's.
    """
    path = lookup.this_program()
    if os.path.basename(path) == "minirun":
        return HookProgram(path, (path, HOOK))
    python = sys.executable
    return HookProgram(python, (python, "-I", "-m", "minirun", HOOK))


class CdiRecipe(Record):
    """How a spec is to be made; the defaults are nvidia-ctk's."""

    program: HookProgram
    kind: str = KIND
    names: tuple[str, ...] = ("index", "uuid")
    """Out of STRATEGIES: each device appears once for each."""
    devices: tuple[str, ...] = ("all",)
    every: bool = True
    """Whether there is a device `all`."""
    without: tuple[str, ...] = OFF
    """Names of hooks that are left out; `all` for every one."""
    ldconfig: str = ""
    """The host's ldconfig, where the hook shall not choose."""
    gids: bool = True
    """Whether the groups of nodes that not everybody may use are given too."""

    def hook(self, name: str, *words: str) -> tuple[CdiHook, ...]:
        """Return a createContainer hook; none if it is left out."""
        if name in self.without or "all" in self.without:
            return ()
        args = (*self.program.argv, name, *words)
        return (CdiHook("createContainer", self.program.path, args, self.program.env),)

    def links(self, links: list[str]) -> tuple[CdiHook, ...]:
        """Return the hook that makes links, each as `target::link`; none if there are none."""
        return self.hook("create-symlinks", *options("--link", links)) if links else ()


def options(name: str, values: list[str]) -> list[str]:
    """Return `name` before each of `values`."""
    return [word for value in values for word in (name, value)]


def document(
    named: dict[str, Edits], rest: Edits, recipe: CdiRecipe, *, simulated: bool = False
) -> dict[str, Any]:
    """Return a spec of these devices (name → edits), sorted by name, with `all` among them."""
    if not recipe.gids:
        named = {name: edits._replace(groups=()) for name, edits in named.items()}
        rest = rest._replace(groups=())
    if recipe.every and named and "all" not in named:
        named = named | {"all": merged(list(named.values()))}
    rows = [{"name": name, "containerEdits": dump(named[name])} for name in sorted(named)]
    made: dict[str, Any] = {"cdiVersion": "", "kind": recipe.kind, "devices": rows}
    if common := dump(rest._replace(env=(*rest.env, SIMULATED)) if simulated else rest):
        made["containerEdits"] = common
    return made | {"cdiVersion": least_version(made)}


def merged(parts: list[Edits]) -> Edits:
    """Return one Edits of all of these, each row once, nodes sorted."""
    found = join(parts)
    return in_order(
        found._replace(
            steps=tuple(dict.fromkeys(found.steps)), env=tuple(dict.fromkeys(found.env)),
            hooks=tuple(dict.fromkeys(found.hooks)), groups=tuple(dict.fromkeys(found.groups)),
        )
    )  # fmt: skip


def in_order(edits: Edits) -> Edits:
    """Sort nodes and mounts, by depth and then by path."""
    return edits._replace(steps=(*_sorted(edits.device_nodes), *_sorted(edits.mounts)))


def _sorted(
    rows: tuple[DeviceNode, ...] | tuple[BindMount, ...],
) -> list[DeviceNode | BindMount]:
    return sorted(rows, key=lambda row: (row.path.count("/"), row.path))
