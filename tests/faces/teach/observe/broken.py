"""Sixteen bundles whose container does not start, and what is true of each under runc and crun.

Each is the config.json of `runc spec` and busybox's root filesystem, with one thing broken. What is
true was read by hand from `strace -f` of runc 1.1.5 and crun 1.8.1, Linux 6.18, cgroup v1. It often
differs from what the runtime prints: runc says "mkdir /plain: not a directory", and called stat.

    bundle = make(BROKEN["hook-program-missing"], path)
    subprocess.run([*argv("crun"), "--root", root, "run", "--bundle", bundle, name])
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layers import copy_layer, layer_of

Config = dict[str, Any]
RUNTIMES = ("runc", "crun")
RUNTIME, NSEXEC, INIT, HOOK = "runtime", "nsexec", "init", "hook"
VERSIONS = {"runc": "runc version 1.1.5", "crun": "crun version 1.8.1"}
"""Of which versions this is true; others may make other calls."""
EXIT = "exit_group"
_V2 = "/sys/fs/cgroup/unified"
_WITHOUT_V2 = ["unshare", "-m", "--propagation", "private"]
_WITHOUT_V2 += ["sh", "-c", f'umount {_V2} && exec "$@"', "sh"]
"""crun refuses a cgroup2 with a controller beside version 1's hierarchies: it is not to see it."""


@dataclass(frozen=True)
class Failure:
    """The system call because of which a runtime gave up, the last one if it tried several."""

    call: str
    """As strace has it on x86-64; `exit_group` if a hook's own decision was the reason."""
    errno: str
    """Empty if the call succeeded: the runtime, or the hook, then decided by itself."""
    actor: str
    """runtime: in the host's namespaces, or before any are made; nsexec: runc's copy of itself that
    makes init; init; hook."""
    stage: int
    """Of minirun's seven: the one that does in minirun what the runtime did here."""
    about: str
    """What stands among the call's arguments in strace's line."""
    note: str = ""


@dataclass(frozen=True)
class Broken:
    """A bundle that does not start."""

    breaks: Callable[[Config, Path], None]
    """Changes config.json, or the root filesystem, whose path it gets."""
    runc: Failure
    crun: Failure
    topic: str
    """The topic of `minirun explain` that the text of either runtime must find."""

    def failure(self, runtime: str) -> Failure:
        """Return what is true under "runc" or "crun"."""
        return {"runc": self.runc, "crun": self.crun}[runtime]


def make(broken: Broken, path: Path) -> Path:
    """Make the bundle in an empty directory, and return this directory."""
    subprocess.run(["runc", "spec", "--bundle", str(path)], check=True)
    rootfs = path / "rootfs"
    copy_layer(layer_of("busybox"), rootfs)
    file = path / "config.json"
    config = json.loads(file.read_text())
    config["ociVersion"] = "1.0.2"  # Ubuntu 24.04's crun refuses that of its runc
    config["process"]["terminal"] = False
    config["process"]["args"] = ["true"]
    broken.breaks(config, rootfs)
    file.write_text(json.dumps(config))
    return path


def argv(runtime: str) -> list[str]:
    """Return the words with which "runc" or "crun" is started on this machine."""
    return [*_WITHOUT_V2, runtime] if runtime == "crun" and os.path.isdir(_V2) else [runtime]


def clear(runtime: str, root: Path, name: str) -> None:
    """Delete what is left of a container: crun keeps no record of one whose cgroup failed."""
    delete = [*argv(runtime), "--root", str(root), "delete", "--force", name]
    subprocess.run(delete, check=False, capture_output=True)
    for left in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        left.rmdir()


def _plain(rootfs: Path, mode: int) -> None:
    """Make /plain, a file that is no program of any processor."""
    file = rootfs / "plain"
    file.write_bytes(b"\0\0\0 plain")
    file.chmod(mode)


def _command_missing(config: Config, _: Path) -> None:
    config["process"]["args"] = ["nosuch"]


