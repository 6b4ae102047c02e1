"""What a lesson needs of the machine, beside root."""

from pathlib import Path

from required import installed, skip


def machine_has(text: str) -> None:
    """Skip a lesson for what this machine lacks."""
    if "\nstrace " in text:
        installed("strace")
    if "pivot_root . " in text:
        installed("pivot_root")
    if "--cgroup v2" in text and " cgroup2 " not in Path("/proc/mounts").read_text():
        skip("no cgroup2 file system is mounted on this machine")
