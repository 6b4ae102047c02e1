"""config.json's linux.seccomp: which system calls the container may make.

What happens: the runtime gives the rules to libseccomp before clone, and has them compiled into
plain bytes while init makes its root filesystem; init, as one of its last acts, hands the bytes to
the kernel (minirun.oci.seccomp.compiler.install). So nothing is opened, resolved or allocated by a
library close to pivot_root. Without linux.seccomp this module is never imported.

What the spec says: runtime-spec, config-linux.md, "Seccomp": a default action, and for lists of
calls, possibly only with certain arguments, other actions. Names that this machine's libseccomp
does not know are skipped: profiles are written for newer kernels too.

What the real stack does: runc compiles in its init, crun in the parent. Calls that are newer than
the profile get ENOSYS, as with runc: see minirun.oci.seccomp.new_calls.

SCMP_ACT_NOTIFY passes calls on to a program behind listenerPath: see minirun.oci.seccomp.notify.
"""

from __future__ import annotations

import errno

from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy
from minirun.oci.seccomp import compiler as seccomp

with lazy:
    from minirun.oci.seccomp import (
        new_calls,  # minirun's own profile says ENOSYS itself
        notify,  # few have one
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.oci.seccomp.notify import Listener

ACTIONS = {
    "SCMP_ACT_KILL": 0x00000000,
    "SCMP_ACT_KILL_THREAD": 0x00000000,
    "SCMP_ACT_KILL_PROCESS": 0x80000000,
    "SCMP_ACT_TRAP": 0x00030000,
    "SCMP_ACT_ERRNO": 0x00050000,
    "SCMP_ACT_NOTIFY": 0x7FC00000,
    "SCMP_ACT_TRACE": 0x7FF00000,
    "SCMP_ACT_LOG": 0x7FFC0000,
    "SCMP_ACT_ALLOW": 0x7FFF0000,
}
"""linux/seccomp.h, SECCOMP_RET_*. The lower 16 bits of ERRNO and TRACE carry errnoRet."""

_KINDS: dict[type, str] = {str: "strings", dict: "objects"}

_WITH_NUMBER = ("SCMP_ACT_ERRNO", "SCMP_ACT_TRACE")
_NOTIFY = "SCMP_ACT_NOTIFY"
_PERMISSIVE = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE")

OPERATORS = {
    "SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7,
}  # fmt: skip
"""seccomp.h of libseccomp, enum scmp_compare."""


OF_BUNDLE = "config.json"
"""The name of a profile that stands in a bundle's config.json."""
_MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS of linux/bpf_common.h."""

_WITHOUT_FLAGS = seccomp.FLAGS["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]
"""A profile that says nothing of flags has this one, as with runc from 1.2 on and crun.

Else Linux before 5.16 slows a filtered process down, against Spectre (prctl(2), PR_SPEC_FORCE_…).
"""


class Filter(Record):
    """A compiled filter, for minirun.oci.seccomp.compiler.install."""

    bpf: bytes
    flags: int
    allowed: int
    """How many of this machine's calls a rule allows, even if only for some arguments."""
    name: str
    """Where the profile comes from."""
    listener: Listener | None = None
    """Who is asked about calls with SCMP_ACT_NOTIFY."""

    def __str__(self) -> str:
        return f"profile {self.name}: {self.allowed} calls are allowed by name"


class Rules(Record):
    """A profile that is right, and whose rules libseccomp has; half of the work is still to do."""

    compiler: seccomp.Compiler
    knows: dict[int, int]
    """If newer calls get ENOSYS: the highest number that the profile knows, per architecture."""
    flags: int
    name: str
    listener: Listener | None

    def compile(self) -> Filter:
        """Compile the rules, once. Raises ConfigError: too many instructions; OSError."""
        bpf = b""
        if self.knows:
            bpf = new_calls.before(self.knows)
        bpf += self.compiler.compile()
        if len(bpf) > 8 * _MOST_INSTRUCTIONS:
            text = f"{len(bpf) // 8} instructions, and the kernel takes at most"
            what = f"linux.seccomp: {text} {_MOST_INSTRUCTIONS} (seccomp(2))"
            raise ConfigError(what, "fewer rules that look at arguments")
        return Filter(bpf, self.flags, len(self.compiler.allowed), self.name, self.listener)


def load(config: dict[str, Any], name: str = OF_BUNDLE) -> Filter:
    """Check and compile linux.seccomp. Raises as :func:`check`, and :meth:`Rules.compile`."""
    return check(config, name).compile()


def check(config: dict[str, Any], name: str = OF_BUNDLE) -> Rules:
    """Check linux.seccomp; `name` says where it comes from.

    Raises ConfigError, with the exact path, for what is wrong in it; MinirunError if libseccomp
    is not installed.
    """
    where = "linux.seccomp"
    default = _action(config, "defaultAction", "defaultErrnoRet", where)
    flags = 0 if "flags" in config else _WITHOUT_FLAGS
    for index, flag in enumerate(_list(config, "flags", str, where)):
        flags |= _lookup(seccomp.FLAGS, flag, f"{where}.flags[{index}]")
    compiler = _compiler(config, default, where)
    for index, rule in enumerate(_list(config, "syscalls", dict, where)):
        _add(compiler, rule, default, f"{where}.syscalls[{index}]")
    found = listener(config, where)
    if found:
        flags |= seccomp.NEW_LISTENER
        if flags & seccomp.TSYNC:  # both want to return something: linux/seccomp.h
            flags |= seccomp.TSYNC_ESRCH
    is_strict = config["defaultAction"] not in _PERMISSIVE
    knows: dict[int, int] = {}
    if is_strict and default != ACTIONS["SCMP_ACT_ERRNO"] | errno.ENOSYS:
        known = [call for rule in config.get("syscalls") or [] for call in rule["names"]]
        knows = compiler.newest(known)
    return Rules(compiler, knows, flags, name, found)


def _compiler(config: dict[str, Any], default: int, where: str) -> seccomp.Compiler:
    """Return a compiler for the architectures that config.json names."""
    try:
        compiler = seccomp.Compiler(default)
    except OSError as error:
        raise MinirunError(
            f"linux.seccomp asks for a filter: {error}", "apt-get install libseccomp2"
        ) from None
    for index, machine in enumerate(_list(config, "architectures", str, where)):
        short = machine.removeprefix("SCMP_ARCH_").lower()
        if not compiler.add_architecture(short):
            raise ConfigError(f"{where}.architectures[{index}]: unknown architecture {machine!r}")
    return compiler


def listener(config: dict[str, Any], where: str = "linux.seccomp") -> Listener | None:
    """Return the program that is asked about some system calls; None if there is none.

    Raises ConfigError, MinirunError.
    """
    actions = {row.get("action") for row in config.get("syscalls") or []}
    if _NOTIFY not in actions | {config["defaultAction"]} and not config.get("listenerMetadata"):
        return None
    return notify.listener(config, where)


def _add(compiler: seccomp.Compiler, rule: dict[str, Any], default: int, where: str) -> None:
    """Add one entry of linux.seccomp.syscalls; names that are unknown here are skipped."""
    action = _action(rule, "action", "errnoRet", where)
    args = _list(rule, "args", dict, where)
    conditions = [_condition(arg, f"{where}.args[{index}]") for index, arg in enumerate(args)]
    names = _list(rule, "names", str, where)
    if not names:
        raise ConfigError(f"{where}.names: at least one system call is needed")
    if action == default:
        return
    # Conditions of one rule are all required; but two on the same argument, which libseccomp
    # cannot express, have become alternatives in runc, and profiles rely on that.
    together = [conditions]
    if len({condition[0] for condition in conditions}) < len(conditions):
        together = [[condition] for condition in conditions]
    for name in names:
        try:
            for group in together:
                compiler.add_rule(action, name, group)
        except OSError as error:
            raise ConfigError(f"{where}: {name}: {reason(error)}") from None


def _action(config: dict[str, Any], key: str, errno_key: str, where: str) -> int:
    """Return the action that `key` names, with the number of `errno_key` in it."""
    name = config.get(key)
    value = _lookup(ACTIONS, name, f"{where}.{key}")
    number = config.get(errno_key)
    if name not in _WITH_NUMBER:
        if number is not None:
            raise ConfigError(f"{where}.{errno_key}: {name} returns no number")
        return value
    number = errno.EPERM if number is None else number
    return value | _integer(number, 0xFFFF, f"{where}.{errno_key}")


def _condition(arg: dict[str, Any], where: str) -> tuple[int, int, int, int]:
    """Return an argument's condition: index, operator, value, value two. Raises ConfigError."""
    highest = 2**64 - 1
    return (
        _integer(arg.get("index"), 5, f"{where}.index"),
        _lookup(OPERATORS, arg.get("op"), f"{where}.op"),
        _integer(arg.get("value"), highest, f"{where}.value"),
        _integer(arg.get("valueTwo", 0), highest, f"{where}.valueTwo"),
    )


def _list(config: dict[str, Any], key: str, kind: type, where: str) -> list[Any]:
    """Return the list under `key`, whose members are all of `kind`; empty if there is none."""
    value = config.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(member, kind) for member in value):
        raise ConfigError(f"{where}.{key}: not a list of {_KINDS[kind]}")
    return value


def _lookup(table: dict[str, int], name: object, where: str) -> int:
    """Return the number of a name in a table of libseccomp's. Raises ConfigError."""
    if not isinstance(name, str) or name not in table:
        raise ConfigError(f"{where}: {name!r} is none of {', '.join(table)}")
    return table[name]


def _integer(value: object, highest: int, where: str) -> int:
    """Return a number from 0 to `highest`. Raises ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise ConfigError(f"{where}: {value!r} is not a number from 0 to {highest}")
    return value
