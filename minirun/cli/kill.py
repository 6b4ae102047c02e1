"""`minirun kill`: runc's, to the letter. signal(7); pidfd_send_signal(2)."""

from minirun.cli.flags import HELP, Flag, parse, show_help
from minirun.core import endings, state
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.running import existing

FLAGS = (Flag(("-a", "--all"), "", "signal all processes"), HELP)
SIGNALS = {
    name: number
    for number, name in enumerate(
        (
            "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV",
            "USR2", "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN",
            "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
        )
    )
    if name
}  # fmt: skip
_SIGKILL = 9


def main(args: "list[str]", settings: Settings) -> int:
    """Send a signal (TERM by default) to a container's init, or with --all to all its processes.

    With --all a container that has stopped is no error, since containerd's shim asks so.
    """
    flags = parse("kill", FLAGS, args, mixed=True)
    if flags.help:
        return show_help("kill", "ID [SIGNAL]", "Send a signal to a container.", FLAGS)
    if not 1 <= len(flags.args) <= 2:
        text = f'"minirun kill" needs an id and perhaps a signal, got {len(flags.args)} arguments'
        raise UsageError(text, "minirun kill ID [SIGNAL]", 1)
    number = signal_number(flags.args[1] if len(flags.args) > 1 else "TERM")
    container = existing.load(settings, flags.args[0])
    if flags.all:
        if container.cgroup.exists():
            container.cgroup.kill(number)
        return 0
    endings.kill(container.record, number)
    if number == _SIGKILL and container.record["status"] == state.PAUSED:
        container.cgroup.thaw()  # version 1 delivers no signal to who is frozen, not even this one
    return 0


def signal_number(text: str) -> int:
    """Return 15 for TERM, SIGTERM, sigterm and 15. Raises UsageError."""
    name = text.upper().removeprefix("SIG")
    if name in SIGNALS:
        return SIGNALS[name]
    if text.isascii() and text.isdigit() and int(text) < 65:
        return int(text)
    raise UsageError(f"unknown signal {text!r}", "a name such as TERM, or a number", status=1)
