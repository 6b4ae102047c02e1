"""Calls into rootfs-tools, which makes images. Its modules are imported at the first call.

Beside the table of commands (minirun.cli) these calls are all. Of what the workshop leaves behind
minirun reads the store's record: minirun.image.store.
"""

from __future__ import annotations

from minirun.core.errors import MinirunError
from minirun.core.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CALLS = {
    "missing": "rootfs_tools.cli.pull.for_run",
    "find": "rootfs_tools.cli.pull.find",
    "has_recipe": "rootfs_tools.recipe.has_recipe",
    "df": "rootfs_tools.cli.system.main_df",
    "collect": "rootfs_tools.cli.system.collect",
    "remove_unused": "rootfs_tools.cli.images.remove_unused",
    "sweep": "rootfs_tools.gc.sweep",
    "origins": "rootfs_tools.history.origins",
    "inspected": "rootfs_tools.cli.image_inspect.inspected",
    "changes": "rootfs_tools.cli.image_inspect.changes",
}
"""Name → function.

missing: the image of a run, which is pulled or made, and the log of that. find: the image alone,
outside of a run. has_recipe: an image of that name can be made here. df: what takes room on the
disk. collect: what no image and no container needs goes; its paths and its bytes.
remove_unused: images that no container was made of go; their names.
sweep: what makers of images left that were killed. origins: what made each layer of a container.
inspected: an image as docker's `inspect` describes it. changes: a container's files beside its
image's.
"""


def missing(error: ModuleNotFoundError) -> MinirunError | None:
    """Return what to tell the user if an import failed because there is no workshop; None if it
    failed for another reason."""
    if (error.name or "").partition(".")[0] != "rootfs_tools":
        return None
    hint = "pip install . in the clone, or PYTHONPATH=rootfs-tools"
    return MinirunError("what handles images is not installed", hint)


def call(name: str) -> Any:
    """Return the function of that name in CALLS. Raises ModuleNotFoundError: see missing()."""
    module, _, function = CALLS[name].rpartition(".")
    return getattr(lazy.load(module), function)
