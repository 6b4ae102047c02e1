"""What a topic is: the fields that every answer of `explain` has."""

from dataclasses import dataclass

SYSTEM_CALL, MESSAGE, NOTE, GATE = "system call", "message", "note", "gate"
STAGE, ERRNO, ERROR, HINT, TROUBLE = "stage", "errno", "error", "hint", "trouble"
PROFILE = "profile"


@dataclass(frozen=True)
class Topic:
    """One thing to know. Every field is plain text; empty where there is nothing to say."""

    name: str
    """As it stands in the log: a call ("mount", or with its kind "mount overlay"), ENOENT, …"""
    title: str
    """What it is, in a few words."""
    here: str = ""
    """What it means in a minirun container."""
    cause: str = ""
    """Of an error: why it usually happens."""
    advice: str = ""
    """What to try, or what to look at."""
    man: str = ""
    """Where it is written: "pivot_root(2), NOTES"."""
    spec: str = ""
    """The section of the OCI runtime-spec: "config-linux.md, Namespaces"."""
    real: str = ""
    """What runc or NVIDIA's stack does at this step, and where minirun differs."""
    kind: str = SYSTEM_CALL
    """One of the words above: system call, message, note, gate, stage, errno, error, …"""
