"""What can go wrong, as a tree, and what to try then.

    MinirunError                    one line on stderr, exit status 125 (docker: the runtime failed)
    ├── UsageError                  a flag or an argument is wrong
    ├── ConfigError                 config.json is wrong; says the exact path in it
    ├── ImageError                  no such image, or a broken one
    ├── StateError                  wrong id, or a container in the wrong state
    ├── HookError                   a hook failed or took too long
    ├── GPUError                    a GPU was asked for and cannot be given
    └── CommandError                the container's command cannot run: 127 missing, 126 refused

Texts are lower-case, without a full stop, and name the culprit; the hint says what to do.
"""

from __future__ import annotations

import errno
import os

from minirun.core.keeping.visible import clean

_LONGEST = 500
"""Characters of an error, or a hint. A longer one quotes a wrong input; its middle is left out."""


class MinirunError(Exception):
    """An error: one line for the user, and a hint that says what to do, or ""."""

    status = 125

    def __init__(self, text: str, hint: str = "", status: int | None = None) -> None:
        super().__init__(text)
        self.hint = hint
        if status is not None:
            self.status = status

    def line(self) -> str:
        """The one line that is printed: what, where, and what to do; cleaned."""
        parts = (" ".join(part.split("\n")) for part in (str(self), self.hint))
        half = _LONGEST // 2
        text, hint = (p if len(p) <= _LONGEST else f"{p[:half]} … {p[-half:]}" for p in parts)
        return clean(f"{text} ({hint})" if hint else text)


class UsageError(MinirunError):
    """A flag or an argument is wrong."""


class ConfigError(MinirunError):
    """config.json is wrong; the text begins with the path of the culprit in it."""


class ImageError(MinirunError):
    """There is no such image, or it cannot be used."""


class StateError(MinirunError):
    """There is no such container, or its state does not allow what was asked."""

    status = 1


class HookError(MinirunError):
    """A hook of config.json failed, or took longer than its timeout."""


class GPUError(MinirunError):
    """A GPU was asked for and cannot be given."""


NOT_FOUND, REFUSED = 127, 126
"""Exit statuses of a command that cannot be executed: a shell's, and docker's."""
SIGNALLED = 128
"""A command that signal n ended has the exit status SIGNALLED + n: a shell's rule, and docker's."""


class CommandError(MinirunError):
    """The container's command cannot be executed: NOT_FOUND, or REFUSED if it may not be."""

    status = NOT_FOUND


HINTS = {
    ("clone3", "EPERM"): "run as root, or ask for a user namespace with --uidmap and --gidmap",
    ("clone3", "EACCES"): "the cgroup is another's; or, on Ubuntu, users may make no namespaces: "
    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ("clone3", "ENOSPC"): "too many namespaces: see /proc/sys/user/max_*_namespaces",
    ("clone3", "EINVAL"): "this kernel lacks one of the namespaces asked for: minirun doctor",
    ("unshare", "EPERM"): "run as root",
    ("mount", "EPERM"): "run as root; a user namespace may not mount this file system",
    ("mount", "ENODEV"): "this kernel lacks that file system: minirun doctor",
    ("mount", "ENOENT"): "the source or the mount point does not exist",
    ("mount", "EINVAL"): "an option the file system does not know: dmesg says which",
    ("mount", "ELOOP"): "the image has a symbolic link where a directory is needed",
    ("open_tree", "ENOENT"): "the path on the host does not exist",
    ("open_tree", "ENOSYS"): "minirun needs Linux 5.12 or newer",
    ("move_mount", "ENOTDIR"): "a directory can only be mounted on a directory, a file on a file",
    ("openat2", "ENOSYS"): "minirun needs Linux 5.12 or newer",
    ("openat2", "EXDEV"): "the path leads out of the container's root filesystem",
    ("openat2", "ELOOP"): "the path runs through a link that minirun does not follow",
    ("pivot_root", "EINVAL"): "the new root must be a mount point, and not shared",
    ("mknodat", "EPERM"): "run as root, outside of a user namespace",
    ("bpf", "EPERM"): "needs CAP_SYS_ADMIN, or CAP_BPF and CAP_NET_ADMIN",
    ("bpf", "EINVAL"): "the kernel was built without CONFIG_CGROUP_BPF",
    ("setns", "EPERM"): "run as root",
    ("setns", "EINVAL"): "the namespace is of another kind, or the process is not single-threaded",
    ("write", "ENOSPC"): "the disk is full: free some by minirun rm ID, or by minirun image gc",
    ("mkdir", "ENOSPC"): "the disk is full: free some by minirun rm ID, or by minirun image gc",
    ("capset", "EPERM"): "minirun itself lacks a capability that the container asks for",
    ("sethostname", "EINVAL"): "a host name has at most 64 bytes",
    ("setuid", "EINVAL"): "that user id is not mapped in the container's user namespace",
    ("setgid", "EINVAL"): "that group id is not mapped in the container's user namespace",
    ("setrlimit", "EPERM"): "raising a hard limit needs CAP_SYS_RESOURCE",
}
"""What to try, per (system call, errno). `minirun explain --hints` prints this table."""

_AS_ROOT = "run as root"
_FOR_ROOT = "root is refused too: the file is immutable (lsattr), or a capability is missing"
_GENERAL = {
    "ENOSPC": "the disk is full: free some by minirun rm ID, or by minirun image gc",
    "EROFS": "that file system is read-only",
    "EACCES": "run as root",
    "EPERM": "run as root",
    "EMFILE": "the limit of open files is too low: ulimit -n",
    "ENOMEM": "out of memory, or above the memory limit",
}


def errno_name(number: int) -> str:
    """Return ENOENT for 2; the number as text if it has no name."""
    return errno.errorcode.get(number, str(number))


def os_error(code: int, path: str | None = None) -> OSError:
    """Return the error of that errno, as Python itself raises it: FileNotFoundError for ENOENT."""
    return OSError(code, os.strerror(code), path)


def reason(error: Exception) -> str:
    """Return an error's own words; those of an OSError are the kernel's: permission denied."""
    words: str | None = getattr(error, "strerror", None)
    return words.lower() if words else str(error)


def from_os(error: OSError, doing: str = "") -> MinirunError:
    """Turn an OSError into the one line a user sees: doing: call: path: text (hint)."""
    name = errno_name(error.errno or 0)
    call = getattr(error, "call", "")
    said = os.strerror(error.errno) if error.errno else str(error)
    parts = [doing, call, error.filename, said]
    text = ": ".join(str(part) for part in parts if part and not isinstance(part, int))
    hint = HINTS.get((call, name)) or _GENERAL.get(name, "")
    if hint.startswith(_AS_ROOT) and not os.geteuid():
        hint = _FOR_ROOT
    return MinirunError(text, hint)
