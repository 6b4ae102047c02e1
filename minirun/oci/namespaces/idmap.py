"""The id maps of a user namespace whose maker has no privileges: one id, or more by newuidmap.

What the man pages say: user_namespaces(7): without a privilege a process may map one id, its own;
and one group only once it has given up setgroups(2) for good, by which it could leave a group that
something is denied to. Further ids an administrator grants in /etc/subuid and /etc/subgid
(subuid(5)), and newuidmap(1), a program with the privilege, writes what is granted there.

What the real stack does: runc, crun and podman the same. Imported only for such a user.
"""

from __future__ import annotations

import os
import stat

from minirun.core import events
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.keeping import numbers, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.config import Config
    from minirun.core.container import Console

    IdMapRows = list[dict[str, int]]

PROGRAMS = {"uid_map": "newuidmap", "gid_map": "newgidmap"}
_GRANTS = {"uid_map": "/etc/subuid", "gid_map": "/etc/subgid"}
_KEYS = {"uid_map": "uidMappings", "gid_map": "gidMappings"}
_MOST_BYTES = 1 << 20


def write_id_map(pid: int, name: str, rows: list[dict[str, int]]) -> None:
    """Write uid_map or gid_map of a process in a new user namespace: user_namespaces(7).

    `rows` are as in config.json. Raises OSError.
    """
    path = f"/proc/{pid}/{name}"
    text = "".join(f"{row['containerID']} {row['hostID']} {row['size']}\n" for row in rows)
    try:
        state.write(path, text)  # in one write(2), or the kernel refuses it
    except OSError as error:
        error.filename = path
        raise


def own_ids() -> dict[str, int]:
    """Return the caller's own user and group id, by the name of the map."""
    return {"uid_map": os.geteuid(), "gid_map": os.getegid()}


def is_one(rows: IdMapRows, name: str) -> bool:
    """Return True if a map is the one line that its maker may write without a privilege."""
    return len(rows) == 1 and rows[0]["size"] == 1 and rows[0]["hostID"] == own_ids()[name]


def read(pid: int | str, name: str) -> IdMapRows:
    """Return an id map as config.json would have it. Raises OSError."""
    rows = [line.split() for line in state.read_text(f"/proc/{pid}/{name}").splitlines()]
    keys = ("containerID", "hostID", "size")
    return [dict(zip(keys, map(int, row), strict=True)) for row in rows]


def denies_groups(pid: int | str) -> bool:
    """Return True if setgroups(2) is denied in a process's user namespace. Raises OSError."""
    return state.read_text(f"/proc/{pid}/setgroups").startswith("deny")


def host_id(rows: IdMapRows, number: int) -> int | None:
    """Return the host's id for an id in the container; None if it has none."""
    for row in rows:
        if row["containerID"] <= number < row["containerID"] + row["size"]:
            return row["hostID"] + number - row["containerID"]
    return None


def give_pipes(pid: int, config: Config, console: Console) -> None:
    """Make the command's user the owner of the pipes among its streams; `pid` is in its namespace.

    init can give away only what belongs to an id that its user namespace knows, and the caller's
    pipes do not. /dev/stdout, a link to /proc/self/fd/1, would be closed to the command.
    crun does so, too. Raises OSError.
    """
    owner = host_id(read(pid, "uid_map"), (config.process.get("user") or {}).get("uid", 0))
    for fd in (console.stdin, console.stdout, console.stderr) if console.socket < 0 else ():
        if owner is not None and stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.fchown(fd, owner, -1)


def write(pid: int, linux: dict[str, Any]) -> None:
    """Write both maps of the new user namespace that process `pid` is in.

    Raises MinirunError with what newuidmap says, OSError.
    """
    for name in ("uid_map", "gid_map"):
        rows = linux[_KEYS[name]]
        if name == "gid_map" and len(rows) == 1 and rows[0]["size"] == 1:
            state.write(f"/proc/{pid}/setgroups", "deny")  # else the kernel refuses the one line
        try:
            write_id_map(pid, name, rows)
        except PermissionError:
            _ask(pid, name, rows)


