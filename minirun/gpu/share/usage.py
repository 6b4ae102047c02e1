"""Who uses which GPU: Figure 1, computed from what each running container was given.

A GPU that one container has is dedicated to it, one that several have is shared among them (their
processes take turns: time-slicing), and an exclusive one is dedicated and stays so. What counts is
what stage 5 wrote down (minirun.gpu.share), not what was asked for.
"""

from __future__ import annotations

from minirun.core.keeping.record import Record
from minirun.gpu.share import Holder

SHARED = "shared: their processes take turns (minirun gpu timeslice), but for clients of MPS"


class Use(Record):
    """A GPU, or a MIG device (`name` is then N:M), and the containers that have it."""

    name: str
    uuid: str
    model: str
    containers: tuple[str, ...]
    exclusive: bool = False

    @property
    def kind(self) -> str:
        """One of dedicated, shared, exclusive."""
        if self.exclusive:
            return "exclusive"
        return "shared" if len(self.containers) > 1 else "dedicated"


def who_uses(holders: list[Holder]) -> list[Use]:
    """Return a row for each GPU that a container has, by driver and index."""
    users: dict[tuple[str, str, str, str], list[Holder]] = {}
    for row in holders:
        users.setdefault((row.driver, row.gpu, row.uuid, row.model), []).append(row)
    return [
        Use(*key[1:], tuple(row.name for row in rows), any(row.exclusive for row in rows))
        for key, rows in sorted(users.items(), key=_order)
    ]


def _order(item: tuple[tuple[str, ...], object]) -> tuple[str, list[int]]:
    driver, name = item[0][:2]
    return driver, [int(part) for part in name.split(":")]
