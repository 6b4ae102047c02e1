"""The container's root filesystem: a plan of what is going to be done to it, as operations.

Each operation can say what it will do (``describe()``) and do it (``execute(root)``). A dry run, a
lesson and the real thing are the same tuple; it exists as a whole before its first step is done.
Destinations are always resolved inside the root, then used as descriptors: see rootfs.inroot.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from minirun.core.rootfs.inroot import Root

    class Operation(Protocol):
        """What a plan consists of: rootfs.operations has most of them."""

        def describe(self) -> str:
            """Return it as a shell would say it."""

        def execute(self, root: Root) -> None:
            """Do it. Raises OSError."""

    Plan = tuple[Operation, ...]


def execute(plan: Plan, root: Root) -> None:
    """Execute a plan, in order. Raises MinirunError, OSError."""
    for operation in plan:
        operation.execute(root)
