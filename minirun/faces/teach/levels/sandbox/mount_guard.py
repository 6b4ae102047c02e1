"""mount(2) in a sandbox, as far as it makes a file system: the guard outside decides, and does it.

Most file systems are new with each mount, or each namespace has its own. But of some there is one:
a new mount of devtmpfs is the host's /dev, and of debugfs the host's kernel. A namespace does not
keep a program from them, and a filter of seccomp(2) cannot read a string. So the kernel announces
the call, and the guard, outside of the sandbox,

    copies the strings out of the program's memory
    refuses the call (EPERM) if the file system is none of OWN_FILE_SYSTEMS
    else mounts it itself: in a child, in the program's namespaces and root, with the copied strings

The kernel never reads the strings again: so a second thread of the program cannot exchange them
(seccomp_unotify(2), "the use of SECCOMP_USER_NOTIF_FLAG_CONTINUE"). Binds, moves and propagation
make no file system, and are not announced. sysfs is mounted read-only, however it is asked for.

fsopen(2) is answered alike, for BY_FSOPEN: the guard opens, and the program gets the descriptor.
For others it is as on a kernel without that call (ENOSYS): callers then use mount(2).
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import re
import select
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from minirun.core.errors import os_error
from minirun.core.kernel import files, mounts, namespaces
from minirun.oci import descriptors

OWN_FILE_SYSTEMS = (
    "proc", "sysfs", "tmpfs", "ramfs", "overlay", "devpts", "mqueue", "cgroup", "cgroup2",
    "hugetlbfs",
)  # fmt: skip
"""Those that are new with each mount, or that each namespace has of its own."""
BY_FSOPEN = ("tmpfs", "overlay")
"""Those that do not depend on the namespaces of the process that calls fsopen(2)."""
_WITHOUT_FS = (
    mounts.MS_BIND | mounts.MS_MOVE | mounts.MS_SHARED | mounts.MS_PRIVATE | mounts.MS_SLAVE
    | mounts.MS_UNBINDABLE
)  # fmt: skip
_MAGIC, _MAGIC_MASK = 0xC0ED0000, 0xFFFF0000
"""MS_MGC_VAL, which old callers of mount(2) add to the flags, and the kernel takes away."""
_BY_FD = re.compile(r"/proc/(?:self|thread-self)/fd/(\d+)(/.*|)")
"""How crun names what it has opened."""
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # ioctl of seccomp_unotify(2)
_ADD_FD = 0x40182103
_CONTINUE, _AND_SEND = 1, 2
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_ADDED_FD = struct.Struct("=QIIII")
_FSOPEN, _X32 = 430, 0x40000000
"""The number of fsopen(2) on all architectures; the bit that a number of x32 has besides."""
_SYSFS_MAGIC = 0x62656572
_CAP_SYS_ADMIN = 21
_PAGE = 4096
_NAMESPACES = ("cgroup", "ipc", "net", "pid", "uts", "mnt")
"""Those that a file system may belong to; the mount namespace is entered last."""


def rules() -> list[dict[str, Any]]:
    """Return the rules for config.json's linux.seccomp that announce such calls."""
    remount = mounts.MS_REMOUNT  # of a file system; with MS_BIND of a mount alone
    flags = [(_MAGIC_MASK, _MAGIC), (_WITHOUT_FS, 0), (remount | mounts.MS_BIND, remount)]
    return [
        {"names": ["fsopen"], "action": "SCMP_ACT_NOTIFY"},
        *({"names": ["mount"], "action": "SCMP_ACT_NOTIFY",
           "args": [{"index": 3, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}]}
          for mask, value in flags),
    ]  # fmt: skip


class MountGuard:
    """Answers for the processes below one listener."""

    def __init__(self, path: Path) -> None:
        """Listen at the Unix socket `path`: there the runtime sends the listener. OSError."""
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen(1)
        self._listener = -1
        self.refused: list[str] = []
        """The file systems that were refused, in order, each once."""

    def serve(self, until: int) -> None:
        """Answer until the descriptor `until` can be read. Raises OSError."""
        poll = select.poll()
        poll.register(until, select.POLLIN)
        poll.register(self._server, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._server.fileno() in ready:
                connection, _ = self._server.accept()
                with connection:
                    _, (self._listener, *_) = descriptors.receive(connection)
                poll.register(self._listener, select.POLLIN)
            elif ready.get(self._listener, 0) & select.POLLIN:
                self._answer()
            elif self._listener in ready:  # POLLHUP: no process is left that has the filter
                poll.unregister(self._listener)
            if until in ready:
                return

    def _answer(self) -> None:
        """Receive one call, and answer it."""
        buffer = array.array("B", bytes(_NOTIFICATION.size))
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError:  # ENOENT: a signal has ended it
            return
        number, thread, _, call, _, _, *args = _NOTIFICATION.unpack(buffer)
        flags, result = 0, 0
        try:
            if _has_own_user_namespace(thread):
                flags = _CONTINUE  # the kernel lets no such process mount what the host has once
            elif call & ~_X32 == _FSOPEN:
                self._open(_Caller(thread, self._listener, number), args)
                return
            else:
                self._mount(_Caller(thread, self._listener, number), args)
        except OSError as error:
            result = -(error.errno or errno.EPERM)
        with suppress(OSError):  # ENOENT: it has died meanwhile
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, result, flags))

    def _mount(self, caller: _Caller, args: list[int]) -> None:
        """Do what mount(2) with these arguments is to do. Raises OSError."""
        flags = args[3] & 0xFFFFFFFF
        if flags & _MAGIC_MASK == _MAGIC:
            flags &= ~_MAGIC_MASK
        source, target, fstype, data = (caller.text(args[at]) for at in (0, 1, 2, 4))
        if target is None:
            raise os_error(errno.EFAULT)
        makes = not flags & (mounts.MS_REMOUNT | _WITHOUT_FS)
        if makes and fstype not in OWN_FILE_SYSTEMS:
            if fstype is None:
                raise os_error(errno.EINVAL)
            if fstype not in self.refused:
                self.refused.append(fstype)
            raise os_error(errno.EPERM)
        caller.mount(source, target, fstype, flags, data, is_sysfs=makes and fstype == "sysfs")

    def _open(self, caller: _Caller, args: list[int]) -> None:
        """Answer fsopen(2) with these arguments by a descriptor. Raises OSError."""
        fstype = caller.text(args[0])
        if fstype not in BY_FSOPEN:
            raise os_error(errno.ENOSYS)
        fd = mounts.fsopen(fstype)
        try:
            caller.receive(fd, os.O_CLOEXEC if args[1] & mounts.FSOPEN_CLOEXEC else 0)
        finally:
            os.close(fd)


