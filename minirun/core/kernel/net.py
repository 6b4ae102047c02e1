"""The two ioctls that switch a network interface on: netdevice(7)."""

import ctypes
import os

from minirun.core.kernel import libc
from minirun.core.kernel.libc import c_int, c_ulong, c_void_p

AF_UNIX, SOCK_DGRAM, SOCK_CLOEXEC = 1, 2, 0o2000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 0x1

_socket = libc.bind("socket", c_int, c_int, c_int)
_ioctl = libc.bind("ioctl", c_int, c_ulong, c_void_p)
_socket.restype = _ioctl.restype = c_int  # glibc leaves the upper half of the register undefined


class IfReq(ctypes.Structure):
    """struct ifreq of netdevice(7), with the member for flags."""

    _fields_ = [("name", ctypes.c_char * 16), ("flags", ctypes.c_short), ("_", ctypes.c_char * 22)]


def set_up(name: str, *, why: str = "") -> None:
    """Set IFF_UP on the interface `name` of this network namespace. Raises OSError.

    Any socket will do for these ioctls; a Unix one needs no protocol of the network.
    """
    fd = libc.check("socket", _socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
    try:
        request = IfReq(name=name.encode())
        address = ctypes.addressof(request)
        libc.check("ioctl", _ioctl(fd, SIOCGIFFLAGS, address), name)
        request.flags |= IFF_UP
        shown = {"fd": fd, "request": "SIOCSIFFLAGS", "name": name, "flags": "IFF_UP"}
        libc.logged("ioctl", _ioctl, (fd, SIOCSIFFLAGS, address), shown, name, why)
    finally:
        os.close(fd)
