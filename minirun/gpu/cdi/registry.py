"""The CDI specs of this host: the files of /etc/cdi and /var/run/cdi, and the devices in them.

A later folder wins over an earlier one (pkg/cdi, cache.go): what an administrator writes to
/etc/cdi is overruled by what a driver generates at boot in /var/run/cdi. The same device twice in
one folder is a conflict: neither counts. A broken file makes only itself unusable.
"""

from __future__ import annotations

import os

from minirun.common.schema import SchemaError
from minirun.core.errors import GPUError, reason
from minirun.core.keeping import jsonlite
from minirun.core.keeping.record import Record
from minirun.core.keeping.state import read_bytes
from minirun.core.lazy import lazy
from minirun.gpu import driverroot
from minirun.gpu.cdi import container_edits
from minirun.gpu.cdi.check import check
from minirun.gpu.edits import Edits

with lazy:
    import yaml  # the only module here that costs something, for the only files that need it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Lowest priority first: SPEC.md, "Discovery"."""
SIMULATED = "MINIRUN_GPUS=SIMULATED"
"""In the environment that a spec made from the simulated driver gives: annotations need 0.6.0."""
_LISTED = 5


class CdiSpec(Record):
    """A spec that is as it should be: its file ("" for one that was just made) and content."""

    path: str
    priority: int
    raw: dict[str, Any]

    @property
    def simulated(self) -> bool:
        """Whether no driver is behind its devices."""
        return SIMULATED in self.common.env

    @property
    def common(self) -> Edits:
        """What comes along with each of its devices."""
        return container_edits.parse(self.raw.get("containerEdits", {}))

    def devices(self) -> dict[str, dict[str, Any]]:
        """Full name → containerEdits."""
        kind = self.raw["kind"]
        return {f"{kind}={row['name']}": row["containerEdits"] for row in self.raw["devices"]}


class CdiRegistry:
    """Devices by their full names, and what is wrong with the files."""

    def __init__(self) -> None:
        self.specs: list[CdiSpec] = []
        self.devices: dict[str, CdiSpec] = {}
        self.conflicts: dict[str, str] = {}
        """Full name → what is wrong with it."""
        self.warnings: list[str] = []

    def add(self, spec: CdiSpec) -> None:
        """Add the devices of a spec; specs come in the order of their priority."""
        self.specs.append(spec)
        for name in spec.devices():
            other = self.devices.get(name)
            if other and other.priority == spec.priority:
                self.conflicts[name] = f"{name} is in {other.path} and in {spec.path}"
            else:
                self.conflicts.pop(name, None)
                self.devices[name] = spec

    def add_made(self, raw: dict[str, Any]) -> None:
        """Add a spec that was just made: it wins over those of files."""
        self.add(CdiSpec("", max((spec.priority for spec in self.specs), default=0) + 1, raw))

    def of_kind(self, kind: str) -> list[CdiSpec]:
        """Return the specs of one kind."""
        return [spec for spec in self.specs if spec.raw["kind"] == kind]

    def control_nodes(self, kind: str) -> list[Edits]:
        """Return what `none` gives: of what comes with every GPU the control nodes, no library."""
        found = [spec.common for spec in self.of_kind(kind)][-1:]
        return [Edits(steps=edits.device_nodes, env=edits.env) for edits in found]

    def edits(self, names: Sequence[str]) -> list[Edits]:
        """Return the edits for these devices in order: before a spec's first one its own.

        The own edits of a spec without a file come last: so it is in nvidia-container-runtime.
        Raises GPUError where a device cannot be resolved.
        """
        bad = [name for name in names if name not in self.devices or name in self.conflicts]
        if bad:
            raise GPUError(f"unresolvable CDI devices {', '.join(bad)}", self._hint(bad))
        found: list[Edits] = []
        last: list[Edits] = []
        seen = set()
        for name in names:
            spec = self.devices[name]
            if id(spec) not in seen:
                seen.add(id(spec))
                (found if spec.path else last).append(spec.common)
            found.append(container_edits.parse(spec.devices()[name]))
        return found + last

    def _hint(self, bad: list[str]) -> str:
        conflicts = [self.conflicts[name] for name in bad if name in self.conflicts]
        if conflicts:
            return "; ".join(conflicts)
        there = [name for name in self.devices if name not in self.conflicts]
        kinds = {name.partition("=")[0] for name in bad}
        there.sort(key=lambda name: name.partition("=")[0] not in kinds)  # their own kind first
        more = ", …" if len(there) > _LISTED else ""
        if there:
            return f"there is {', '.join(there[:_LISTED])}{more}"
        if not any(name.startswith("nvidia.com/") for name in bad):
            return "there is no CDI device"
        way = (
            "" if driverroot.is_loaded() else "; without a driver: --gpus all, which simulates one"
        )
        return f"there is no CDI device: nvidia-ctk cdi generate makes the file{way}"


def load(folders: tuple[str, ...] = FOLDERS) -> CdiRegistry:
    """Read all spec files of `folders`; a folder that is missing is an empty one."""
    registry = CdiRegistry()
    for priority, folder in enumerate(folders):
        for name in _names(registry, folder):
            path = f"{folder.rstrip('/')}/{name}"
            try:
                found = parse(read_bytes(path).decode(), as_json=path.endswith(".json"))
                registry.add(CdiSpec(path, priority, check(found)))
            except OSError as error:
                what = reason(error)
                registry.warnings.append(f"{path}: {what}; the file is not used")
            except ValueError as error:
                text = " ".join(str(error).split())
                registry.warnings.append(f"{path}: {text}; the file is not used")
    return registry


def _names(registry: CdiRegistry, folder: str) -> list[str]:
    """Return the names of the spec files in a folder, sorted."""
    try:
        return sorted(
            name for name in os.listdir(folder) if name.endswith((".json", ".yaml", ".yml"))
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        registry.warnings.append(f"{folder}: {reason(error)}")
        return []


def parse(text: str, *, as_json: bool = False) -> Any:
    """Return the document in a text; YAML, where it is not known to be JSON. Raises ValueError."""
    if as_json:
        return jsonlite.loads(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SchemaError(str(error)) from None
