"""Stage 1 if config.json names namespaces by path, or wants clocks of its own.

    runtime ── clone3 ──▶ helper ── clone3(CLONE_PARENT) ──▶ init
                          setns, unshare(CLONE_NEWTIME)

setns takes a process along for good, and the runtime must stay on the host: its hooks run there,
its cgroups and its log are there. So a helper enters them, makes init as the runtime's child, tells
its pid and is gone. A user namespace comes last, since a process in one has no rights outside; but
a user without privileges may enter only then what belongs to it, so what was refused is tried
again. What is new after that belongs to it too. In a mount namespace that has a path the root
filesystem is built and pivot_root is made as in a new one: the processes in it see that, too.

What the spec says: runtime-spec, config-linux.md, "Namespaces": a path that is no namespace of that
type is an error. What the real stack does: runc's C code, nsenter, does the same in the same order.
"""

from __future__ import annotations

import errno
import fcntl
import os

from minirun.core import events
from minirun.core.config import Config
from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError, MinirunError, from_os, reason
from minirun.core.handshake import Channel
from minirun.core.keeping import state
from minirun.core.kernel import namespaces, process
from minirun.oci.namespaces import idmap

_NS_GET_NSTYPE = 0xB703  # linux/nsfs.h
_LEAVE_IT_OUT = "leave the namespace of type mount out, if the host's mounts are to change"


class NamedNamespaces(Extra):
    """linux.namespaces with a path, and linux.timeOffsets, of one container."""

    def clone(self, flags: int) -> tuple[int, int]:
        """Make init, by a helper, in the namespaces of config.json, and in new ones as of `flags`.

        Returns (pid, pidfd) in the runtime, (0, -1) in init.
        Raises ConfigError, MinirunError, OSError.
        """
        opened = _open(self.config)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        why = "who enters a namespace does not come back: a helper does it"
        pid, pidfd = namespaces.clone3(0, why=why)
        if pid == 0:
            os.close(read_end)
            _helper(self.container, opened, flags, Channel(-1, write_end, "the runtime"))
            for fd in (write_end, *opened.values()):
                os.close(fd)
            return 0, -1
        for fd in (write_end, pidfd, *opened.values()):
            os.close(fd)
        channel = Channel(read_end, -1, "the helper")
        try:
            init = channel.expect_number("PID")
        finally:
            os.close(read_end)
            os.waitpid(pid, 0)
        return init, os.pidfd_open(init)


def _open(config: Config) -> dict[str, int]:
    """Open the namespaces that have a path; the user namespace last. Raises ConfigError."""
    opened: dict[str, int] = {}
    rows = config.linux.get("namespaces") or []
    for index, row in sorted(enumerate(rows), key=lambda pair: pair[1]["type"] == "user"):
        path, kind = row.get("path"), row["type"]
        if not path:
            continue
        where = f"config.json: linux.namespaces[{index}].path: {path}"
        try:
            opened[kind] = fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if fcntl.ioctl(fd, _NS_GET_NSTYPE) != namespaces.FLAGS[kind]:
                raise ConfigError(f"{where}: is not a {kind} namespace")
            if kind == "mount" and os.path.samestat(os.fstat(fd), os.stat("/proc/self/ns/mnt")):
                raise ConfigError(f"{where}: is the runtime's own", _LEAVE_IT_OUT)
        except OSError as error:
            text = reason(error)
            text = "is not a namespace" if error.errno == errno.ENOTTY else text
            raise ConfigError(f"{where}: {text}") from None
    return opened


def _helper(container: Container, opened: dict[str, int], flags: int, channel: Channel) -> None:
    """In the helper: enter, make init, tell its pid, exit. Returns only in init."""
    try:
        events.become("runtime", os.getpid())
        process.prctl(process.PR_SET_PDEATHSIG, 9, why="the helper dies with the runtime")
        if not container.stays_dumpable:
            why = "other processes may live in the namespaces it enters"
            process.prctl(process.PR_SET_DUMPABLE, 0, why=why)
        _join(container, opened)
        if container.config.new_namespace("time"):
            if container.unprivileged and container.config.new_namespace("user"):
                flags &= ~namespaces.CLONE_NEWUSER
                namespaces.unshare(namespaces.CLONE_NEWUSER, why="clocks are a privilege")
            _new_clocks(container)
        pid, _ = namespaces.clone3(
            flags | namespaces.CLONE_PARENT, cgroup_fd=container.cgroup.clone_fd(),
            why="a copy of this process, in its namespaces and in new ones: the runtime's child",
        )  # fmt: skip
        if pid == 0:
            return
        os.write(channel.write_fd, f"PID {pid}\n".encode())
        os._exit(0)
    except (OSError, MinirunError) as error:
        channel.fail(from_os(error) if isinstance(error, OSError) else error)
    os._exit(1)


def _join(container: Container, opened: dict[str, int]) -> None:
    """Enter the namespaces; learn whether setgroups(2) is denied there. Raises OSError."""
    todo = list(opened)
    for is_last in (False, True):
        refused = []
        for kind in todo:
            path = container.config.namespaces[kind]
            try:
                namespaces.setns(opened[kind], namespaces.FLAGS[kind], shown=path, why="shared")
            except PermissionError:
                if is_last or kind == "user" or "user" not in opened:
                    raise
                refused.append(kind)
        todo = refused
    if "user" in opened:
        denied = idmap.denies_groups("self")
        container.record = container.record._replace(groups_denied=denied)


def _new_clocks(container: Container) -> None:
    """Make a time namespace for the next child, shifted by linux.timeOffsets.

    The offsets can be set only while no process is in it, so it is made by unshare, which moves
    children alone: time_namespaces(7). Raises OSError, ConfigError.
    """
    namespaces.unshare(namespaces.CLONE_NEWTIME, why="clocks of its own for the next child")
    if container.unprivileged:
        process.prctl(process.PR_SET_DUMPABLE, 1, why="or its files in /proc would be root's")
    for clock, offset in (container.config.linux.get("timeOffsets") or {}).items():
        row = f"{clock} {offset.get('secs', 0)} {offset.get('nanosecs', 0)}\n"
        try:
            state.write("/proc/self/timens_offsets", row)
        except OSError as error:
            text = reason(error)
            raise ConfigError(f"config.json: linux.timeOffsets.{clock}: {text}") from None
    if not container.stays_dumpable:
        process.prctl(process.PR_SET_DUMPABLE, 0)
