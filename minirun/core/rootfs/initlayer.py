"""The init layer: mount points for the GPUs' files, between the image and what is written.

    upper         what the container writes, on the disk
    init layer    a tmpfs of this container: empty files, folders, links, and ld.so.cache
    layers        the image's, read-only and shared

A driver brings forty files and links in a dozen folders. Made in upper, through the overlay, each
folder is copied up and each name costs ten times what it costs on a tmpfs; and at the end all that
goes one by one, where the tmpfs goes with the mount namespace. But an overlay's layers have to be
complete before it is mounted, and only in the mounted overlay can the image's links be followed. So
the first container of an image gets its mount points in upper (minirun.gpu.apply), ldconfig makes
its links and its cache there, and what is there then is written down (minirun.gpu.mountpoints):

    ROOT/.gpus/mountpoints/CRC32.json    {"key": …, "made_for": […], "tree": […]}

The next one with the same image and wishes begins with it. In stage 5 the driver is known as well:
where its libraries and the host's ldconfig are the same files as then, ldconfig would find nothing
else, and is not run again; otherwise all of the layer's names are taken away, and made anew.
docker's overlay2 has such a layer too, ID-init, for /dev, /proc and /etc/hosts; NVIDIA's stack
leaves the empty files in the image's tree.
"""

import os
from binascii import a2b_base64, crc32

from minirun.core import jsonlite
from minirun.core.config import Config
from minirun.core.kernel import files, mounts
from minirun.core.state import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.gpu.edits import Edits

    Tree = tuple[
        int, int, int, bool, list[str], dict[str, tuple[int, str]], dict[str, str], dict[str, Any]
    ]

FOLDER = ".gpus/mountpoints"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_PSEUDO = ("/proc/", "/dev/", "/sys/")
_PECULIAR = frozenset(("rootfsPropagation", "mountLabel"))
_ROOM = 3000
"""Characters of layers' paths up to which one more surely fits into the page of mount options."""


class InitLayer:
    """What is to be in the layer, as it was written down in `file`."""

    def __init__(self, file: str, made_for: "list[str]", tree: "Tree") -> None:
        self.file = file
        self.made_for = made_for
        """What :func:`needs` returned: the layer is right for that alone."""
        self.tree = tree
        """A directory: (mode, user, group, whether the image has it too, empty files, by name
        (mode, content in base64) of the other files, links, directories)."""

    def mount(self, place: str) -> None:
        """Mount the layer at the host's directory `place`. Raises OSError."""
        flags = mounts.MS_NOSUID | mounts.MS_NODEV
        why = "a layer of mount points, as the last container of this image and wishes needed them"
        mounts.mount("tmpfs", place, "tmpfs", flags, "mode=755,size=8m", why=why)
        top = os.open(place, _DIRECTORY)
        try:
            _fill(top, "", self.tree)
        finally:
            os.close(top)


def _fill(top: int, above: str, tree: "Tree", made: str = "") -> str:
    """Make what is in the directory `above`; return an empty file, which all others are links of.

    Every folder on the way was made here, or mkdir has failed: none is a link.
    """
    empty, others, links, below = tree[4:]
    for name in empty:
        path = f"{above}{name}"
        if made:
            os.link(made, path, src_dir_fd=top, dst_dir_fd=top)
        else:
            os.close(os.open(path, _NEW, 0o644, dir_fd=top))
            made = path
    for name, (mode, content) in others.items():
        fd = os.open(f"{above}{name}", _NEW, mode, dir_fd=top)
        os.write(fd, a2b_base64(content))
        os.close(fd)
    for name, target in links.items():
        files.symlinkat(target, top, f"{above}{name}")
    for name, inner in below.items():
        path = f"{above}{name}"
        mode, user, group = inner[:3]
        os.mkdir(path, mode, dir_fd=top)
        if user or group or mode > 0o777:
            os.chown(path, user, group, dir_fd=top, follow_symlinks=False)
            os.chmod(path, mode, dir_fd=top)  # mkdir leaves out set-group-ID
        made = _fill(top, f"{path}/", inner, made)
    return made


def recall(root: str, config: Config) -> "InitLayer | None":
    """Return the layer for a container of the state root `root`; None where there is none yet."""
    if not fits(config):
        return None
    try:
        wanted = key(config)
        file = file_of(root, wanted)
        found = jsonlite.loads(read_text(file))
        if found["key"] != wanted:
            return None
        return InitLayer(file, found["made_for"], found["tree"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # nothing is lost: mount points are made in upper then


def fits(config: Config) -> bool:
    """Whether GPUs are asked for, and only they can bring mount points: no volume, no other hook.

    In a user namespace the files are somebody else's.
    """
    if not 0 < len(":".join(config.layers)) < _ROOM or "user" in config.namespaces:
        return False
    if not config.new_namespace("mount") or not _PECULIAR.isdisjoint(config.linux):
        return False
    if config.environment.get("NVIDIA_VISIBLE_DEVICES") in (None, "", "void"):
        return False
    hooks: "dict[str, Any]" = config.raw.get("hooks") or {}
    if any(not config.in_line(hook) for rows in hooks.values() for hook in rows or ()):
        return False
    rows = config.raw.get("mounts") or ()
    return all(f"{row['destination']}/".startswith(_PSEUDO) for row in rows)


def key(config: Config) -> str:
    """Return what the mount points depend on and stage 1 can know: the image, and the wishes.

    Which GPUs they are makes no difference: their nodes lie in /dev. Raises OSError.
    """
    layers = [(path, os.stat(path)) for path in config.layers]
    stamps = [f"{path} {found.st_ino} {found.st_mtime_ns}" for path, found in layers]
    wishes = sorted(
        f"{name}={value}"
        for name, value in config.environment.items()
        if name.startswith("NVIDIA_") and name != "NVIDIA_VISIBLE_DEVICES"
    )
    places = [config.choices.gpu_driver, config.choices.driver_root]
    return "\n".join([*stamps, *wishes, *places, config.simulation])


def needs(edits: "Edits", ldconfig_fd: int) -> "list[str]":
    """Return what the layer depends on and stage 5 can know: the driver, and the host's ldconfig.

    That is every name that the planner asks for, the folders that ldconfig looks through, and which
    files are the libraries and the program, -1 for none. The caller can still see the host's tree.
    Raises OSError.
    """
    folders = edits.library_folders
    found = [
        os.stat(mount.host_path)
        for mount in edits.mounts
        if mount.path.rpartition("/")[0] in folders
    ]
    if ldconfig_fd >= 0:
        found.append(os.fstat(ldconfig_fd))
    return [*edits.names, *folders, *(f"{s.st_ino} {s.st_size} {s.st_mtime_ns}" for s in found)]


def is_layer(name: str) -> bool:
    """Tell whether a file's name is one that :func:`file_of` returns."""
    digits = name.removesuffix(".json")
    return len(digits) == 8 and digits != name and set(digits) <= set("0123456789abcdef")


def file_of(root: str, wanted: str) -> str:
    """Return where the layer with this key is written down."""
    return f"{root}/{FOLDER}/{crc32(wanted.encode()):08x}.json"
