"""config.json for a user without privileges: what is changed, and what is refused with its reason.

`run IMAGE` makes its own config.json, so that is changed to what such a user may have; a bundle's
is its maker's and only checked, before anything is made. What can only be found out by trying
(whether overlayfs works in a user namespace, which limits a cgroup takes) is told when it fails.

What the real stack does: runc's `spec --rootless` makes a config.json with the same changes, and
runc refuses the same things. Imported only for such a user.
"""

from __future__ import annotations

import os

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.places import ROOT, STORE
from minirun.core.keeping.state import read_text
from minirun.core.process import caps
from minirun.engines import rootless
from minirun.oci.namespaces import idmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.oci.namespaces.idmap import IdMapRows

_SETGROUPS = "where only one's own group is mapped, setgroups(2) is denied: user_namespaces(7)"
_RESTRICTS = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_PROFILE = "/proc/self/attr/current"
_MORE = "ids in /etc/subuid and /etc/subgid, and newuidmap, give more"


def check_root(root: str) -> None:
    """Raise UsageError if a user is about to keep containers where another one may write."""
    if reason := rootless.why_not_own(root):
        hint = f"another --root, or a directory of your own: chmod 700 {root}"
        raise UsageError(f"{root}: no containers are kept there: {reason}", hint)


def check_home(root: str) -> None:
    """Raise UsageError if a user is about to keep containers in root's place."""
    if root == ROOT and not os.access(os.path.dirname(STORE), os.W_OK):
        hint = "export HOME=…, or name both: --root DIR --store DIR"
        raise UsageError("there is no $HOME to keep images and containers below", hint)


def check_namespaces() -> None:
    """Raise UsageError where a user's namespaces get no capability: on Ubuntu, since 23.10.

    AppArmor lets a program that no profile names make a user namespace, and denies it every
    capability there: the first mount would fail. A profile may have the rule `userns,`.
    """
    try:
        restricts, profile = read_text(_RESTRICTS), read_text(_PROFILE)
    except OSError:  # no AppArmor, or one that knows no such rule
        return
    if restricts.strip() == "1" and profile.strip("\0\n") == "unconfined":
        text = "AppArmor denies a user's namespaces every capability, as Ubuntu sets it"
        raise UsageError(text, "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0")


def adapt(document: dict[str, Any], joined: dict[str, str] | None = None) -> dict[str, str]:
    """Change the config.json of `run IMAGE`: a user namespace, and nothing that it cannot have.

    The device rules go: only root can have any, and without them the permissions of the host's
    nodes hold, since such a container can make no node. `joined`: kind of namespace → id of the
    container that it joins. Return the same, with the user namespace to which those belong: in it
    alone they can be entered. Raises MinirunError, OSError.
    """
    linux, joined = document["linux"], joined or {}
    rows = linux["namespaces"]
    owner = _owner({row["type"]: row["path"] for row in rows if row["type"] in joined})
    if owner:
        kind, path = owner
        if any(row["type"] == "user" for row in rows):
            text = f"--{kind} container:{joined[kind]}: its user namespace is joined, too"
            raise UsageError(text, "leave --uidmap and --gidmap out")
        rows.append({"type": "user", "path": path})
        joined = joined | {"user": joined[kind]}
        pid = path.split("/")[2]
        maps = idmap.read(pid, "uid_map"), idmap.read(pid, "gid_map")
    else:
        if not any(row["type"] == "user" for row in rows):
            rows.append({"type": "user"})
            linux["uidMappings"], linux["gidMappings"] = idmap.default()
        maps = linux["uidMappings"], linux["gidMappings"]
    del linux["resources"]["devices"]
    linux.get("sysctl", {}).pop("net.ipv4.ping_group_range", None)  # it takes groups of all
    if not any(row["type"] == "pid" for row in rows):
        _bind_proc(document["mounts"])
    for row in document["mounts"]:
        row["options"] = [word for word in row["options"] if _is_mapped(word, *maps)]
    return joined


def _bind_proc(mounts: list[dict[str, Any]]) -> None:
    """Bind the host's /proc in place of a new one, for --pid host.

    A new one may be mounted by root of the user namespace that the pid namespace belongs to alone:
    user_namespaces(7).
    """
    for row in mounts:
        if row["type"] == "proc":
            row |= {"type": "bind", "source": "/proc", "options": ["rbind", *row["options"]]}


