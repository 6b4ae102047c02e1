"""linux.seccomp, profiles of system calls: compiled beside init, installed in stage 7.

Compiling takes libseccomp about 10 ms, as long as init takes for its root filesystem, so the
runtime does it at the same time. The program waits in memory that both have open (memfd_create(2)),
and in seccomp.json in the container's directory: `exec` installs the same one, and does not compile
again.

Without noNewPrivileges the kernel wants CAP_SYS_ADMIN of who installs a filter, so it comes before
the container's user; with it, as late as can be, so that init's own calls hardly meet the filter.
A filter with a listener cannot be that late: `start` takes no listener.

    profile     linux.seccomp, read and checked
    compiler    libseccomp compiles it; seccomp(2) installs it
    new_calls   calls that are newer than the profile
    notify      SCMP_ACT_NOTIFY
    file        --security-opt seccomp=FILE, and minirun's own profile, default.json
"""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core.container import Container, Extra
from minirun.core.errors import StateError
from minirun.core.handshake import Message
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.visible import say
from minirun.core.kernel import process
from minirun.oci.seccomp import compiler, profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Channel, Init
    from minirun.core.rootfs.inroot import Root
    from minirun.oci.seccomp.profile import Filter, Rules


def compiled(container: Container) -> Extra:
    """Check the container's profile of system calls. Raises ConfigError, MinirunError."""
    if not container.config.linux["seccomp"]:
        return Extra(container)  # runc takes an empty one for none
    return Seccomp(container)


class Seccomp(Extra):
    """The filter of one container, and when it is installed."""

    filter: Filter
    """Compiled; in the runtime and in init it is there as soon as the root filesystem is."""

    def __init__(self, container: Container) -> None:
        super().__init__(container)
        self.late = bool(container.config.process.get("noNewPrivileges"))
        self.name = docker_record.of(container.record).seccomp or profile.OF_BUNDLE
        self.rules: Rules | None = None
        if kept := self._kept():
            self.filter = kept
        elif container.record.status == state.CREATING:
            self.rules = profile.check(self.config.linux["seccomp"], self.name)
            self.memfd = os.memfd_create("minirun:seccomp")
        else:
            self.filter = profile.load(self.config.linux["seccomp"], self.name)

    def from_outside(self, init: Init) -> None:
        """Compile it, for init and for each `exec`. Raises ConfigError, OSError."""
        if self.rules:
            self.filter = self.rules.compile()
            if self.container.settings.debug:  # runc's line, and as there without TSYNC
                flags = self.filter.flags & ~(compiler.TSYNC | compiler.TSYNC_ESRCH)
                say(f'level=debug msg="seccomp filter flags: {flags}"')
            row = {"flags": self.filter.flags, "allowed": self.filter.allowed}
            text = jsonlite.dumps({**row, "bpf": self.filter.bpf.hex()})
            os.write(self.memfd, text.encode())
            os.close(self.memfd)
            state.write(f"{self.container.directory}/{places.SECCOMP}", text)

    def before_pivot(self, root: Root) -> None:
        """Read the filter: the runtime compiled it while init built the root filesystem."""
        if self.rules:
            self.filter = self._read(os.pread(self.memfd, os.fstat(self.memfd).st_size, 0).decode())
            os.close(self.memfd)

    def _kept(self) -> Filter | None:
        """Return the filter as init has it; None if there is none, or it is an older minirun's."""
        try:
            return self._read(state.read_text(f"{self.container.directory}/{places.SECCOMP}"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{places.SECCOMP} of {self.container.name} is damaged") from None

    def _read(self, text: str) -> Filter:
        """Return the filter that `from_outside` has written as JSON."""
        row = jsonlite.loads(text)
        listener = profile.listener(self.config.linux["seccomp"])
        bpf, flags, allowed = bytes.fromhex(row["bpf"]), int(row["flags"]), int(row["allowed"])
        return profile.Filter(bpf, flags, allowed, self.name, listener)

    def receive(self, channel: Channel, pid: int, pidfd: int, status: str) -> None:
        """Pass on the listener, if there is one. Raises MinirunError, OSError."""
        if self.filter.listener:
            self.filter.listener.receive(self.container, channel, pid, pidfd, status)

    def before_user(self, channel: Channel) -> None:
        """Install it, if the kernel wants CAP_SYS_ADMIN for that. Raises MinirunError, OSError."""
        if not self.late:
            self.install(channel)

    def after_user(self, channel: Channel) -> None:
        """Install it with noNewPrivileges and a listener. Raises MinirunError, OSError."""
        if self.late and self.filter.listener:
            self.install(channel)

    def before_exec(self) -> None:
        """Install it, if that was not done before. Raises OSError."""
        if self.late and not self.filter.listener:
            compiler.install(self.filter.bpf, self.filter.flags, why=str(self.filter))

    def install(self, channel: Channel) -> None:
        """Install it; hand its listener, a descriptor, to the runtime, and wait until it has it.

        Raises OSError, MinirunError.
        """
        # to a runtime without privileges, as long as init is alone in its pid namespace
        shown = self.container.stays_dumpable and self.config.new_namespace("pid")
        if shown and self.filter.listener:
            process.prctl(process.PR_SET_DUMPABLE, 1, why="the runtime is to take the listener")
        fd = compiler.install(self.filter.bpf, self.filter.flags, why=str(self.filter))
        if self.filter.listener:
            channel.say(f"{Message.LISTENER} {fd}", why="a program decides over some system calls")
            channel.expect(Message.TAKEN)
            if shown:
                process.prctl(process.PR_SET_DUMPABLE, 0, why="as before")
