"""`--gpus count=N`: which GPUs, so that containers share as little as can be."""

from __future__ import annotations

import os

from minirun.core import rings
from minirun.core.errors import GPUError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.gpu.asked.select import GpuSelector
from minirun.gpu.share import HINT, Holder, Locked, exclusive_elsewhere, overlap, read


def choose(
    selector: GpuSelector, there: list[str], driver: str, place: tuple[Settings, str], hint: str
) -> list[str]:
    """Choose of the GPUs that are `there`: those that the fewest containers have, then by index.

    `place` is the caller's settings and the id of the container that is about to be made. They are
    reserved for it, so that of two runs at the same moment each gets its own; "" reserves none.
    What containers of other roots have, and what no table has, counts too.
    Raises GPUError if there are too few, with `hint`.
    """
    if selector.amount > len(there):
        raise GPUError(f"--gpus count={selector.amount}: more than there are", hint)
    settings, container_id = place
    root = settings.root
    others: list[Holder] = rings.gpu_holders(settings)
    others += exclusive_elsewhere(settings)
    if not container_id:
        held = [*others, *(row for row in read(root) if row.counts(root))]
        return _least_shared(selector, there, driver, held)
    maker = state.identity(os.getpid())
    with Locked(root) as table:
        held = [row for row in table.rows if row.counts(root)]
        chosen = _least_shared(selector, there, driver, [*others, *held])
        for gpu in chosen:
            held.append(Holder(gpu, driver, container_id, "", selector.exclusive, maker=maker))
        table.write(held)
    return chosen


def _least_shared(
    selector: GpuSelector, there: list[str], driver: str, rows: list[Holder]
) -> list[str]:
    """Return the GPUs to take, in their order. Raises GPUError if too few can be given."""
    users = {
        gpu: [row for row in rows if row.driver == driver and overlap(gpu, row.gpu)]
        for gpu in there
    }
    barred = [
        gpu
        for gpu, held in users.items()
        if (held and selector.exclusive) or any(row.exclusive for row in held)
    ]
    fit = [gpu for gpu in there if gpu not in barred]
    if len(fit) < selector.amount:
        word = ",exclusive" if selector.exclusive else ""
        text = f"--gpus count={selector.amount}{word}: {len(fit)} of {len(users)} can be given"
        whose = ", ".join(f"container {users[gpu][0].name!r} has {gpu}" for gpu in barred)
        raise GPUError(text, f"{whose}; {HINT}")
    fit.sort(key=lambda gpu: len({row.container for row in users[gpu]}))
    return [gpu for gpu in there if gpu in fit[: selector.amount]]
