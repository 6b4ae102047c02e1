"""`minirun nvidia-cdi-hook`: what a CDI spec has done in a container that config.json cannot say.

A program of its own, as NVIDIA's nvidia-cdi-hook is, and with its arguments, so that a spec can
name either. Engines run it as createContainer hook: in the container's namespaces, before
pivot_root, with the container's state on stdin. At that moment both trees can be seen, and the
image is hostile: everything here is resolved below the container's root (minirun.rootfs.inroot).

Simplified: update-ldcache writes the cache once and no file into /etc/ld.so.conf.d, so an ldconfig
that the container runs later has to find the folder by itself.
"""

import os
import stat
import sys

from minirun import jsonlite
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.errors import MinirunError, UsageError
from minirun.gpu import ldconfig
from minirun.kernel import files, mounts
from minirun.oci import state
from minirun.oci.config import Config
from minirun.rootfs.inroot import Root
from minirun.settings import Settings

FLAGS = (
    Flag(("--link",), "TARGET::LINK", "create-symlinks: a link and what it leads to", many=True),
    Flag(("--folder",), "DIR", "update-ldcache: a folder with libraries", many=True),
    Flag(
        ("--ldconfig-path",), "PATH", "update-ldcache: the host's program", default="/sbin/ldconfig"
    ),
    Flag(("--container-spec",), "FILE", "the container's state (default: standard input)"),
    HELP,
)
SUMMARY = """Change a half-made container: called by a runtime, as createContainer hook.

  create-symlinks                    make links in the container
  update-ldcache                     write its ld.so.cache
  disable-device-node-modification   tell the driver not to make device nodes in it"""
_NAMES = ("create-symlinks", "update-ldcache", "disable-device-node-modification")
_PROC = "/proc/driver/nvidia"
_ASKED, _ANSWER = b"ModifyDeviceFiles: 1", b"ModifyDeviceFiles: 0"
_PARAMS_LIMIT = 1 << 16
_ATTRIBUTES = (
    mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV
    | mounts.MOUNT_ATTR_NOEXEC
)  # fmt: skip


def main(args: "list[str]", settings: Settings) -> int:
    """Run one hook. Raises MinirunError, OSError."""
    flags = parse("nvidia-cdi-hook", FLAGS, args, mixed=True)
    if flags.help or not flags.args:
        sys.stdout.write(usage("nvidia-cdi-hook", "HOOK", SUMMARY, FLAGS))
        return 0 if flags.help else 1
    name = flags.args[0]
    if name not in _NAMES:
        raise UsageError(f"unknown hook 'nvidia-cdi-hook {name}'", ", ".join(_NAMES), 1)
    links = [split(text) for text in flags.link]
    root = Root.at(rootfs(flags.container_spec))
    try:
        if name == "create-symlinks":
            for target, path in links:
                make_link(root, target, path)
        elif name == "update-ldcache":
            update_cache(root, tuple(dict.fromkeys(flags.folder)), flags.ldconfig_path)
        else:
            pin_device_nodes(root)
    finally:
        root.close()
    return 0


def rootfs(path: str) -> str:
    """Return the container's root filesystem, by its state on stdin or in the file `path`.

    Raises MinirunError where that is no state, OSError.
    """
    text = state.read_text(path) if path else sys.stdin.read()
    try:
        bundle: str = jsonlite.loads(text)["bundle"]
        return Config(jsonlite.loads(state.read_text(f"{bundle}/config.json")), bundle).rootfs
    except (ValueError, KeyError, TypeError) as error:
        what = f"no container's state on {path or 'standard input'}: {error}"
        hint = "a runtime calls this, as createContainer hook"
        raise MinirunError(f"nvidia-cdi-hook: {what}", hint, 1) from None


def split(text: str) -> "tuple[str, str]":
    """Split TARGET::LINK. Raises UsageError."""
    target, colons, link = text.partition("::")
    if not (target and colons and link):
        hint = "as in --link libcuda.so.1::/usr/lib64/libcuda.so"
        raise UsageError(f"nvidia-cdi-hook: invalid link {text!r}", hint, 1)
    return target, link


def make_link(root: Root, target: str, path: str) -> None:
    """Make the link `path`, in place of another link or file of that name. Raises OSError.

    What it leads to is the container's business: it is made, not followed.
    """
    parent, name = root.parent(path)
    try:
        if _is_link_to(parent, name, target):
            return
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        files.symlinkat(target, parent, name, shown=path)
    finally:
        os.close(parent)


def _is_link_to(parent: int, name: str, target: str) -> bool:
    try:
        return os.readlink(name, dir_fd=parent) == target
    except OSError:
        return False


def update_cache(root: Root, folders: "tuple[str, ...]", program: str) -> None:
    """Make SONAME links and /etc/ld.so.cache with the host's ldconfig. Raises GPUError, OSError."""
    fd = ldconfig.open_host(f"@{program.removeprefix('@')}")
    if fd < 0:
        raise MinirunError(f"nvidia-cdi-hook: there is no {program} on this host", "", 1)
    ldconfig.finish(ldconfig.start(fd, root, folders))


def pin_device_nodes(root: Root) -> None:
    """Hide the driver's params behind a copy that says ModifyDeviceFiles: 0. Raises OSError.

    Else the driver's libraries would make nodes in the container by nvidia-modprobe. The copy lies
    on a tmpfs that is hung up only as long as it takes to bind the one file of it.
    """
    path = f"{_PROC}/params"
    try:
        data = root.read(path, _PARAMS_LIMIT)
    except FileNotFoundError:
        return
    if _ASKED not in data:
        return
    tree = _bind_of(root, data.replace(_ASKED, _ANSWER))
    try:
        mounts.mount_setattr(tree, _ATTRIBUTES, shown=path)
        target = root.open(path)
        try:
            mounts.move_mount(tree, target, shown=path)
        finally:
            os.close(target)
    finally:
        os.close(tree)


def _bind_of(root: Root, data: bytes) -> int:
    """Return a detached mount of a file, on a tmpfs of its own, that holds `data`."""
    below = root.open(_PROC, os.O_PATH | os.O_DIRECTORY)
    try:
        flags = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
        mounts.mount("tmpfs", f"/proc/self/fd/{below}", "tmpfs", flags, "mode=555", shown=_PROC)
    finally:
        os.close(below)
    cover = root.open(_PROC, os.O_PATH | os.O_DIRECTORY)
    try:
        kind = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open("params", kind, 0o444, dir_fd=cover)
        try:
            os.write(fd, data)
            os.fchmod(fd, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
            how = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
            return mounts.open_tree(fd, "", how, shown=f"{_PROC}/params")
        finally:
            os.close(fd)
    finally:
        mounts.umount2(f"/proc/self/fd/{cover}", mounts.MNT_DETACH)
        os.close(cover)
