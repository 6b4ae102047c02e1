"""`minirun exec`, another command in a running container, as runc and docker have it.

runc's flags describe a `process` of config.json, or name a file with one (--process), which is
what conmon and containerd's shim do. The interpreter starts anew before anything else is imported
(minirun.oci.exec.sealed); the work is cli.exec_inside's.
"""

from __future__ import annotations

from minirun.cli import part
from minirun.cli.flags import Flags, flag
from minirun.core.keeping.settings import Settings
from minirun.oci.exec import sealed


class Exec(Flags):
    """Run a command in a running container."""

    command, mixed, wrong = "exec", False, 1
    interactive: bool = flag("-i")
    tty: bool = flag("-t")
    detach: bool = flag("-d")
    env: list[str] = flag("-e")
    workdir: str = flag("-w", "--cwd")
    user: str = flag("-u")
    additional_gids: list[str] = flag("-g")
    process: str = flag("-p")
    cap: list[str] = flag("-c")
    no_new_privs: bool
    apparmor: str
    process_label: str
    cgroup: list[str]
    ignore_paused: bool
    console_socket: str
    pidfd_socket: str
    preserve_fds: str
    pid_file: str


def main_exec(args: list[str], settings: Settings) -> int:
    """Run a command in a container; return its exit status. Raises MinirunError, OSError."""
    flags = Exec(args)
    sealed.ensure(tuple(flags.env))  # -e NAME is the caller's variable
    inside: int = part("minirun.cli.docker.exec_inside", "run")(flags, settings)
    return inside
