"""Does the host answer? Asked before a pull that has another way, so that it is known in seconds.

A host may have a dozen addresses, and without a network each would take its own timeout.
"""

import errno
import os
import select
import socket
import time

from rootfs_tools.registry.errors import Unreachable


def probe(host: str, port: int, seconds: float) -> None:
    """Connect to all addresses of a host at once. Raises Unreachable if none takes it in time."""
    os.environ.setdefault("RES_OPTIONS", f"timeout:{max(1, int(seconds / 2))} attempts:1")
    try:  # resolv.conf(5)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable(f"{host}: no such host", "is there a network?") from None
    waiting: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in found:
            one = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            waiting.append(one)
            one.connect_ex(address)
        reason = _first(waiting, seconds)
    finally:
        for one in waiting:
            one.close()
    if reason:
        raise Unreachable(f"{host}:{port}: {os.strerror(reason).lower()}", "is there a network?")


def _first(waiting: list[socket.socket], seconds: float) -> int:
    """Wait until one is connected; return 0, or the errno with which the last of them failed."""
    end = time.monotonic() + seconds
    left = {one.fileno(): one for one in waiting}
    poll = select.poll()
    for fd in left:
        poll.register(fd, select.POLLOUT)
    reason = errno.EHOSTUNREACH
    while left and (rest := end - time.monotonic()) > 0:
        for fd, _ in poll.poll(rest * 1000):
            reason = left.pop(fd).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            poll.unregister(fd)
            if not reason:
                return 0
    return errno.ETIMEDOUT if left else reason
