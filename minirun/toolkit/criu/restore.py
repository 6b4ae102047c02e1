"""`minirun restore`: a container again, from files that `checkpoint` has made.

The runtime makes what it makes of every container: directory, record and cgroup with its limits and
device rules, as config.json has them now. Then a child enters the cgroup, takes a mount namespace
of its own, makes the root filesystem a mount that CRIU can mount on, and becomes CRIU; what CRIU
forks is born in that cgroup. The first process is made as CRIU's sibling, and so as the runtime's
child, whose exit status it gets; a CRIU that has done its work is gone.

The restored command has the pid in there that it had. The host's number is another one.
"""

from __future__ import annotations

import os

from minirun import cgroups
from minirun.cgroups import cgroup_of
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import places, state
from minirun.core.kernel import mounts as mount_calls
from minirun.core.kernel import namespaces
from minirun.core.rootfs import build
from minirun.toolkit.criu import mounts, outside, program, refuse, streams
from minirun.toolkit.criu.dump import CriuOptions, common, forget, make_directory

LOG = "restore.log"


def check(config: Config, options: CriuOptions) -> None:
    """Refuse what cannot be restored, before anything is made. Raises MinirunError, ConfigError."""
    if os.geteuid() != 0:
        raise MinirunError("restore needs root: CRIU makes processes with given numbers")
    if not os.path.isfile(f"{options.images}/inventory.img"):
        what = "is not a checkpoint" if os.path.isdir(options.images) else "no such directory"
        raise MinirunError(f"{options.images}: {what}", "--image-path names what checkpoint made")
    refuse.config(config, "restored")


def restore(container: Container, options: CriuOptions) -> tuple[int, int]:
    """Make the processes again; return pid and pidfd of init, which is our child.

    Raises MinirunError, OSError; what it has made goes with `endings.destroy`.
    """
    criu = program.find()
    make_directory(options.work)
    inherited = streams.inherit(options.images)
    joined, fds = outside.inherit(container.config)
    cgroups.make(container)
    container.save(container.record)
    forget(options, LOG)
    argv = [criu, "restore", *_usual(container, options), *inherited.words, *joined]
    outcome = program.run(
        "restore",
        lambda: [*argv, *_enter(container, options)],
        {**inherited.fds, **fds},
        bound=True,
    )
    if outcome.status != 0:
        log = f"{options.work}/{LOG}"
        raise program.failure("restore", outcome, log, "nothing is left of the container")
    for fd in (*inherited.fds.values(), *fds.values()):
        if fd > 2:
            os.close(fd)
    return _adopt(container)


def _usual(container: Container, options: CriuOptions) -> list[str]:
    """Return the part of CRIU's command line that is the same for every restore."""
    return [
        *common(options, LOG), "--root", container.config.rootfs, "--restore-detached",
        "--restore-sibling", "--evasive-devices",
        "--pidfile", f"{container.directory}/{places.CRIU_PID}",
    ]  # fmt: skip


def _enter(container: Container, options: CriuOptions) -> list[str]:
    """In the child that will be CRIU: go to its working place; return more options for CRIU.

    Raises MinirunError, OSError.
    """
    config = container.config
    container.cgroup.join()
    namespaces.unshare(namespaces.CLONE_NEWNS, why="what is mounted for CRIU is gone with CRIU")
    private = mount_calls.MS_PRIVATE | mount_calls.MS_REC
    mount_calls.mount(None, "/", None, private, why="what is mounted from here on stays in here")
    root = build.root_mount(config, [], "").execute()
    found = mounts.load(options.images)
    mounts.refuse_links(config, root, found)
    mounts.make_places(config, root)
    root.close()
    words = mounts.restore_options(found, config, cgroup_of(container))
    for line in state.read_text("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            words += ["--cgroup-root", f"{name}:{path}"]
    return words


def _adopt(container: Container) -> tuple[int, int]:
    """Take over the first process that CRIU has made. Raises OSError."""
    path = f"{container.directory}/{places.CRIU_PID}"
    pid = int(state.read_text(path))
    os.unlink(path)
    pidfd = os.pidfd_open(pid)
    container.cgroup.entered()
    record = container.record._replace(pid=pid, init=state.identity(pid))
    container.save(record._replace(status=state.RUNNING, complete=True))
    return pid, pidfd
