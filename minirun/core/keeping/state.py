"""state.json: what is known of a container between two commands.

Written whole and renamed into place, so that a reader, or a crash, never sees half of it. The
first record ("creating") is written before the first cgroup or process exists: whatever a killed
command leaves is named in it, and `gc` and `delete --force` finish from it.

A process is remembered by pid, start time and boot: so one with a reused pid is not taken for it.
"""

from __future__ import annotations

import os
import select
import time

from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import field_types, jsonlite, places, state_file
from minirun.core.keeping.field_types import STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.container_record import (
        CgroupRecord,
        ContainerRecord,
        ProcessIdentity,
    )

OCI_VERSION = "1.3.0"
CREATING, CREATED, RUNNING, STOPPED, PAUSED = STATUSES
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.")


_NO_NAME = (FileNotFoundError, PermissionError, StateError)


def check_id(container_id: str) -> str:
    """Return `container_id` if it is a name and not a path. Raises StateError.

    Letters, digits and ``_ + - .``, not beginning with a dot (``delete -f ..`` once removed the
    directory above a runtime's root), at most 1024 characters, as runc has it.
    """
    if not is_id(container_id):
        hint = "letters, digits, '_', '+', '-', '.', not beginning with '.'"
        raise StateError(f"invalid container id {container_id!r}", hint)
    return container_id


def is_id(text: str) -> bool:
    """Return True if a text may be a container's id."""
    return bool(text) and set(text) <= _SAFE and text[0] != "." and len(text) <= 1024


def is_made_up(container_id: str) -> bool:
    """Return True for an id of 64 hex digits, as minirun and most engines generate it."""
    return len(container_id) == 64 and not container_id.strip("0123456789abcdef")


def short(container_id: str) -> str:
    """Return the first 12 digits of a generated id, as docker shows it; any other id unchanged."""
    return container_id[:12] if is_made_up(container_id) else container_id


def name_of(directory: str) -> str:
    """Return the name of the container in a directory: its id, if it has no other.

    minirun.common.naming. Raises OSError, such as EMFILE.
    """
    container_id = directory.rpartition("/")[2]
    try:
        fd = state_file.open_directory(directory)
    except (*_NO_NAME, NotADirectoryError):
        return container_id
    try:
        name = state_file.read_file(fd, places.NAME).decode(errors="replace")
    except (*_NO_NAME, ValueError):
        return container_id
    finally:
        os.close(fd)
    return name if is_id(name) else container_id


def shown_name(directory: str) -> str:
    """Return a container's name as a list shows it: an id of 64 digits in short."""
    return short(name_of(directory))


