"""exec's flags as a `process` of config.json: the container's own, with what they change."""

from minirun.cli import run_options
from minirun.cli.flags import Parsed
from minirun.core.container import Container
from minirun.core.errors import UsageError
from minirun.core.process.caps import NUMBERS
from minirun.core.rootfs.inroot import Root
from minirun.oci import user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def process(container: Container, flags: Parsed) -> "dict[str, Any]":
    """Return the process that the flags describe. Raises UsageError, MinirunError, OSError."""
    process = dict(container.config.process)
    process["args"] = list(flags.args[1:])
    process["terminal"] = flags.tty
    process["env"] = [*(process.get("env") or []), *run_options.variables(flags.env)]
    if flags.workdir:
        process["cwd"] = flags.workdir
    if flags.user:
        process["user"] = _user(container, flags.user)
    if flags.additional_gids:
        groups = [_gid(text) for text in flags.additional_gids]
        old = process.get("user") or {}
        process["user"] = {**old, "additionalGids": [*old.get("additionalGids", ()), *groups]}
    if flags.cap:
        process["capabilities"] = _capabilities(process.get("capabilities") or {}, flags.cap)
    if flags.no_new_privs:
        process["noNewPrivileges"] = True
    for key, name in (("apparmor", "apparmorProfile"), ("process_label", "selinuxLabel")):
        if getattr(flags, key):
            process[name] = getattr(flags, key)
    return process


def _user(container: Container, text: str) -> "dict[str, Any]":
    """Find a user by number or, as docker does and runc does not, by the image's own names."""
    root = Root.at(f"/proc/{container.record['init']['pid']}/root")
    found = user.resolve_user(root, text)
    root.close()
    return {"uid": found.uid, "gid": found.gid, "additionalGids": list(found.groups)}


def _gid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= user.MAX_ID):
        raise UsageError(f"invalid --additional-gids {text!r}", "the number of a group", 1)
    return int(text)


def _capabilities(held: "dict[str, Any]", added: "list[str]") -> "dict[str, Any]":
    """Add capabilities to the bounding, effective and permitted sets.

    To the ambient set only where it has some inheritable ones: runc did so always until
    CVE-2022-29162 taught that a non-empty inheritable set is a gift to every program in there.
    """
    unknown = [name for name in added if name not in NUMBERS]
    if unknown:
        raise UsageError(f"unknown capability {unknown[0]!r}", "a name such as CAP_NET_ADMIN", 1)
    kinds = ["bounding", "effective", "permitted"]
    if held.get("inheritable"):
        kinds.append("ambient")
    return {**held, **{kind: [*(held.get(kind) or ()), *added] for kind in kinds}}
