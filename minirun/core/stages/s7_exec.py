"""Stage 7: pivot_root into the container's root filesystem, fewer privileges, exec.

From pivot_root on, every path is the image's, and the image is hostile: nothing is imported any
more, no name service is asked, and what was opened before is used through its descriptor. The last
step goes through the trampoline (minirun.core.process.trampoline), so that no program ever starts
while /proc/self/exe is the host's interpreter (CVE-2019-5736).
"""

from __future__ import annotations

import os
import select

from minirun.core import events, hooks
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import SIGNALLED
from minirun.core.handshake import Channel, Init, Message
from minirun.core.kernel import mounts, process, signals
from minirun.core.process import barrier, caps, command, privileges, streams
from minirun.core.rootfs import execute, hidden, mount_list
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from minirun.core.rootfs import Plan


class Ready:
    """What init prepares before pivot_root, while the runtime runs the hooks."""

    def __init__(self, container: Container, root: Root) -> None:
        """Prepare what init needs after pivot_root. Raises OSError, MinirunError."""
        os.umask(0o022)  # the root is built; else every user could write to what hooks make
        self.document = {**container.oci_state("creating"), "pid": os.getpid()}
        """The state for hooks in the container's namespaces: with the pid that init has there."""
        self.memfd = command.trampoline_for(container.preserve_fds)  # seccomp may refuse it later
        self.sets = caps.Sets(container.config.process.get("capabilities") or {}, caps.held())
        entries = container.config.process.get("env") or []
        for extra in container.extras.values():
            extra.before_pivot(root)  # seccomp is compiled; who serves `exec` opens its socket
            entries = extra.variables(root, entries)  # HOME
        self.config = container.config.with_variables(entries)
        """config.json, with the variables that the command gets: HOME is the image's."""


def runtime(container: Container, init: Init) -> None:
    """Take what init passes on: a seccomp listener. Raises OSError, MinirunError."""
    for extra in container.extras.values():
        extra.receive(init.channel, init.pid, init.pidfd, "creating")  # seccomp's


def init(
    container: Container, channel: Channel, root: Root, exec_fd: int, ready: Ready
) -> NoReturn:
    """Enter the new root, drop privileges, wait for `start`, become the container's command.

    `exec_fd` is the reading end of exec.fifo. Raises MinirunError, OSError.
    """
    config, document = ready.config, ready.document
    if container.stays_dumpable:
        process.prctl(process.PR_SET_DUMPABLE, 0, why="from now on programs run in here")
    with events.stage(7, "init", "pivot_root and exec", why="the host disappears") as stage:
        rootfs = f"/proc/self/fd/{root.fd}"  # runc runs them there, too
        hooks.run_all(config.hooks("createContainer"), "createContainer", document, rootfs)
        streams.connect(container, container.console, root)
        streams.lead_session(container)
        privileges.make_cwd(root, config.process)
        barrier.close_imports()
        # --no-pivot and the host's mount namespace do it in a way of their own
        if not any(extra.change_root(root) for extra in container.extras.values()):
            change_root(root, config)
        for extra in container.extras.values():
            extra.after_pivot()  # sysctls, through the container's own /proc
        inside = Root.at("/")
        execute(plan(container), inside)
        inside.close()
        for extra in container.extras.values():
            extra.after_hiding()  # rootfsPropagation: of an unbindable root nothing can be bound
        privileges.drop(container, ready.sets, channel)
        target = command.find(config.process["args"][0], config.environment)
        bound = config.choices.bound  # set once more, since setuid has cleared it
        why = "a step ends with its build" if bound else "from here on it lives without the runtime"
        process.prctl(process.PR_SET_PDEATHSIG, 9 * bound, why=why)
        end_by_signals()
        channel.say(Message.WAITING, why="all is ready; `start` writes to exec.fifo")
        wait_for_start(container, exec_fd)
        document["status"] = "created"
        rows = [{"env": config.process.get("env"), **row} for row in config.hooks("startContainer")]
        last_steps = [extra.before_exec for extra in container.extras.values()]  # seccomp
        hooks.run_all(rows, "startContainer", document, "", last_steps)
        for step in last_steps:
            step()
        command.execute(
            config, ready.memfd, container.preserve_fds, channel.write_fd, target, stage
        )


def plan(container: Container) -> Plan:
    """Return what is made read-only, and what is hidden, once the container's root is the root."""
    return (*mount_list.read_only(container.config), *hidden.plan(container.config))


def change_root(root: Root, config: Config) -> None:
    """Make `root` the root of this mount namespace, and unmount the old one.

    pivot_root(".", ".") stacks the old root upon the new one, so that no directory for it is
    needed: pivot_root(2), NOTES.
    """
    old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fchdir(root.fd)
    root.close()
    mounts.pivot_root(".", ".", why="from now on / is the container's")
    os.fchdir(old)
    os.close(old)
    if config.linux.get("rootfsPropagation"):  # or umount2 below would unmount it on the host, too
        mounts.mount(None, ".", None, mounts.MS_SLAVE | mounts.MS_REC, why="no way back")
    elif not config.layers:  # a new file system, such as an overlay, is private by itself
        mounts.mount(None, "/", None, mounts.MS_PRIVATE, why="nothing spreads in from the host")
    mounts.umount2(".", mounts.MNT_DETACH, why="the host's tree leaves this namespace")
    os.chdir("/")


def end_by_signals() -> None:
    """Let `kill` end what waits: process 1 gets only what it handles (pid_namespaces(7))."""
    for number in (signals.SIGHUP, signals.SIGINT, signals.SIGQUIT, signals.SIGTERM):
        signals.signal(number, lambda number, _: os._exit(SIGNALLED + number))


def wait_for_start(container: Container, exec_fd: int) -> None:
    """Wait until `start` writes to exec.fifo.

    If a `start` died after it removed the FIFO, go on too. Otherwise the next `start` will write.
    """
    poll = select.poll()
    poll.register(exec_fd, select.POLLIN)
    while True:
        for extra in container.extras.values():
            extra.while_waiting(poll)  # without root: who enters needs init's own descriptors
        ready = dict(poll.poll()).get(exec_fd, 0)
        if ready & select.POLLIN or (ready and os.fstat(exec_fd).st_nlink == 0):
            break
        if ready:  # POLLHUP, which stays until the next `start`
            select.poll().poll(20)
    os.close(exec_fd)
