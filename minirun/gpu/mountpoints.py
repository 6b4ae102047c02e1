"""What mount points the GPUs' files took in a container: written down, or found to be wrong.

The hook does this, in stage 5, while nobody lives in the container: what lies in its upper then is
what was just made for the driver's files, and what ldconfig has made beside them. The next
container of the same image begins with it (minirun.core.rootfs.initlayer).
"""

import os
import stat
from binascii import b2a_base64

from minirun.core import events, jsonlite, state
from minirun.core.rootfs import initlayer
from minirun.core.rootfs.initlayer import InitLayer
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.container import Container
    from minirun.core.rootfs.initlayer import Tree
    from minirun.gpu.edits import Edits

LIMIT = 64
"""How many layers are kept below one state root; of more, the oldest goes."""
MOST = 1000
"""How many names a layer has at most: with links as long as a page, that is half of its tmpfs."""
MOST_BYTES = 1 << 20
"""How much its files hold at most. ld.so.cache takes 64 bytes or so a library."""
_DEEPEST = 32
_ORIGIN = "trusted.overlay.origin"
"""Of a folder that was copied up: that the image has it too."""
_EXPECTED = frozenset((_ORIGIN, "trusted.overlay.impure", "trusted.overlay.uuid"))
"""More than these on a folder, such as an ACL, and the layer could not stand for it."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Unusual(Exception):
    """Something in upper that a layer of files, folders and links cannot stand for."""


def forget(layer: InitLayer, root: Root, why: str) -> None:
    """Take away what the layer has made, and what was written down; `why` goes into the log.

    What is removed from a lower layer gets a whiteout in upper. What is needed all the same is made
    there afterwards, and the next container writes it down anew. Raises OSError.
    """
    events.emit("note", "init layer out of date", {"file": layer.file}, why=why)
    _empty(os.open(".", _DIRECTORY, dir_fd=root.fd), layer.tree)
    try:
        os.unlink(layer.file)
    except FileNotFoundError:
        pass  # another container was quicker


def _empty(fd: int, tree: "Tree") -> None:
    """Remove what the layer has in a directory, with its folders that the image has not; close it.

    Raises OSError.
    """
    empty, others, links, below = tree[4:]
    try:
        for name in (*empty, *others, *links):
            os.unlink(name, dir_fd=fd)
        for name, inner in below.items():
            _empty(os.open(name, _DIRECTORY, dir_fd=fd), inner)
            if not inner[3]:
                os.rmdir(name, dir_fd=fd)
    finally:
        os.close(fd)


def remember(container: "Container", edits: "Edits", ldconfig_fd: int) -> None:
    """Write down what was made, for the next container of this image with these wishes.

    Where that cannot be, nothing is written, and nothing is lost but some milliseconds.
    """
    if container.unprivileged or not initlayer.fits(container.config):
        return
    root = container.settings.root
    try:
        key = initlayer.key(container.config)
        tree = _Walk().tree(os.open(f"{container.directory}/upper", _DIRECTORY))
        file = initlayer.file_of(root, key)
        folder = os.path.dirname(file)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = {"key": key, "made_for": initlayer.needs(edits, ldconfig_fd), "tree": tree}
        state.replace(file, jsonlite.dumps(found), f"{folder}/.{os.getpid()}")
        _forget_beyond_the_limit(folder)
    except (_Unusual, OSError):
        return


class _Walk:
    """A walk through upper, which a hostile image can make ldconfig fill."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0

    def tree(self, fd: int, depth: int = 0) -> "Tree":
        """Return what a directory holds, and close it. Raises _Unusual, OSError.

        A file that is not empty is no mount point, but a cache of ldconfig's.
        """
        empty: "list[str]" = []
        others: "dict[str, tuple[int, str]]" = {}
        links: "dict[str, str]" = {}
        below: "dict[str, Tree]" = {}
        try:
            names = sorted(os.listdir(fd))
            self.count += len(names)
            if self.count > MOST or depth > _DEEPEST:
                raise _Unusual
            for name in names:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    below[name] = self.tree(os.open(name, _DIRECTORY, dir_fd=fd), depth + 1)
                elif stat.S_ISLNK(found.st_mode):
                    links[name] = os.readlink(name, dir_fd=fd)
                elif not stat.S_ISREG(found.st_mode):
                    raise _Unusual
                elif found.st_size:
                    others[name] = stat.S_IMODE(found.st_mode), self._content(name, fd)
                else:
                    empty.append(name)
            attributes = os.listxattr(fd)
            if not _EXPECTED.issuperset(attributes):
                raise _Unusual
            own = os.fstat(fd)
            mode, copied = stat.S_IMODE(own.st_mode), _ORIGIN in attributes
            return (mode, own.st_uid, own.st_gid, copied, empty, others, links, below)
        finally:
            os.close(fd)

    def _content(self, name: str, folder: int) -> str:
        """Return what the file `name` holds, in base64. Raises _Unusual, OSError."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            data = os.read(fd, MOST_BYTES)
        finally:
            os.close(fd)
        self.bytes += len(data)
        if self.bytes >= MOST_BYTES:
            raise _Unusual
        return b2a_base64(data, newline=False).decode()


def _forget_beyond_the_limit(folder: str) -> None:
    with os.scandir(folder) as entries:
        own = [entry for entry in entries if initlayer.is_layer(entry.name)]
    own.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
    for entry in own[:-LIMIT]:
        os.unlink(entry.path)
