"""What the container's command gets as standard input, output and error."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.container import Console, Container
    from minirun.core.rootfs.inroot import Root

_NULL = os.makedev(1, 3)


def connect(
    container: Container, console: Console, root: Root, *, console_node: bool = True
) -> None:
    """Put the command's streams onto 0, 1 and 2, and make them its user's.

    A process that is about to be the command calls :func:`lead_session` afterwards.
    Raises OSError, MinirunError.
    """
    extras = container.extras.values()
    # a terminal, if process.terminal asks for one
    if not any(extra.connect(root, console, console_node=console_node) for extra in extras):
        wanted = (console.stdin, console.stdout, console.stderr)
        high = [_inside(root, fd) for fd in wanted]
        for number, fd in enumerate(high):
            os.dup2(fd, number, inheritable=True)
            os.close(fd)
    chown_streams((container.config.process.get("user") or {}).get("uid", 0))


def _inside(root: Root, fd: int) -> int:
    """Return a copy of `fd`; for the host's /dev/null, which chmod reaches, the container's own."""
    if os.fstat(fd).st_rdev == _NULL:
        try:
            own = root.open("/dev/null", os.O_RDWR)
            if os.fstat(own).st_rdev == _NULL:
                os.set_blocking(own, True)  # as the caller's was
                return own
        except OSError:
            pass  # it has none
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def close_inherited(kept: int) -> None:
    """Close what the caller had left open (our own is O_CLOEXEC), except `kept` from 3 on."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) >= 3 + kept and os.get_inheritable(int(name)):
                os.close(int(name))
        except OSError:  # that of the listing itself
            pass


def lead_session(container: Container) -> None:
    """Start a session, whose terminal is the one that :func:`connect` has made, or none.

    So nothing in it can type into the caller's terminal (TIOCSTI, CVE-2017-5226). Raises OSError.
    """
    os.setsid()
    for extra in container.extras.values():
        extra.lead_session()  # its terminal becomes the session's


def chown_streams(uid: int) -> None:
    """Make user `uid` the owner of 0, 1 and 2 if they are pipes or terminals. Raises OSError.

    /dev/stdout is a link to /proc/self/fd/1, and opening it asks the pipe's or terminal's owner
    and mode. runc does so with all but /dev/null, also with host files; here a file keeps its
    owner, since it is the caller's, and so does a socket, which no path can open at all. If the
    user namespace does not map the owner (EINVAL, EPERM), or the disk is read-only, it stays.
    """
    for fd in range(3):
        info = os.fstat(fd)
        terminal = stat.S_ISCHR(info.st_mode) and os.isatty(fd)
        if info.st_uid != uid and (terminal or stat.S_ISFIFO(info.st_mode)):
            try:
                os.fchown(fd, uid, -1)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EINVAL, errno.EROFS):
                    raise
