"""Stage 7: what the container's command may do. The order matters, and each line says why."""

import os

from minirun import events
from minirun.errors import MinirunError
from minirun.kernel import process, seccomp
from minirun.oci.config import Config
from minirun.oci.validate import RLIMITS
from minirun.process import caps
from minirun.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.process.seccomp import Filter


def make_cwd(root: Root, process_config: "dict[str, Any]") -> None:
    """Make the working directory where the image lacks it, as docker does. Raises OSError."""
    try:
        os.close(root.make_dir(process_config["cwd"]))
    except OSError as error:
        if error.errno not in (13, 30):  # EACCES, EROFS: chdir will say it better
            error.filename = f"process.cwd: {process_config['cwd']}"
            raise


def drop(name: str, config: Config, filter: "Filter | None", sets: caps.Sets) -> None:
    """Become the container's user with the container's capabilities; go to its directory.

    `name` is what the new keyring is called; `filter` the compiled linux.seccomp; `sets` the
    capabilities that it is granted.
    Raises OSError, MinirunError.
    """
    wanted = config.process
    try:
        process.join_session_keyring(f"_ses.{name}")
    except OSError:  # no keyrings in this kernel, or a quota: docker and runc go on as well
        events.emit("note", "no new session keyring")
    process.restore_signals()
    for row in wanted.get("rlimits") or []:
        process.setrlimit(RLIMITS[row["type"]], row["type"], row["soft"], row["hard"])
    if sets.refused:
        why = "this runtime does not hold them: the specification makes it a warning"
        events.emit("note", "capabilities refused", {"names": sets.refused}, why=why)
    if filter and not wanted.get("noNewPrivileges"):
        seccomp.install(filter.bpf, filter.flags)  # because it needs CAP_SYS_ADMIN then
    arrived = _try_to_go(wanted["cwd"])  # because its user may not be let in (as runc has it)
    sets.drop_bounding()  # because CAP_SETPCAP is needed for it, which may go away below
    become_user(wanted.get("user") or {})
    sets.apply()  # because setuid to another user clears the effective set
    if not arrived:
        go_to(wanted["cwd"])  # because root may not be let in: a file system over the network
    os.umask((wanted.get("user") or {}).get("umask", 0o022))
    if wanted.get("noNewPrivileges"):
        process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)


def arm_late(config: Config, filter: "Filter | None") -> None:
    """Install the seccomp filter right before execve, where no_new_privs allows it without rights.

    So the filter meets as few of init's own calls as can be. Raises OSError.
    """
    if filter and config.process.get("noNewPrivileges"):
        seccomp.install(filter.bpf, filter.flags)


def become_user(user: "dict[str, Any]") -> None:
    """Set groups, group and user, in the one order that works: supplementary groups first.

    Without it the caller's groups stay (CVE-2022-36109). Raises OSError.
    """
    process.setgroups(list(user.get("additionalGids") or []))
    process.setgid(user.get("gid", 0))
    if user.get("uid", 0) != 0:
        process.prctl(process.PR_SET_KEEPCAPS, 1, why="capabilities survive setuid until capset")
    process.setuid(user.get("uid", 0))


def _try_to_go(directory: str) -> bool:
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
        text = os.strerror(error.errno or 0).lower()
        raise MinirunError(f"chdir to cwd ({directory!r}): {text}", status=126) from error
    try:
        inside = os.getcwd().startswith("/")
    except FileNotFoundError:  # what glibc makes of "(unreachable)"
        inside = False
    if not inside:
        raise MinirunError(f"cwd {directory!r} lies outside of the container")
