"""Device rules: which device nodes a container may open, whatever nodes lie in its file system."""

from minirun.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeviceRule(Record):
    """One rule of config.json's linux.resources.devices (runtime-spec, config-linux.md).

    `kind` is a (all), c or b; `major` and `minor` are None for any; `access` is out of "rwm".
    Among the rules of a container the last one that matches decides.
    """

    allow: bool
    kind: str
    major: "int | None"
    minor: "int | None"
    access: str

    def __str__(self) -> str:
        """The kernel's own form, as in devices.list: c 195:0 rw."""
        major, minor = ("*" if n is None else str(n) for n in (self.major, self.minor))
        return f"{self.kind} {major}:{minor} {self.access}"


def parse_rules(rows: "list[dict[str, Any]]") -> "list[DeviceRule]":
    """Return config.json's linux.resources.devices as rules; a number below 0 means any."""
    return [
        DeviceRule(
            row["allow"], row.get("type") or "a", _number(row.get("major")),
            _number(row.get("minor")), row.get("access") or "rwm",
        )
        for row in rows
    ]  # fmt: skip


def _number(value: "int | None") -> "int | None":
    return None if value is None or value < 0 else value
