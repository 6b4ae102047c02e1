"""The flags of `exec`: docker's and runc's."""

from __future__ import annotations

from minirun.cli.flags import Flags, flag

RUNCS = frozenset(
    (
        "additional_gids", "apparmor", "cap", "cgroup", "console_socket", "ignore_paused",
        "no_new_privs", "pid_file", "pidfd_socket", "preserve_fds", "process", "process_label",
    )
)  # fmt: skip
"""Flags of `exec` that docker has not."""


class ExecFlags(Flags):
    """Run a command in a running container."""

    command, mixed, wrong = "exec", False, 1
    interactive: bool = flag("-i")
    tty: bool = flag("-t")
    detach: bool = flag("-d")
    env: list[str] = flag("-e")
    env_file: list[str]
    privileged: bool
    detach_keys: str
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