def _command_not_executable(config: Config, rootfs: Path) -> None:
    _plain(rootfs, 0o644)
    config["process"]["args"] = ["/plain"]


def _command_of_no_format(config: Config, rootfs: Path) -> None:
    _plain(rootfs, 0o755)
    config["process"]["args"] = ["/plain"]


def _root_missing(config: Config, _: Path) -> None:
    config["root"]["path"] = "nosuch/rootfs"


def _mount_source_missing(config: Config, _: Path) -> None:
    mount = {"destination": "/mnt", "type": "bind", "source": "/nosuch", "options": ["rbind"]}
    config["mounts"].append(mount)


def _mount_type_unknown(config: Config, _: Path) -> None:
    config["mounts"].append({"destination": "/mnt", "type": "nosuchfs", "source": "none"})


def _hook(config: Config, kind: str, *args: str) -> None:
    config["hooks"] = {kind: [{"path": args[0], "args": list(args)}]}


def _prestart_hook_fails(config: Config, _: Path) -> None:
    _hook(config, "prestart", "/bin/sh", "-c", "echo no network here >&2; exit 7")


def _hook_program_missing(config: Config, _: Path) -> None:
    _hook(config, "prestart", "/nosuch/hook")


def _create_container_hook_fails(config: Config, _: Path) -> None:
    _hook(config, "createContainer", "/bin/sh", "-c", "echo no device here >&2; exit 7")


def _cwd_below_a_file(config: Config, rootfs: Path) -> None:
    _plain(rootfs, 0o644)
    config["process"]["cwd"] = "/plain/x"


def _namespace_missing(config: Config, _: Path) -> None:
    spaces = config["linux"]["namespaces"]
    next(one for one in spaces if one["type"] == "network")["path"] = "/proc/1/nosuch"


def _no_such_cpu(config: Config, _: Path) -> None:
    config["linux"]["resources"]["cpu"] = {"cpus": "9999"}


def _sysctl_missing(config: Config, _: Path) -> None:
    config["linux"]["sysctl"] = {"net.nosuch": "1"}


