"""Stage 1: clone() makes init in new namespaces; OverlayFS makes its root filesystem.

The runtime copies itself, so init has imported all that it will need: after stage 7's pivot_root
an import would load the container's files. runc executes itself anew here, and its C code enters
the namespaces before Go starts threads: a process with threads cannot enter a user namespace.
"""

from __future__ import annotations

import errno
import os

from minirun.core import events, rings
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.handshake import Channel, Ends, Init, Message, make_fifos
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts, namespaces, process
from minirun.core.process import streams
from minirun.core.rootfs import build, execute, mount_list, nodes
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from minirun.core.rootfs import Plan

CLONED = ("user", "mount", "pid", "uts", "ipc", "network")
"""Namespaces made by clone. The cgroup namespace is made by init once it is in its cgroup, since
its root is the cgroup that the process is in at that moment: cgroup_namespaces(7). IPC's next to
a user namespace is made by init as root in that: /dev/mqueue belongs to the one who makes it."""


def make_places(container: Container) -> None:
    """Make the FIFOs and the cgroup, before any process. Raises OSError, MinirunError."""
    make_fifos(container.directory)
    rings.make_cgroup(container)


def plan(container: Container) -> Plan:
    """Return what init will do to its root filesystem in this stage, in order.

    The cgroup namespace comes first: it decides which cgroups a mount of them shows. Then config's
    mounts, so /proc, /dev and -v; then /dev/null and the other nodes, which lie on /dev.
    """
    config = container.config
    new_cgroup = (NewCgroupNamespace(),) if config.new_namespace("cgroup") else ()
    return (*new_cgroup, *mount_list.plan(container), *nodes.plan(config))


class NewCgroupNamespace(Record):
    """Make a cgroup namespace, whose root is the cgroup that init is in now."""

    def describe(self) -> str:
        return "unshare --cgroup"

    def execute(self, root: Root) -> None:
        why = "now /proc/self/cgroup reads '/': the container sees its own cgroup as the root"
        namespaces.unshare(namespaces.CLONE_NEWCGROUP, why=why)


def runtime(container: Container, init_main: Callable[[Channel], NoReturn]) -> Init:
    """Clone init, which goes on in `init_main`. Raises OSError, MinirunError."""
    config = container.config
    ends = Ends(container.directory)
    kinds = [kind for kind in CLONED if config.new_namespace(kind)]
    flags = sum(namespaces.FLAGS[k] for k in kinds if k != "ipc" or "user" not in config.namespaces)
    # a helper of the namespaces that are joined clones in the runtime's place
    made = [pair for extra in container.extras.values() if (pair := extra.clone(flags))]
    pid, pidfd = made[0] if made else namespaces.clone3(
        flags, cgroup_fd=container.cgroup.clone_fd(),
        why="a copy of this process, alone in new namespaces",
    )  # fmt: skip
    if pid == 0:
        init_main(ends.init())
    return Init(pid, pidfd, ends.runtime())


def wait(container: Container, init: Init) -> None:
    """Do for init what it cannot do for itself, and wait until its root filesystem is built.

    Raises OSError, MinirunError.
    """
    if container.gates:
        container.gates.watched.append(init.pidfd)
    identity = state.identity(init.pid)
    container.save(container.record._replace(pid=init.pid, init=identity))
    for extra in container.extras.values():
        extra.from_outside(init)  # id maps, network devices, a score for the OOM killer
    if "user" in container.config.namespaces:
        init.channel.say(Message.MAPPED, why="init may become root of its user namespace now")
    init.channel.expect(Message.READY)
    container.cgroup.entered()


def init(container: Container, planned: Plan, channel: Channel) -> Root:
    """Build the root filesystem in the new mount namespace; return a descriptor of it.

    `planned` is what :func:`plan` has returned. Raises OSError, MinirunError.
    """
    pid = int(os.readlink("/proc/self"))  # as the host's /proc has it
    container.record = container.record._replace(pid=pid)
    events.become("init", pid)
    process.prctl(process.PR_SET_PDEATHSIG, 9, why="until exec, init dies with the runtime")
    if not container.stays_dumpable:
        why = "no process may look into a half-made container"
        process.prctl(process.PR_SET_DUMPABLE, 0, why=why)
    process.become_named("minirun:init")
    os.umask(0)
    streams.close_inherited(container.preserve_fds)
    config = container.config
    container.cgroup.join(cloned=True)
    os.sched_setaffinity(0, range(8192))  # its cgroup decides, and not the caller's taskset(1)
    if "user" in config.namespaces:
        channel.expect(Message.MAPPED)
        become_root(container)
    isolate_mounts(container)
    lower = container.layer_paths()
    root = build.root_mount(config, lower, container.directory).execute()
    set_names(container)
    for extra in container.extras.values():
        extra.inside()  # lo comes up; init becomes root of its user namespace
    execute(planned, root)
    container.cgroup.close()  # directories of the host: init takes none along
    channel.say(Message.READY, why="the root filesystem is built, but no process lives in it yet")
    channel.expect(Message.YOUR_TURN)
    return root


def become_root(container: Container) -> None:
    """Take on user and group 0 of the new user namespace."""
    if not (container.unprivileged or container.record.groups_denied):
        process.setgroups([])  # else in stage 7: by its groups a user reaches sources of mounts
    process.setgid(0)
    process.setuid(0)
    process.prctl(process.PR_SET_PDEATHSIG, 9, why="setuid has cleared it")
    if not container.stays_dumpable:
        process.prctl(process.PR_SET_DUMPABLE, 0)


def set_names(container: Container) -> None:
    """Set host name and domain name, if there is a UTS namespace to set them in."""
    config = container.config
    if "uts" in config.namespaces:
        if config.raw.get("hostname"):
            process.sethostname(config.raw["hostname"])
        if config.raw.get("domainname"):
            process.setdomainname(config.raw["domainname"])


def isolate_mounts(container: Container) -> None:
    """Keep mounts in this mount namespace, a copy of the host's, from spreading to the host.

    Raises OSError; MinirunError in a chroot(2), where pivot_root(2) would fail too.
    """
    try:
        # rootfsPropagation, and the host's own mount namespace, say otherwise
        if not any(extra.isolate() for extra in container.extras.values()):
            why = "no mount of the container may spread back to the host"
            mounts.mount(None, "/", None, mounts.MS_SLAVE | mounts.MS_REC, why=why)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        what = "/ is no mount point, as in a chroot: no container can be made here"
        raise MinirunError(what, "mount --bind DIR DIR before chroot DIR") from None
