"""linux.seccomp, profiles of system calls: compiled before clone, installed in stage 7.

Without noNewPrivileges the kernel wants CAP_SYS_ADMIN of who installs a filter, so it comes before
the container's user; with it, as late as can be, so that init's own calls hardly meet the filter.
A filter with a listener cannot be that late: `start` takes no listener.
"""

from minirun.core.container import Container
from minirun.core.extras import Extra
from minirun.core.handshake import Message
from minirun.core.kernel import process
from minirun.oci.seccomp import compiler, profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Channel
    from minirun.oci.seccomp.profile import Filter


def compiled(container: Container) -> Extra:
    """Compile the container's profile. Raises ConfigError, MinirunError."""
    document = container.config.linux["seccomp"]
    if not document:
        return Extra(container)  # runc takes an empty one for none
    return Seccomp(
        container, profile.load(document, container.record.get("seccomp") or profile.OF_BUNDLE)
    )


class Seccomp(Extra):
    """A compiled filter, and when it is installed."""

    def __init__(self, container: Container, filter: "Filter") -> None:
        super().__init__(container)
        self.filter = filter
        self.late = bool(container.config.process.get("noNewPrivileges"))

    def receive(self, channel: "Channel", pid: int, pidfd: int, status: str) -> None:
        """Pass on the listener, if there is one. Raises MinirunError, OSError."""
        if self.filter.listener:
            self.filter.listener.receive(self.container, channel, pid, pidfd, status)

    def before_user(self, channel: "Channel") -> None:
        """Install it, if the kernel wants CAP_SYS_ADMIN for that. Raises MinirunError, OSError."""
        if not self.late:
            self.install(channel)

    def after_user(self, channel: "Channel") -> None:
        """Install it, if it has a listener. Raises MinirunError, OSError."""
        if self.late and self.filter.listener:
            self.install(channel)

    def before_exec(self) -> None:
        """Install it, if that was not done before. Raises OSError."""
        if self.late and not self.filter.listener:
            compiler.install(self.filter.bpf, self.filter.flags, why=str(self.filter))

    def install(self, channel: "Channel") -> None:
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