def _id_maps_overlap(config: Config, _: Path) -> None:
    linux = config["linux"]
    linux["namespaces"].append({"type": "user"})
    linux["gidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 10}]
    second = {"containerID": 5, "hostID": 200000, "size": 10}
    linux["uidMappings"] = [*linux["gidMappings"], second]


def _hostname_too_long(config: Config, _: Path) -> None:
    config["hostname"] = "h" * 65


def _device_below_a_file(config: Config, rootfs: Path) -> None:
    _plain(rootfs, 0o644)
    config["linux"]["devices"] = [{"path": "/plain/x", "type": "c", "major": 1, "minor": 5}]


_NO_MKDIR = "runc prints mkdir, and makes no such call: it saw by stat that /plain is a file"
_NO_EXECVE = "each folder of PATH is tried; execve is never called"

BROKEN = {
    "command-missing": Broken(
        _command_missing,
        Failure("newfstatat", "ENOENT", INIT, 7, "/bin/nosuch", _NO_EXECVE),
        Failure("newfstatat", "ENOENT", INIT, 7, "/bin/nosuch", _NO_EXECVE),
        "executable file not found",
    ),
    "command-not-executable": Broken(
        _command_not_executable,
        Failure("newfstatat", "", INIT, 7, "/plain", "no call fails: the mode has no x for runc"),
        Failure("access", "EACCES", INIT, 7, "/plain", "execve is never called"),
        "exec: permission denied",
    ),
    "command-of-no-format": Broken(
        _command_of_no_format,
        Failure("execve", "ENOEXEC", INIT, 7, "/plain"),
        Failure("execve", "ENOEXEC", INIT, 7, "/plain"),
        "exec format error",
    ),
    "root-missing": Broken(
        _root_missing,
        Failure("newfstatat", "ENOENT", RUNTIME, 1, "/nosuch", "before any clone"),
        Failure("mount", "ENOENT", INIT, 1, "nosuch", "it makes the parent mount private"),
        "the root filesystem is missing",
    ),
    "mount-source-missing": Broken(
        _mount_source_missing,
        Failure("newfstatat", "ENOENT", INIT, 1, "/nosuch", "mount is never called"),
        Failure("statx", "ENOENT", INIT, 1, "/nosuch", "mount is never called"),
        "mount: no such file or directory",
    ),
    "mount-type-unknown": Broken(
        _mount_type_unknown,
        Failure("mount", "ENODEV", INIT, 1, "nosuchfs"),
        Failure("mount", "ENODEV", INIT, 1, "nosuchfs"),
        "mount: no such device",
    ),
    "prestart-hook-fails": Broken(
        _prestart_hook_fails,
        Failure(EXIT, "", HOOK, 3, "7", "the runtime started it"),
        Failure(EXIT, "", HOOK, 3, "7", "the runtime started it; crun's own exit status is 255"),
        "error running hook #0",
    ),
    "hook-program-missing": Broken(
        _hook_program_missing,
        Failure("execve", "ENOENT", HOOK, 3, "/nosuch/hook", "in the runtime's new child"),
        Failure("execve", "ENOENT", HOOK, 3, "/nosuch/hook", "in the runtime's new child"),
        "error running hook #0",
    ),
    "create-container-hook-fails": Broken(
        _create_container_hook_fails,
        Failure(EXIT, "", HOOK, 7, "7", "init started it, before pivot_root"),
        Failure(EXIT, "", HOOK, 7, "7", "init started it, before pivot_root"),
        "error running hook #0",
    ),
    "cwd-below-a-file": Broken(
        _cwd_below_a_file,
        Failure("newfstatat", "ENOTDIR", INIT, 7, "/plain/x", _NO_MKDIR),
        Failure("chdir", "ENOTDIR", INIT, 7, "/plain/x", "its mkdirat in stage 1 failed too"),
        "chdir: not a directory",
    ),
    "namespace-missing": Broken(
        _namespace_missing,
        Failure("newfstatat", "ENOENT", RUNTIME, 1, "/proc/1/nosuch", "before any clone"),
        Failure("openat", "ENOENT", RUNTIME, 1, "/proc/1/nosuch", "before any clone"),
        "namespace path",
    ),
    "no-such-cpu": Broken(
        _no_such_cpu,
        Failure("write", "ERANGE", RUNTIME, 1, "9999", "the file is cpuset.cpus"),
        Failure("write", "ERANGE", RUNTIME, 1, "9999", "the file is cpuset.cpus"),
        "cpuset.cpus: numerical result out of range",
    ),
    "sysctl-missing": Broken(
        _sysctl_missing,
        Failure("openat", "ENOENT", INIT, 7, "/proc/sys/net/nosuch", "after pivot_root"),
        Failure("openat", "ENOENT", INIT, 1, "net/nosuch", "before the first mount"),
        "sysctl cannot be set",
    ),
    "id-maps-overlap": Broken(
        _id_maps_overlap,
        Failure("write", "EINVAL", NSEXEC, 1, "5 200000 10", "it is runc init's first process"),
        Failure("write", "EINVAL", RUNTIME, 1, "5 200000 10"),
        "uid_map: invalid argument",
    ),
    "hostname-too-long": Broken(
        _hostname_too_long,
        Failure("sethostname", "EINVAL", INIT, 7, "65"),
        Failure("sethostname", "EINVAL", INIT, 7, "65"),
        "sethostname: invalid argument",
    ),
    "device-below-a-file": Broken(
        _device_below_a_file,
        Failure("newfstatat", "ENOTDIR", INIT, 1, "/plain/x", _NO_MKDIR),
        Failure("mknodat", "ENOTDIR", INIT, 1, '"x"', "relative to a descriptor of /plain"),
        "error creating device nodes",
    ),
}
