"""Capabilities: five sets, each a bit mask, as capabilities(7) and config.json have them."""

from __future__ import annotations

from minirun.core.kernel import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NUMBERS = {
    f"CAP_{name}": number
    for number, name in enumerate(
        (
            "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID",
            "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST",
            "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
            "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
            "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
            "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM",
            "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
        )
    )
}  # fmt: skip
"""Name → number, from linux/capability.h."""


def mask(names: Iterable[str]) -> int:
    """Return the bit mask of capabilities by name; a name that is not in NUMBERS is left out."""
    return sum(1 << NUMBERS[name] for name in set(names) if name in NUMBERS)


def names(bits: int) -> list[str]:
    """Return the names in a bit mask, by number."""
    return [name for name, number in NUMBERS.items() if bits >> number & 1]


def held() -> int:
    """Return the bit mask of the bounding set: no process of ours can grant more than that."""
    return sum(1 << number for number in NUMBERS.values() if process.in_bounding_set(number))


SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")


class Sets:
    """The five sets of config.json's process.capabilities, cut to what can be granted."""

    def __init__(self, capabilities: dict[str, Any], grantable: int) -> None:
        wanted = {kind: capabilities.get(kind) or () for kind in SETS}  # the spec knows no others
        asked = {kind: mask(names) for kind, names in wanted.items()}
        self.bounding = asked["bounding"] & grantable
        self.permitted = asked["permitted"] & grantable
        self.effective = asked["effective"] & self.permitted
        self.inheritable = asked["inheritable"] & grantable
        self.ambient = asked["ambient"] & self.permitted & self.inheritable
        self.grantable = grantable
        granted = dict.fromkeys(SETS, grantable) | {"ambient": self.ambient}
        lost = {n for kind in SETS for n in wanted[kind] if not mask([n]) & granted[kind]}
        self.refused = sorted(lost)
        """Names that were asked for and cannot be granted: a warning, says the spec."""

    def drop_bounding(self) -> None:
        """Drop what config.json does not list from the bounding set. Raises OSError."""
        for number in NUMBERS.values():
            if self.grantable >> number & 1 and not self.bounding >> number & 1:
                process.prctl(process.PR_CAPBSET_DROP, number)

    def apply(self, more: int = 0) -> None:
        """Set permitted, effective, inheritable and ambient. Raises OSError.

        `more` is a bit mask of what :meth:`drop_rest` takes out of the first two again.
        """
        process.capset(self.effective | more, self.permitted | more, self.inheritable)
        process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_CLEAR_ALL)
        for number in NUMBERS.values():
            if self.ambient >> number & 1:
                process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, number)

    def drop_rest(self) -> None:
        """Drop what :meth:`apply` has kept for the last steps. Raises OSError."""
        process.capset(self.effective, self.permitted, self.inheritable, why="no step needs more")
