"""Which system calls a container of `run IMAGE` may make: a profile becomes config.json's
linux.seccomp. The profile is minirun's own, default.json beside this module, or a file's.

A kernel has some 370 calls, and a fault in any of them is a way out of every container, since all
share the kernel. So a container gets the calls that programs use. default.json has four answers:

    SCMP_ACT_ALLOW   it reaches the kernel, which checks capabilities and permissions
    errnoRet 1       EPERM, "you may not": no program of today needs the call; or a capability opens
                     it (`includes`), and EPERM is for containers that lack it (`excludes`)
    errnoRet 38      ENOSYS, "there is no such call": programs then fall back to an older way. All
                     that is not named gets it too, as calls do that are newer than the file

In effect this is podman's default profile as Debian 12 has it; tests/oci/seccomp/test_default.py
compares call by call, and capability by capability. docker's differs:

- docker lets mount, unshare, setns, clone with new namespaces and their relatives through with
  CAP_SYS_ADMIN only. Here, as with podman, the kernel's own check decides: without the capability
  the calls fail, except in a user namespace that the container makes itself, where a sandbox (a
  browser's, bubblewrap, a build tool) is at work. With docker's file it is as with docker:
  --security-opt seccomp=FILE. The same holds of NUMA policies (CAP_SYS_NICE there), which GPU
  programs use, of keyctl, syslog, reboot and pidfd_getfd: the kernel checks.
- docker's answer to all that is not allowed is EPERM. ENOSYS is kinder to programs.
- CAP_BPF and CAP_PERFMON open bpf and perf_event_open, as with docker. Podman's file of that time
  did not know the capabilities, which are parts of CAP_SYS_ADMIN.
- Socket families 38 and 40 are refused, as with docker: podman allows them. The kernel looks at the
  lower half of a register for a family, and so does the filter. docker's compares all of it: family
  2^32 + 40 passes there, and is 40 to the kernel. The rows that refuse a family come first; the
  last one has a condition that always holds, since a row without any would win over all others.
- Of personality(2) Linux and PER_LINUX32 are allowed, each with UNAME26, and the question. Others
  switch off address space randomization, or run programs as other systems did.

The format is docker's (and podman's), which says more than the runtime-spec: `archMap`, which goes
by the machine, and for each entry `includes` and `excludes`: it counts only on some machines, with
some capabilities, or from some kernel on. Here that is decided, and what is left is the spec's.
A file may also hold linux.seccomp as config.json has it.

What the real stack does: dockerd and podman decide the same before they write config.json.
"""

from __future__ import annotations

import os

from minirun.core.errors import UsageError, reason
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.numbers import whole
from minirun.core.kernel import architecture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

NAME = "default"
"""What `inspect`, the log and --security-opt seccomp=… call minirun's own profile."""
DEFAULT = f"{os.path.dirname(__file__)}/{NAME}.json"
_WHOLE = ("defaultErrnoRet", "flags", "listenerPath", "listenerMetadata")
_HINT = "docker's format, or linux.seccomp of config.json"


def load(path: str, capabilities: Collection[str], machine: str = "") -> dict[str, Any]:
    """Return the linux.seccomp that a profile means for a container with these capabilities.

    `path` is a file's, or :data:`NAME`; `machine` is as uname -m says it, by default this one.
    Raises UsageError, with the path, for a file that cannot be read or is no profile.
    """
    where = f"seccomp profile {path}"
    try:
        found = jsonlite.loads(state.read_text(DEFAULT if path == NAME else path))
    except OSError as error:
        text = reason(error)
        raise UsageError(f"opening {where} failed: {text}") from None
    except ValueError as error:
        raise UsageError(f"{where}: {error}", _HINT) from None
    if not isinstance(found, dict) or "defaultAction" not in found:
        raise UsageError(f"{where}: no defaultAction in it", _HINT)
    kernel = os.uname().release
    native = architecture.of_machine(machine) if machine else architecture.NATIVE
    profile = {"defaultAction": found["defaultAction"]}
    profile |= {key: found[key] for key in _WHOLE if found.get(key) is not None}
    profile["architectures"] = _architectures(found, native.scmp, where)
    profile["syscalls"] = [
        _entry(row, f"{where}: syscalls[{index}]")
        for index, row in enumerate(_objects(found, "syscalls", where))
        if _counts(row, capabilities, native.profile_name, kernel, f"{where}: syscalls[{index}]")
    ]
    return profile


def _architectures(found: dict[str, Any], native: str, where: str) -> list[str]:
    """Return the architectures: as listed, or those that archMap has for this machine."""
    if found.get("architectures") and found.get("archMap"):
        text = "both architectures and archMap are specified"
        raise UsageError(f"{where}: {text}", "one of them is enough")
    if not found.get("archMap"):
        return list(found.get("architectures") or [])
    for row in _objects(found, "archMap", where):
        if row.get("architecture") == native:
            return [native, *(row.get("subArchitectures") or [])]
    return []


def _entry(row: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an entry in the spec's form. Raises UsageError."""
    if row.get("name") and row.get("names"):
        raise UsageError(f"{where}: both name and names are specified", "one of them is enough")
    names = [row["name"]] if row.get("name") else row.get("names")
    entry = {"names": names, "action": row.get("action")}
    return entry | {key: row[key] for key in ("errnoRet", "args") if row.get(key) is not None}


def _counts(
    row: dict[str, Any], capabilities: Collection[str], machine: str, kernel: str, where: str
) -> bool:
    """Return True if an entry's includes and excludes let it count here. Raises UsageError."""
    wanted, unwanted = _filter(row, "includes", where), _filter(row, "excludes", where)
    if wanted.get("arches") and machine not in wanted["arches"]:
        return False
    if machine in (unwanted.get("arches") or ()):
        return False
    if not set(wanted.get("caps") or ()) <= set(capabilities):
        return False
    if set(unwanted.get("caps") or ()) & set(capabilities):
        return False
    least, most = wanted.get("minKernel"), unwanted.get("minKernel")
    if least and _version(kernel, where) < _version(least, where):
        return False
    return not (most and _version(kernel, where) >= _version(most, where))


def _filter(row: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """Return an entry's includes or excludes, after a check of their types. Raises UsageError."""
    value = row.get(key) or {}
    lists = (value.get(name) or [] for name in ("arches", "caps")) if type(value) is dict else ()
    if type(value) is not dict or not all(type(each) is list for each in lists):
        raise UsageError(f"{where}.{key}: not an object with lists", _HINT)
    return value


def _version(text: object, where: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel's version: 4.8, 6.1.0-13-amd64."""
    major, _, rest = str(text).partition(".")
    found = whole(major), whole(rest.partition(".")[0].partition("-")[0])
    if found[0] is None or found[1] is None:
        raise UsageError(f"{where}: minKernel {text!r} is no kernel's version", "such as 4.8")
    return found[0], found[1]


def _objects(found: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """Return the list of objects under `key`; empty if there is none. Raises UsageError."""
    rows = found.get(key)
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{where}: {key}: not a list of objects", _HINT)
    return rows
