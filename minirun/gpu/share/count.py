"""`--gpus count=N`: which GPUs, so that containers share as little as can be."""

import os

from minirun.core import state
from minirun.core.errors import GPUError
from minirun.core.record import Record
from minirun.gpu.share import HINT, Holder, Locked, overlap, read


class GpuCount(Record):
    """`--gpus count=N`: N of these GPUs, whichever they are."""

    candidates: "tuple[str, ...]"
    amount: int
    exclusive: bool
    driver: str


def pick(root: str, count: GpuCount, container_id: str = "") -> "list[str]":
    """Choose GPUs: those that the fewest containers have, then those with the least index.

    With the id of a container that is about to be made, they are reserved for it, so that of two
    runs at the same moment each gets its own. Raises GPUError where there are too few.
    """
    if not container_id:
        return _least_shared(count, [r for r in read(root) if r.counts(root)])
    maker = state.identity(os.getpid())
    with Locked(root) as table:
        held = [row for row in table.rows if row.counts(root)]
        chosen = _least_shared(count, held)
        for gpu in chosen:
            held.append(Holder(gpu, count.driver, container_id, "", count.exclusive, maker=maker))
        table.write(held)
    return chosen


def _least_shared(count: GpuCount, rows: "list[Holder]") -> "list[str]":
    """Return the GPUs to take, in their order."""
    users = {
        gpu: [row for row in rows if row.driver == count.driver and overlap(gpu, row.gpu)]
        for gpu in count.candidates
    }
    barred = [
        gpu
        for gpu, held in users.items()
        if (held and count.exclusive) or any(row.exclusive for row in held)
    ]
    fit = [gpu for gpu in count.candidates if gpu not in barred]
    if len(fit) < count.amount:
        word = ",exclusive" if count.exclusive else ""
        text = f"--gpus count={count.amount}{word}: {len(fit)} of {len(users)} can be given"
        whose = ", ".join(f"container {users[gpu][0].container!r} has {gpu}" for gpu in barred)
        raise GPUError(text, f"{whose}; {HINT}")
    fit.sort(key=lambda gpu: len({row.container for row in users[gpu]}))
    return [gpu for gpu in count.candidates if gpu in fit[: count.amount]]