def _ask(pid: int, name: str, rows: IdMapRows) -> None:
    """Have newuidmap or newgidmap write a map. Raises MinirunError with its words."""
    program = find_program(name)
    if not program:
        raise lacking(name)
    numbers = [str(row[key]) for row in rows for key in ("containerID", "hostID", "size")]
    why = "more ids than one's own: granted by the administrator, written by who may"
    events.emit("note", PROGRAMS[name], {"pid": pid, "map": " ".join(numbers)}, why=why)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_DUP2, write_end, 2)]
        argv = [PROGRAMS[name], str(pid), *numbers]
        child = os.posix_spawn(program, argv, {}, file_actions=actions)
    finally:
        os.close(write_end)
    text = bytearray()
    while chunk := os.read(read_end, 4096):
        text += chunk
    os.close(read_end)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        words = " ".join(text.decode(errors="replace").split()) or f"status {status}"
        where = f"config.json: linux.{_KEYS[name]}"
        raise MinirunError(f"{where}: {words}", f"{_GRANTS[name]} says which ids are yours")


def of_container(config: Config) -> dict[str, IdMapRows]:
    """Return the maps of a user's container; the caller's own, if it has joined a namespace."""
    if config.new_namespace("user"):
        return {key: config.linux[key] for key in _KEYS.values()}
    return dict(zip(_KEYS.values(), default(), strict=True))


def find_program(name: str) -> str:
    """Return the path of newuidmap or newgidmap; empty if it is not installed."""
    for folder in (os.environ.get("PATH") or DEFAULT_PATH).split(":"):
        path = f"{folder}/{PROGRAMS[name]}"
        if folder.startswith("/") and os.access(path, os.X_OK):
            return path
    return ""


def lacking(name: str) -> ConfigError:
    """Return the error for a map that needs a program which is not there."""
    own = own_ids()[name]
    what = f"without {PROGRAMS[name]} only your own id, {own}, can be mapped, and it alone"
    return ConfigError(f"config.json: linux.{_KEYS[name]}: {what}", "apt-get install uidmap")


def default() -> tuple[IdMapRows, IdMapRows]:
    """Return the maps that a container gets if none are asked for: 0 is the caller.

    The ids that are granted to the caller follow, from 1 on; none if the programs are missing,
    or one of the two files grants nothing. User 0 of a user namespace passes all that it has on.
    """
    if os.geteuid() == 0:
        return whole("uid_map"), whole("gid_map")
    grants = {name: granted(name) if find_program(name) else [] for name in PROGRAMS}
    if not all(grants.values()):
        grants = {name: [] for name in PROGRAMS}
    uids, gids = (
        _line_up([(own_ids()[name], 1), *grants[name]]) for name in ("uid_map", "gid_map")
    )
    return uids, gids


def whole(name: str) -> IdMapRows:
    """Return the map that gives every id of this user namespace to one below it, as it is."""
    return [{**row, "hostID": row["containerID"]} for row in read("self", name)]


def _line_up(ranges: list[tuple[int, int]]) -> IdMapRows:
    """Return a map in which ranges of the host's ids follow one another, from 0 on."""
    rows, first = [], 0
    for start, size in ranges:
        rows.append({"containerID": first, "hostID": start, "size": size})
        first += size
    return rows


def granted(name: str) -> list[tuple[int, int]]:
    """Return the ranges (first id, how many) that /etc/subuid or /etc/subgid grants the caller.

    A line is NAME:FIRST:COUNT, with the user's name or number, in both files. Lines that are
    anything else are passed over, as newuidmap does.
    """
    uid = str(os.geteuid())
    login = next((row[0] for row in _lines("/etc/passwd", 7) if row[2] == uid), uid)
    found = []
    for who, first, count in _lines(_GRANTS[name], 3):
        begin, length = numbers.whole(first, 1), numbers.whole(count, 1)
        if who in (uid, login) and begin and length:
            found.append((begin, length))
    return found


def _lines(path: str, fields: int) -> list[list[str]]:
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="surrogateescape")
    except OSError:
        return []
    rows = [line.split(":") for line in text.split("\n")]
    return [row for row in rows if len(row) == fields]
