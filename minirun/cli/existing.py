"""A container that exists, as the commands for it find it: its record, and its config.json."""

from minirun import choices, jsonlite
from minirun.container import Container
from minirun.oci import config as oci_config
from minirun.oci import state
from minirun.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(settings: Settings, container_id: str) -> Container:
    """Return an existing container. Raises StateError, ConfigError."""
    record = state.load(settings.root, container_id)
    chosen = choices.of_record(record)
    config = oci_config.Config(_saved_config(record), record["bundle"], chosen)
    return Container(settings._replace(cgroup_version=record["cgroup_version"]), config, record)


def _saved_config(record: "dict[str, Any]") -> "dict[str, Any]":
    """config.json as it was at create; later changes to the bundle have no effect (the spec)."""
    try:
        raw: dict[str, Any] = jsonlite.loads(state.read_text(f"{record['directory']}/config.json"))
    except (OSError, ValueError):
        raw = {"ociVersion": state.OCI_VERSION, "root": {"path": record["rootfs"]}}
    return raw
