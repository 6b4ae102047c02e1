"""RUN: one step of a build is one container of minirun's, whose writable layer becomes the layer.

The container is a run like any other, in a process of its own: it has a cgroup, a seccomp profile,
a log (`minirun timeline ID` shows it afterwards), and a network (rootfs_tools.build.network). That
process dies with the build, and the container with it, which the container of a run does not.
What the runtime itself has made in its root filesystem, places to mount on, is left out of the
layer.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Collection
from typing import Any, BinaryIO, NamedTuple

from minirun.common import docker_record
from minirun.common.docker_record import DockerRecord
from minirun.common.network_request import NetworkRequest
from minirun.core import endings
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import ImageError, MinirunError, from_os
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.places import UPPER
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.kernel import files, process
from minirun.engines import rootless_config
from minirun.oci import run_config
from minirun.oci.image_user import in_layers
from minirun.running import gc, signals, supervise
from minirun.running.reserve import first_record, reserve
from rootfs_tools.dockerfile.evaluate import RunStep
from rootfs_tools.dockerfile.trees import LayerTree, resolve
from rootfs_tools.export import OwnIds
from rootfs_tools.tar.pack import LayerPacker, writer_of
from rootfs_tools.tar.writer import TarWriter

_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_XDEV


class StepMount(NamedTuple):
    """What a step finds mounted."""

    source: str
    """A directory, a file or a socket of the host; "" for a tmpfs."""
    target: str
    options: tuple[str, ...]


class StepEnd(NamedTuple):
    """How a step has ended."""

    status: int
    """The exit status of the command; only after 0 is there a layer."""
    fell_back: bool
    """It was to be on a network, and none could be made."""


def run(
    settings: Settings, work: RunStep, layers: tuple[str, ...], mounts: tuple[StepMount, ...],
    output: BinaryIO, network: NetworkRequest | None, *, host_network: bool, quiet: bool,
) -> StepEnd:  # fmt: skip
    """Run the command over the layers, lowest first, and write its layer to `output`.

    `network`: what it asks for; None with `host_network`, and for lo alone. `quiet`: its standard
    output is not shown. Raises MinirunError, OSError.
    """
    container_id = f"build-{os.urandom(6).hex()}"
    document = _document(container_id, work, layers, mounts, network, host_network=host_network)
    choices = Choices(layers=layers, volatile=True, bound=True)
    config = Config(document, f"{settings.root}/{container_id}", choices)
    made: list[Container] = []
    fell_back = mmap.mmap(-1, 1)  # shared with the child

    def make() -> Container:
        record = first_record(settings, container_id, config)._replace(args=list(work.argv))
        docker = DockerRecord(
            managed=True, auto_remove=True, image="", default_pids_limit=True,
            network=network,
        )  # fmt: skip
        made.append(reserve(settings, config, docker_record.put(record, docker)))
        return made[0]

    def whole() -> int:
        if quiet:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            status = supervise.run(make, supervise.SupervisorOptions())
            fell_back[0] = bool(network) and docker_record.of(made[0].record).network is None
            if status == 0:
                _pack(made[0], _stubs(document, layers), output)
            return status
        finally:
            if made:
                endings.destroy(made[0])

    try:
        status = _in_child(whole)
        return StepEnd(status, bool(fell_back[0]))
    except BaseException:
        gc.collect(settings, container_id, dry=False)
        gc.remove_abandoned(settings.root)  # killed while it removed the container itself
        raise


def _document(
    container_id: str, work: RunStep, layers: tuple[str, ...], mounts: tuple[StepMount, ...],
    network: NetworkRequest | None, *, host_network: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the config.json of a step. Raises MinirunError, OSError."""
    user = in_layers(work.user, layers)
    options = run_config.RunOptions(
        args=work.argv, env=work.env, cwd=work.workdir or "/", pids_limit=run_config.PIDS_LIMIT,
        user=(user.uid, user.gid, user.groups), host_network=host_network,
        network=network, mounts=tuple(row for row in mounts if row.source),
    )  # fmt: skip
    document = run_config.config(container_id, options)
    document["mounts"] += [_tmpfs(row) for row in mounts if not row.source]
    if unprivileged():
        rootless_config.adapt(document)
    return document


