"""A half-started container for tests: a process in a mount namespace of its own, before pivot_root.

Its root filesystem is a folder that is bound to itself, with proc, and a tmpfs on /dev: what stage
5 finds. Everything ends with the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minirun.core import events
from minirun.core.errors import MinirunError, from_os
from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.core.kernel.architecture import NARROW, NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu import inject
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.cli import cli_args

BUSYBOX = "/bin/busybox"


def debian_root(path: Path) -> Path:
    """A root filesystem laid out as Debian's, with merged /usr, and busybox in it."""
    libraries = [f"usr/lib/{row.triplet}" for row in (NATIVE, NARROW) if row]
    for folder in ("etc/ld.so.conf.d", "usr/bin", *libraries, "run", "tmp", "proc", "sys", "dev"):
        (path / folder).mkdir(parents=True)
    (path / "bin").symlink_to("usr/bin")
    (path / "lib").symlink_to("usr/lib")
    (path / "etc/debian_version").write_text("12.0\n")
    (path / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (path / "etc/ld.so.conf.d/x.conf").write_text(f"/usr/lib/{NATIVE.triplet}\n")
    return with_busybox(path)


def busybox_root(path: Path) -> Path:
    """A root filesystem with nothing but busybox: no /etc/ld.so.conf, no library, no loader."""
    for folder in ("bin", "usr/bin", "proc", "dev"):
        (path / folder).mkdir(parents=True)
    return with_busybox(path)


def with_busybox(path: Path) -> Path:
    shutil.copy(BUSYBOX, path / "bin/busybox")
    for name in ("sh", "ls", "cat"):
        (path / "bin" / name).symlink_to("busybox")
    return path


def host_path(mount: mountinfo.Mount) -> str:
    """Return the place on this machine of a mount's source.

    mountinfo has the path in the source's file system, which need not be mounted whole, nor at /.
    A whole file system, and one that is not mounted here, is told as mountinfo has it.
    """
    path = mount.root
    here = [each for each in mountinfo.read() if each.device == mount.device]
    roots = [(each.root.rstrip("/"), each.mount_point.rstrip("/")) for each in here]
    roots = [(root, at) for root, at in roots if path.startswith(f"{root}/")]
    if path == "/" or not roots:
        return path
    root, at = max(roots, key=lambda pair: len(pair[0]))
    return at + path[len(root) :]


class Recorder:
    """Stands where the cgroup stands: tells which rules stage 5 asked for."""

    def __init__(self) -> None:
        self.rules: list[str] = []

    def allow_devices(self, rules: list[Any]) -> None:
        self.rules += [str(rule) for rule in rules]


class Sandbox:
    """The container of the tests; use it as a context manager."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def __enter__(self) -> Sandbox:
        ready, write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._init(write_fd)
        os.close(write_fd)
        assert os.read(ready, 1) == b"x", "the sandbox did not start"
        os.close(ready)
        return self

    def _init(self, write_fd: int) -> None:
        try:
            namespaces.unshare(namespaces.CLONE_NEWNS)
            mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
            mounts.mount(self.root, self.root, None, mounts.MS_BIND)
            mounts.mount("proc", f"{self.root}/proc", "proc")
            mounts.mount("tmpfs", f"{self.root}/dev", "tmpfs", 0, "mode=755")
            os.write(write_fd, b"x")
            signal.pause()
        finally:
            os._exit(1)

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def configure(self, *options: str, store: str, **environment: str) -> dict[str, Any]:
        """Stage 5 by its one call, in a process of its own, with the simulated driver."""
        recorder = Recorder()

        def work() -> dict[str, Any]:
            os.environ.update(environment)
            argv = ["configure", "--ldconfig=@/sbin/ldconfig", *options, self.root]
            found = inventory("simulated", store)
            request = cli_args.parse(argv).request
            edits = inject.configure(request, found=found, pid=self.pid, cgroup=recorder)
            return {"edits": edits.as_json(), "rules": recorder.rules}

        return self._child(work)

    def inside(self, work: Callable[[Root], Any]) -> dict[str, Any]:
        """Call `work` in the container's mount namespace, with its root."""

        def entered() -> Any:
            fd = os.open(f"/proc/{self.pid}/ns/mnt", os.O_RDONLY)
            namespaces.setns(fd, namespaces.CLONE_NEWNS)
            return work(OwnRoot(Root.at(self.root).fd))

        return self._child(entered)

    def _child(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Run `work` in a child; return its result, or the error's line, with the events."""
        answer, write_fd = os.pipe()
        log = Path(self.root).parent / f"events-{os.urandom(4).hex()}.jsonl"
        pid = os.fork()
        if pid == 0:
            events.open_log(str(log), "test")
            try:
                result = {"result": work(), "error": ""}
            except MinirunError as error:
                result = {"error": error.line()}
            except OSError as error:
                result = {"error": from_os(error).line()}
            except BaseException as error:
                result = {"error": f"CRASH {error!r}"}
            os.write(write_fd, json.dumps(result).encode())
            os._exit(0)
        os.close(write_fd)
        with os.fdopen(answer) as file:
            result = json.loads(file.read())
        os.waitpid(pid, 0)
        result["events"] = [json.loads(line) for line in log.read_text().splitlines()]
        return result

    def view(self, path: str = "") -> Path:
        """A path of the container as the test's process can look at it."""
        return Path(f"/proc/{self.pid}/root{self.root}{path}")

    def mounts(self) -> list[dict[str, Any]]:
        """What is mounted below the root, in order, in the words of the golden cases."""
        rows = []
        for mount in mountinfo.read(self.pid):
            if not mount.mount_point.startswith(f"{self.root}/"):
                continue
            flags = sorted(set(mount.options.split(",")) - {"relatime"})
            at, kind = mount.mount_point[len(self.root) :], mount.fs_type
            rows.append({"at": at, "flags": flags, "from": host_path(mount), "type": kind})
        return rows

    def chroot(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the container, in its mount namespace and its root."""
        enter = ("nsenter", f"--mount=/proc/{self.pid}/ns/mnt", "chroot", self.root)
        return subprocess.run(
            [*enter, *argv],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        )


def tree(path: Path) -> dict[str, dict[str, Any]]:
    """Everything below `path` but /proc: type, mode, device, link target, in the golden words."""
    found: dict[str, dict[str, Any]] = {}
    names = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "dir",
        stat.S_IFCHR: "char",
        stat.S_IFSOCK: "socket",
    }
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = f"{folder}/{name}"
            status = os.lstat(full)
            short = full[len(str(path)) :]
            if stat.S_ISLNK(status.st_mode):
                found[short] = {"type": "symlink", "target": os.readlink(full)}
                continue
            row: dict[str, Any] = {
                "type": names[stat.S_IFMT(status.st_mode)],
                "mode": oct(status.st_mode & 0o777),
            }
            if row["type"] == "char":
                row["dev"] = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            found[short] = row
        folders[:] = [name for name in folders if f"{folder}/{name}" != f"{path}/proc"]
    return found


def fingerprint(path: Path) -> str:
    """One hash over names, types, modes, owners, targets and contents of a tree."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(folders + files):
            full = os.path.join(folder, name)
            status = os.lstat(full)
            digest.update(f"{full} {status.st_mode} {status.st_uid} {status.st_nlink}\n".encode())
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.readlink(full).encode())
            elif stat.S_ISREG(status.st_mode):
                digest.update(Path(full).read_bytes())
    return digest.hexdigest()
