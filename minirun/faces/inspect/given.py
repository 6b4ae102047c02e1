"""What a container was given: the GPUs of stage 5, and the names of its devices."""

from typing import Any

from minirun.common import schema
from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.rootfs import nodes
from minirun.gpu.cdi import check, container_edits
from minirun.gpu.edits import Edits, GivenGpu

_SHAPE = {
    "gpus!": [{"index!": str, "minor!": int, "uuid!": str, "model!": str}],
    "driver!": str, "simulated!": bool, "env!": [str], "mounts!": check.EDITS["mounts"],
    "deviceNodes!": check.EDITS["deviceNodes"], "hooks": check.EDITS["hooks"], "cdi": [str],
    "links": [dict], "compatLibraries": [dict], "ldconfig": str, "libraryFolders": [str],
}  # fmt: skip
_CHECKER = schema.Checker(places.EDITS, {})


def edits_of(record: ContainerRecord) -> Edits:
    """Return what stage 5 put into a container, without links; empty without GPUs."""
    saved = saved_edits(record)
    rows, driver, simulated = saved.get("gpus", ()), saved.get("driver", ""), saved.get("simulated")
    gpus = tuple(GivenGpu(row["index"], row["minor"], row["uuid"], row["model"]) for row in rows)
    edits = container_edits.parse(saved)
    return edits._replace(
        gpus=gpus, driver=driver, simulated=bool(simulated),
        no_cgroups=bool(saved.get("noCgroups")),
    )  # fmt: skip


def saved_edits(record: ContainerRecord) -> dict[str, Any]:
    """Return edits.json as it stands in a container's directory; empty without GPUs.

    Raises StateError if it is damaged.
    """
    path = f"{record.directory}/{places.EDITS}"
    try:
        text = state.read_text(path)
        _CHECKER.check(schema.without_nulls(jsonlite.loads(text)), _SHAPE)
        edits: dict[str, Any] = jsonlite.loads(text)
    except OSError:
        return {}
    except ValueError as error:
        hint = f"minirun delete --force {state.name_of(record.directory)}"
        raise StateError(f"{path} is damaged: {error}", hint) from None
    return edits


def device_names(container: Container) -> dict[tuple[str, int, int], str]:
    """Return kind, major, minor → path, for every device that was put into the container."""
    names = {("c", major, minor): path for path, major, minor in nodes.DEVICES}
    for row in container.config.linux.get("devices") or []:
        names[(row["type"], row.get("major", 0), row.get("minor", 0))] = row["path"]
    for node in edits_of(container.record).device_nodes:
        names[(node.kind, node.major, node.minor)] = node.path
    return names
