"""`minirun exec`, another command in a running container, as runc and docker have it.

runc's flags describe a `process` of config.json, or name a file with one (--process), which is
what conmon and containerd's shim do. The interpreter starts anew before anything else is imported
(minirun.oci.exec.sealed); the work is exec_inside's.
"""

from __future__ import annotations

from minirun.cli.runc.exec_flags import ExecFlags
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.oci.exec import sealed

with lazy:
    from minirun.cli.runc import exec_inside


def main_exec(args: list[str], settings: Settings) -> int:
    """Run a command in a container; return its exit status. Raises MinirunError, OSError."""
    flags = ExecFlags(args)
    sealed.ensure(tuple(flags.env))  # -e NAME is the caller's variable
    return exec_inside.run(flags, settings)
