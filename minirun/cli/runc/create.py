"""`minirun create`: runc's, to the letter; and what it has in common with `run --bundle`."""

from __future__ import annotations

from minirun.cli.flags import Flags, flag
from minirun.core.errors import UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.settings import Settings
from minirun.running import bundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cli.run.run_flags import RunFlags


class Create(Flags):
    """Create a container from an OCI bundle."""

    command = "create"
    bundle: str = flag("-b")
    console_socket: str
    pidfd_socket: str
    pid_file: str
    preserve_fds: str
    no_pivot: bool
    no_new_keyring: bool


def main(args: list[str], settings: Settings) -> int:
    """Create a container from a bundle; its init waits at exec.fifo."""
    bundle.create(bundle_options(Create(args), settings.choices), settings)
    return 0


def bundle_options(flags: Create | RunFlags, choices: Choices) -> bundle.BundleOptions:
    """Return what the flags say. Raises UsageError, in runc's words if there is not one id."""
    if len(flags.args) != 1:
        raise UsageError(f'"minirun create" needs exactly one id, got {len(flags.args)}', status=1)
    return bundle.BundleOptions(
        flags.args[0], flags.bundle, bundle.choices(choices), flags.console_socket,
        flags.pidfd_socket, flags.pid_file, flags.preserve_fds, flags.no_pivot,
        flags.no_new_keyring,
    )  # fmt: skip