class _Caller:
    """A thread that waits in mount(2) or fsopen(2)."""

    def __init__(self, thread: int, listener: int, number: int) -> None:
        self._thread, self._listener, self._number = thread, listener, number

    def text(self, address: int) -> str | None:
        """Return the string at an address of its memory, a page at most; None for NULL. OSError."""
        if not address:
            return None
        with open(f"/proc/{self._thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            raw = memory.read(_PAGE - address % _PAGE)
            if b"\0" not in raw:
                with suppress(OSError):
                    raw += memory.read(_PAGE)
        if b"\0" not in raw:
            raise os_error(errno.EFAULT)
        return raw.partition(b"\0")[0].decode(errors="surrogateescape")

    def receive(self, fd: int, flags: int) -> None:
        """Make `fd` what the call returns: a descriptor of the thread's. Raises OSError.

        Linux before 5.14 cannot do it in one step (EINVAL): then there is no such call.
        """
        added = _ADDED_FD.pack(self._number, _AND_SEND, fd, 0, flags)
        try:
            fcntl.ioctl(self._listener, _ADD_FD, added)
        except FileNotFoundError:
            pass  # it has died meanwhile
        except OSError:
            raise os_error(errno.ENOSYS) from None

    def mount(
        self, source: str | None, target: str, fstype: str | None, flags: int, data: str | None,
        *, is_sysfs: bool,
    ) -> None:  # fmt: skip
        """Mount as this thread would. Raises OSError."""
        child = os.fork()
        if child == 0:
            status = errno.EPERM
            with suppress(BaseException):
                status = self._in_child(source, target, fstype, flags, data, is_sysfs)
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            number = status if status > 0 else errno.EPERM
            raise os_error(number)

    def _in_child(self, source: str | None, target: str, fstype: str | None, flags: int,
                  data: str | None, is_sysfs: bool) -> int:  # fmt: skip
        """Be this thread as far as mount(2) looks at it, and mount; return the error, 0 if none."""
        place = f"/proc/{self._thread}"
        opened = {name: os.open(f"{place}/ns/{name}", os.O_RDONLY) for name in _NAMESPACES}
        root, here = (os.open(f"{place}/{name}", os.O_PATH) for name in ("root", "cwd"))
        if by_fd := _BY_FD.fullmatch(target):  # this process has other descriptors
            here, target = os.open(f"{place}/fd/{by_fd[1]}", os.O_PATH), f".{by_fd[2]}"
        if not int(_status(self._thread, "CapEff"), 16) >> _CAP_SYS_ADMIN & 1:
            return errno.EPERM
        # Its pid was not taken by another process before these files were opened.
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self._number))
        for name in _NAMESPACES:
            namespaces.setns(opened[name], 0)
        inner = os.fork()  # a pid namespace is entered by a child
        if inner:
            return os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF
        os.fchdir(root)
        os.chroot(".")
        os.fchdir(here)
        try:
            if flags & mounts.MS_REMOUNT and not flags & mounts.MS_BIND:
                target = _remounted(target, flags)
            kept = mounts.MS_RDONLY if is_sysfs else 0
            mounts.mount(source, target, fstype, flags | kept, data)
            if kept & ~flags:  # a check reads what was asked; the file system stays read-only
                target = os.path.join(os.getcwd(), target)
                anew = mounts.MS_REMOUNT | mounts.MS_BIND
                mounts.mount(None, target, None, flags | anew, None)
        except OSError as error:
            os._exit(error.errno or errno.EPERM)
        os._exit(0)


def _remounted(target: str, flags: int) -> str:
    """Go to the directory to be remounted, and return its new name. Raises OSError for sysfs.

    It has no name that another process could give to sysfs after the look.
    """
    fd = os.open(target, os.O_PATH | os.O_DIRECTORY)
    if files.filesystem_magic(fd) == _SYSFS_MAGIC and not flags & mounts.MS_RDONLY:
        raise os_error(errno.EPERM)
    os.fchdir(fd)
    return "."


def _has_own_user_namespace(thread: int) -> bool:
    """Return True if a thread is in a user namespace that it, or its parents, made. OSError."""
    return os.readlink(f"/proc/{thread}/ns/user") != os.readlink("/proc/self/ns/user")


def _status(thread: int, name: str) -> str:
    """Return a field of /proc/PID/status. Raises OSError."""
    text = Path(f"/proc/{thread}/status").read_text()
    found = re.search(rf"^{name}:\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else "0"