def _owner(paths: dict[str, str]) -> tuple[str, str] | None:
    """Return the kind of one of the namespaces at `paths`, and the path of its user namespace.

    `paths`: kind → /proc/PID/ns/FILE. None if they belong to the caller's own. Raises MinirunError
    if they belong to several, OSError.
    """
    found = {}
    own = os.stat("/proc/self/ns/user").st_ino
    for kind, path in paths.items():
        user = f"{os.path.dirname(path)}/user"
        if (number := os.stat(user).st_ino) != own:
            found[number] = (kind, user)
    if len(found) > 1:
        names = " and ".join(f"--{kind}" for kind, _ in found.values())
        text = f"{names}: without root, containers with user namespaces of their own"
        raise MinirunError(text, "run the second with --pid or --network container:FIRST")
    return next(iter(found.values()), None)


def _is_mapped(option: str, uids: IdMapRows, gids: IdMapRows) -> bool:
    """Return True if the owner in a mount option, such as gid=5, is known in the container."""
    key, _, value = option.partition("=")
    rows = {"uid": uids, "gid": gids}.get(key)
    number = whole(value)
    return rows is None or number is None or idmap.host_id(rows, number) is not None


def check(config: Config) -> bool:
    """Refuse what a caller without privileges cannot have. Raises ConfigError.

    Returns whether setgroups(2) is denied in the container.
    """
    if config.linux.get("netDevices"):
        text = "a network device of the host can be moved by root only"
        raise ConfigError(f"config.json: linux.netDevices: {text}", "take it out of config.json")
    if config.namespaces.get("user"):  # one that is there already: its maps are its own
        return False
    if config.new_namespace("user"):
        _check_maps(config)
        uids, gids = config.linux["uidMappings"], config.linux["gidMappings"]
        denied = len(gids) == 1 and gids[0]["size"] == 1
    elif _holds(caps.NUMBERS["CAP_SYS_ADMIN"]):  # root of a user namespace that an engine has made
        uids, gids = idmap.whole("uid_map"), idmap.whole("gid_map")
        denied = idmap.denies_groups("self")
    else:
        text = "without root a container needs a user namespace, and there is none"
        raise ConfigError(f"config.json: linux.namespaces: {text}", "minirun spec --rootless")
    _check_user(config.process.get("user") or {}, uids, gids, denied=denied)
    _check_mounts(config.raw.get("mounts") or [], uids, gids)
    return denied


def _holds(capability: int) -> bool:
    """Return True if a capability is in the effective set: proc_pid_status(5)."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        (held,) = (line.split()[1] for line in file if line.startswith("CapEff:"))
    return bool(int(held, 16) >> capability & 1)


def _check_maps(config: Config) -> None:
    """Refuse maps that no program could write, and those with which image layers cannot be used."""
    linux = config.linux
    setter = {"uid_map": "CAP_SETUID", "gid_map": "CAP_SETGID"}
    for name, key in (("uid_map", "uidMappings"), ("gid_map", "gidMappings")):
        alone = idmap.is_one(linux[key], name) or _holds(caps.NUMBERS[setter[name]])
        if not alone and not idmap.find_program(name):
            raise idmap.lacking(name)
        own = idmap.own_ids()[name]
        owners = [row["hostID"] for row in linux[key] if row["containerID"] == 0]
        if config.layers and own not in owners:
            text = f"0 must be your own id, {own}: the image's files and the container's are yours"
            raise ConfigError(f"config.json: linux.{key}: {text}", f"0:{own}:1, then others")


def _check_user(user: dict[str, Any], uids: IdMapRows, gids: IdMapRows, *, denied: bool) -> None:
    """Refuse users and groups that the maps do not have."""
    where = "config.json: process.user"
    more = [gid for gid in user.get("additionalGids") or [] if gid != user.get("gid", 0)]
    if more and denied:
        raise ConfigError(f"{where}.additionalGids: {more}: {_SETGROUPS}", _MORE)
    asked = [("uid", user.get("uid", 0)), ("gid", user.get("gid", 0))]
    for key, number in [*asked, *(("additionalGids", gid) for gid in more)]:
        rows = uids if key == "uid" else gids
        if idmap.host_id(rows, number) is None:
            text = f"{number} is not mapped; mapped: {_shown(rows)}"
            raise ConfigError(f"{where}.{key}: {text}", _MORE)


def _check_mounts(rows: list[dict[str, Any]], uids: IdMapRows, gids: IdMapRows) -> None:
    """Refuse owners in mount options that the maps do not have: the kernel only says EINVAL."""
    for index, row in enumerate(rows):
        for word in row.get("options") or []:
            if not _is_mapped(word, uids, gids):
                known = _shown(uids if word.startswith("uid") else gids)
                where = f"config.json: mounts[{index}].options"
                text = f"{word}: no such id in the container; mapped: {known}"
                raise ConfigError(f"{where}: {text}", "minirun spec --rootless leaves it out")


def _shown(rows: IdMapRows) -> str:
    ranges = [(row["containerID"], row["size"]) for row in rows]
    return ", ".join(str(a) if n == 1 else f"{a} to {a + n - 1}" for a, n in ranges)
