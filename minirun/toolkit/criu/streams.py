"""The three streams of the container's command, which lie outside of it and stay there.

A pipe's other end, or a file of the host, is not in the container: CRIU leaves it out of its files
and takes, at restore, a descriptor that the caller has by then. It knows each by a name:

    pipe:[4711]       a pipe or socket, by its inode, as /proc/PID/fd shows it
    file[1b:2137]     a file, by mount and inode, in hexadecimal

descriptors.json holds the three in runc's form, a list of texts; after a file's name comes its
path. A file that is still the same, and /dev/null, are opened anew; in place of one that is not,
CRIU gets the caller's own stream. A file must be as long at restore as it was at the checkpoint,
since CRIU compares.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import MinirunError, reason
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.record import Record
from minirun.toolkit.criu.program import FIRST_FD

FILE = "descriptors.json"
_NULL = "/dev/null"
_INODES = ("pipe:[", "socket:[")


class Inherited(Record):
    """CRIU's arguments for streams: words for its command line, and descriptors for its child."""

    words: list[str]
    fds: dict[int, int]
    """CRIU's number → ours; we close those that are above 2."""


def describe(pid: int, mounts: set[int]) -> list[str]:
    """Return the names of the streams 0, 1, 2 of process `pid`.

    `mounts` are the ids of the container's own mounts: a file on one of these is saved as any
    other, and has no name here but its path. Raises OSError.
    """
    return [_describe(f"/proc/{pid}", number, mounts) for number in range(3)]


def _describe(proc: str, number: int, mounts: set[int]) -> str:
    try:
        path = os.readlink(f"{proc}/fd/{number}")
    except FileNotFoundError:
        return ""  # the command has closed it
    if path.startswith(_INODES):
        return path
    mount = int(state.read_text(f"{proc}/fdinfo/{number}").partition("mnt_id:")[2].split()[0])
    if mount in mounts:
        return path
    found = os.stat(f"{proc}/fd/{number}")
    if stat.S_ISCHR(found.st_mode) and path != _NULL:
        hint = "give it pipes or files: minirun run --bundle … </dev/null >FILE 2>&1"
        raise MinirunError(f"stream {number} is {path}, a device outside of the container", hint)
    return f"file[{mount:x}:{found.st_ino:x}] {path}"


def external(names: list[str]) -> list[str]:
    """Return the arguments of `criu dump`: these files are not the container's."""
    keys = dict.fromkeys(_key(name) for name in names if name.startswith("file["))
    return [word for key in keys for word in ("--external", key)]


def save(directory: str, names: list[str]) -> None:
    """Write descriptors.json into the directory of CRIU's files. Raises OSError."""
    state.write(f"{directory}/{FILE}", jsonlite.dumps(names))


def inherit(directory: str) -> Inherited:
    """Return what `criu restore` gets in the place of the streams saved in `directory`: ours.

    Of several with the same name the first one counts. Raises MinirunError, OSError.
    """
    try:
        names = jsonlite.loads(state.read_text(f"{directory}/{FILE}"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("is not a list of texts")
        keys = [_key(name) for name in names[:3]]
    except (OSError, ValueError) as error:
        text = f"{directory}/{FILE}: {reason(error)}"
        raise MinirunError(text, "a whole checkpoint has it; a --pre-dump does not") from None
    words: list[str] = []
    fds: dict[int, int] = {}
    for number, key in enumerate(keys):
        if not key.startswith((*_INODES, "file[")) or key in keys[:number]:
            continue
        fd = _open_again(names[number]) if key.startswith("file[") else -1
        fds[FIRST_FD + number] = fd if fd >= 0 else number
        words += ["--inherit-fd", f"fd[{FIRST_FD + number}]:{key}"]
    return Inherited(words, fds)


def _open_again(name: str) -> int:
    """Return a new descriptor of a file, -1 if something else has its path by now."""
    key, _, path = name.partition(" ")
    try:
        found = os.stat(path)
        if path == _NULL or (stat.S_ISREG(found.st_mode) and key.endswith(f":{found.st_ino:x}]")):
            return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        pass
    return -1


def _key(name: str) -> str:
    return name.partition(" ")[0]
