"""What an image declares that `run` has to act on: volumes, and the signal that `stop` sends.

A declared volume becomes docker's anonymous volume: a directory of the container's own, kept apart
from what the container writes elsewhere, and removed with it. In stage 1 it gets what the image
has there (minirun.core.rootfs.mount_entry). -v with the same destination takes its place.
"""

from __future__ import annotations

from minirun.cli.docker.run_options import ConfigFlags
from minirun.cli.runc.control import signal_number
from minirun.core.errors import UsageError
from minirun.core.keeping import places
from minirun.core.rootfs.mount_options import COPY_UP
from minirun.oci.bundle import absolute
from minirun.oci.run_config import RunOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VOLUME_LIMIT = 100
"""So many volumes one image may declare."""


def add(run: RunOptions, flags: ConfigFlags) -> RunOptions:
    """Return the options with the image's volumes and the stop signal. Raises UsageError."""
    found = dict(run.declared)
    if signal := flags.stop_signal or found.get("stop_signal"):
        try:
            signal_number(signal)
        except UsageError:
            source = "a signal" if flags.stop_signal else "the image's own; --stop-signal TERM"
            raise UsageError(
                f"invalid stop signal {signal[:40]!r}", f"{source}, as TERM or 15"
            ) from None
        found["stop_signal"] = signal
    given = {absolute(path) for _, path, _ in run.mounts}
    volumes = sorted({absolute(path) for path in found.get("volumes", ())} - given)
    if "/" in volumes:
        raise UsageError("invalid volume '/': the image declares one in place of all its files")
    if len(volumes) > VOLUME_LIMIT:
        raise UsageError(f"the image declares {len(volumes)} volumes", f"{VOLUME_LIMIT} at most")
    rows = [(f"{places.VOLUMES}/{n}", path, (COPY_UP,)) for n, path in enumerate(volumes)]
    return run._replace(declared=found, mounts=(*rows, *run.mounts))


def for_bundle(document: dict[str, Any]) -> None:
    """Make volumes of a config.json that no `run` will fill into file systems in memory."""
    for row in document["mounts"]:
        if row["source"].startswith(f"{places.VOLUMES}/"):
            options = ["rw", "nosuid", "nodev", COPY_UP]
            row.update({"type": "tmpfs", "source": "tmpfs", "options": options})
