"""Stage 7: what the container's command may do. The order matters, and each line says why."""

from __future__ import annotations

import errno
import os

from minirun.core import events
from minirun.core.errors import REFUSED, MinirunError, reason
from minirun.core.kernel import files, process
from minirun.core.process import caps
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.container import Container
    from minirun.core.handshake import Channel


def make_cwd(root: Root, process_config: dict[str, Any]) -> None:
    """Make the working directory if the image lacks it, as docker does. Raises OSError."""
    try:
        os.close(root.make_dir(process_config["cwd"]))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS):  # chdir will say it better
            error.filename = f"process.cwd: {process_config['cwd']}"
            raise


def drop(container: Container, sets: caps.Sets, channel: Channel) -> None:
    """Become the container's user with the container's capabilities; go to its directory.

    `sets` are the capabilities that it is granted; a seccomp listener goes through `channel`.
    Raises OSError, MinirunError.
    """
    leave_keyring(container)
    process.restore_signals()
    files.close_range_cloexec(3)  # because a filter from before Linux 5.9 would refuse it below
    limit(container)
    # because the container's user, or its filter, may refuse that later (as in runc)
    arrived = try_to_go(container.config.process["cwd"])
    for extra in container.extras.values():
        extra.before_user(channel)  # seccomp, unless no_new_privs lets it be later
    become(container, sets, arrived=arrived)
    for extra in container.extras.values():
        extra.after_user(channel)  # seccomp, with no_new_privs


def leave_keyring(container: Container) -> None:
    """Leave the caller's session keyring, if there are keyrings and it is not to be kept."""
    try:
        if not container.record.no_new_keyring:
            process.join_session_keyring(f"_ses.{container.id}")
    except OSError:  # no keyrings in this kernel, or a quota: docker and runc go on as well
        events.emit("note", "no new session keyring")


def limit(container: Container) -> None:
    """Set what a process can set only for itself: rlimits, labels. Raises OSError, ConfigError."""
    for extra in container.extras.values():
        extra.limit()  # rlimits, the OOM score, scheduler, labels


def become(container: Container, sets: caps.Sets, *, arrived: bool, more: int = 0) -> None:
    """Give up privileges, except the capabilities `more`; go to the working directory."""
    wanted = container.config.process
    user = wanted.get("user") or {}
    if sets.refused:
        why = "not held here, or ambient and not inheritable: a warning, says the specification"
        events.emit("note", "capabilities refused", {"names": sets.refused}, why=why)
    sets.drop_bounding()  # because CAP_SETPCAP is needed for it, which may go away below
    become_user(user, denied=container.record.groups_denied)
    sets.apply(more)  # because setuid to another user clears the effective set
    if not arrived:
        go_to(wanted["cwd"])  # because a network file system may refuse root, and let in the user
    os.umask(user.get("umask", 0o022))
    if wanted.get("noNewPrivileges"):
        process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)


def become_user(user: dict[str, Any], *, denied: bool = False) -> None:
    """Set groups, group and user, in the one order that works: supplementary groups first.

    If setgroups is `denied`, the caller's groups stay, and its own is the only one that it may be
    asked for: user_namespaces(7). Raises OSError.
    """
    gid, groups = user.get("gid", 0), list(dict.fromkeys(user.get("additionalGids") or ()))
    if not denied or set(groups) - {gid}:
        process.setgroups(groups)
    process.setgid(gid)
    if user.get("uid", 0) != 0:
        process.prctl(process.PR_SET_KEEPCAPS, 1, why="capabilities survive setuid until capset")
    process.setuid(user.get("uid", 0))


def try_to_go(directory: str) -> bool:
    """Change the working directory; return False if it could not be done."""
    try:
        go_to(directory)
    except MinirunError:
        return False
    return True


def go_to(directory: str) -> None:
    """Change the working directory and make sure that it lies inside the container.

    A path through a descriptor of the host would be "(unreachable)" (CVE-2024-21626).
    Raises MinirunError.
    """
    try:
        os.chdir(directory)
    except OSError as error:
        text = reason(error)
        raise MinirunError(f"chdir to cwd ({directory!r}): {text}", status=REFUSED) from error
    try:
        inside = os.getcwd().startswith("/")
    except FileNotFoundError:  # what glibc makes of "(unreachable)"
        inside = False
    if not inside:
        raise MinirunError(f"cwd {directory!r} lies outside of the container")