def _tmpfs(row: StepMount) -> dict[str, Any]:
    options = ["nosuid", "nodev", *row.options]
    return {"destination": row.target, "type": "tmpfs", "source": "tmpfs", "options": options}


def _in_child(work: Callable[[], int]) -> int:
    """Do `work` in a child, which dies with this process; return what it returns.

    Raises MinirunError with the child's words.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    signals.block()  # a child whose pid is not known yet could not be ended
    pid = os.fork()
    if pid == 0:
        os._exit(_child(work, write_end, parent))
    os.close(write_end)
    try:
        signals.unblock()
        with open(read_end, encoding="utf-8", errors="replace") as pipe:
            said = pipe.read()
        signals.block()
    except BaseException:
        os.kill(pid, 9)
        raise
    finally:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        signals.unblock()
    if said or status < 0:
        raise ImageError(said or f"the step's supervisor died of signal {-status}")
    return status


def _child(work: Callable[[], int], write_end: int, parent: int) -> int:
    process.prctl(process.PR_SET_PDEATHSIG, 9, why="the step dies with the build")
    if os.getppid() != parent:
        return 1
    try:
        return work()
    except BaseException as caught:
        error = from_os(caught) if isinstance(caught, OSError) else caught
        line = error.line() if isinstance(error, MinirunError) else repr(error)
        os.write(write_end, line.encode(errors="replace"))
        return 1


def _stubs(document: dict[str, Any], layers: tuple[str, ...]) -> set[str]:
    """Return the paths that the runtime makes to mount on, since the layers do not have them."""
    tree = LayerTree(layers)
    try:
        found: set[str] = set()
        for row in document["mounts"]:
            parts = resolve(tree, str(row["destination"])).split("/")
            above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
            found.update(path for path in above if tree.stat(path) is None)
        return found
    finally:
        tree.close()


def pack_changes(container: Container, output: BinaryIO) -> None:
    """Write the layer of a container, as one of a build. Raises ImageError, OSError."""
    stubs = _stubs(container.config.raw, tuple(container.config.layers))
    linux = container.config.linux
    own = OwnIds(output, linux) if linux.get("uidMappings") and not unprivileged() else None
    _pack(container, stubs, output, own)


def _pack(
    container: Container, stubs: Collection[str], output: BinaryIO, own: TarWriter | None = None
) -> None:
    """Write what the container has changed. Raises ImageError, OSError."""
    writer = own or writer_of(output)
    fd = os.open(f"{container.directory}/{UPPER}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _StepPacker(writer, stubs).top(fd)
    finally:
        os.close(fd)
    writer.finish()
    output.flush()


class _StepPacker(LayerPacker):
    """Writes a layer without the places to mount on that are still empty."""

    def __init__(self, writer: TarWriter, stubs: Collection[str]) -> None:
        super().__init__(writer)
        self._stubs = stubs

    def entry(self, fd: int, path: str, depth: int) -> None:
        """Write what the O_PATH descriptor `fd` refers to."""
        if not self._is_stub(fd, path):
            super().entry(fd, path, depth)

    def _is_stub(self, fd: int, path: str) -> bool:
        info = os.fstat(fd)
        if path not in self._stubs or not stat.S_ISDIR(info.st_mode):
            return path in self._stubs and stat.S_ISREG(info.st_mode) and not info.st_size
        directory = files.reopen(fd, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return all(self._is_inner(directory, path, name) for name in os.listdir(directory))
        finally:
            os.close(directory)

    def _is_inner(self, directory: int, path: str, name: str) -> bool:
        inner = files.openat2(directory, name, os.O_PATH | os.O_NOFOLLOW, _STAY)
        try:
            return self._is_stub(inner, f"{path}/{name}")
        finally:
            os.close(inner)