def timestamp(when: float | None = None) -> str:
    """Return a time (seconds since the epoch; now by default) as RFC 3339 in UTC."""
    seconds = time.time() if when is None else when
    fraction = int(seconds % 1 * 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"


def start_time(pid: int) -> int:
    """Return when process `pid` started, in clock ticks since boot; 0 if there is none.

    A zombie counts as none. proc_pid_stat(5), fields 3 and 22. Raises OSError, such as EMFILE.
    """
    try:
        text = read_bytes(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = text[text.rindex(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def boot_id() -> str:
    """Return the id of this boot of the machine: random(4)."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def identity(pid: int) -> ProcessIdentity:
    """Return what distinguishes process `pid` from a later one with the same number."""
    return {"pid": pid, "start": start_time(pid), "boot": boot_id()}


def is_alive(process: ProcessIdentity | None) -> bool:
    """Return True if the process that :func:`identity` described still runs."""
    if not process or not process["pid"]:
        return False
    started = start_time(process["pid"])
    return started != 0 and started == process["start"] and boot_id() == process["boot"]


def has_ended(process: ProcessIdentity | None, seconds: float | None = None) -> bool:
    """Wait until that process has ended; return False if it still runs after `seconds`.

    The kernel tells it by a pidfd: pidfd_open(2). Raises OSError, such as EMFILE.
    """
    if not process or not is_alive(process):
        return True
    try:
        pidfd = os.pidfd_open(process["pid"])
    except ProcessLookupError:
        return True
    try:
        if not is_alive(process):  # the number may be another's by now
            return True
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))
    finally:
        os.close(pidfd)


def save(directory: str, record: ContainerRecord) -> None:
    """Write state.json. Raises OSError."""
    take_next(directory, write_next(directory, record))


def write_next(directory: str, record: ContainerRecord) -> str:
    """Write what state.json will say, beside it; return its path.

    Raises MinirunError if it says what :func:`load` would refuse, such as a number above 64 bits.
    Raises OSError.
    """
    path, document = f"{directory}/{places.NEXT_STATE}{os.getpid()}", record.as_json()
    for name, value in document.items():
        try:
            field_types.check_plain({name: value})
        except ValueError as error:
            raise MinirunError(f"{name} of container {name_of(directory)}: {error}") from None
    _write_or_remove(path, jsonlite.dumps(document))
    return path


def take_next(directory: str, path: str) -> None:
    """Make state.json of what :func:`write_next` wrote, even on a full disk. Raises OSError."""
    os.rename(path, f"{directory}/{places.STATE}")


def replace(path: str, text: str, temporary: str) -> None:
    """Write a file anew, in one step: a reader finds the old text or the new. Raises OSError.

    `temporary` is a path beside it that only this process writes.
    """
    _write_or_remove(temporary, text)
    os.rename(temporary, path)


def _write_or_remove(temporary: str, text: str) -> None:
    """Write a file; if that fails, remove it. Raises OSError."""
    try:
        write(temporary, text)
    except OSError:
        try:
            os.unlink(temporary)  # on a full disk every page counts
        except FileNotFoundError:
            pass
        raise


def write(path: str, text: str) -> None:
    """Write a file that only its owner may read. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        data = text.encode()
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def load(root: str, container_id: str) -> ContainerRecord:
    """Return the record of a container, its status brought up to date.

    Raises StateError, of the kinds in minirun.core.keeping.state_file; OSError.
    """
    directory = f"{root}/{check_id(container_id)}"
    try:
        return refresh(state_file.read(directory))
    except FileNotFoundError:
        raise no_such_container(container_id) from None


def no_such_container(container_id: str) -> StateError:
    """Return the error for a container that does not exist."""
    return StateError(f"container {container_id!r} does not exist", "minirun ps -a lists all")


def refresh(record: ContainerRecord) -> ContainerRecord:
    """Return a record with the status that the processes named in it have by now."""
    status = record.status
    holder = record.supervisor if status == CREATING else record.init
    if status != STOPPED and not is_alive(holder):
        status = STOPPED
    elif status in (CREATED, PAUSED):
        waiting = os.path.exists(f"{record.directory}/{places.EXEC}")
        status = CREATED if waiting else RUNNING
    if status in (CREATED, RUNNING) and is_frozen(record.cgroup):
        status = PAUSED
    return record._replace(status=status, pid=0 if status == STOPPED else record.pid)


def is_frozen(cgroup: CgroupRecord | None) -> bool:
    """Return True if the cgroup of a record is frozen: by `pause`, or by any other tool."""
    if not cgroup:
        return False
    dirs = cgroup["dirs"]
    directory = dirs.get("freezer") or dirs.get("")
    file, thawed = ("cgroup.freeze", "0") if "" in dirs else ("freezer.state", "THAWED")
    try:
        return bool(directory) and read_text(f"{directory}/{file}").strip() != thawed
    except OSError:  # gone, or never joined
        return False


def read_text(path: str) -> str:
    """Return a file's text. Raises OSError, UnicodeDecodeError."""
    return read_bytes(path).decode()


def read_bytes(path: str) -> bytes:
    """Return what is in a file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return state_file.read_on(fd)
    finally:
        os.close(fd)


def names(root: str) -> list[str]:
    """Return the ids of all containers below a state root, in order."""
    try:
        found = os.listdir(root)
    except FileNotFoundError:
        return []
    return sorted(name for name in found if not name.startswith("."))


def public(record: ContainerRecord) -> dict[str, Any]:
    """Return the state as the runtime-spec has it (runtime.md, "State"), with runc's additions."""
    return {
        "ociVersion": record.ociVersion, "id": record.id, "pid": record.pid,
        "status": record.status, "bundle": record.bundle, "rootfs": record.rootfs,
        "created": record.created, "annotations": record.annotations, "owner": "",
    }  # fmt: skip
