"""What can be neither saved nor restored: refused before anything is touched, at both ends.

At the checkpoint already, or a container would be ended that cannot be brought back. runc runs the
hooks of a container's begin once more at restore, from within CRIU's protocol; here they are
refused. createContainer and startContainer have done their work in what CRIU saves.
"""

import os

from minirun.core.config import Config
from minirun.core.errors import MinirunError
from minirun.core.keeping import places

_BEGIN = ("prestart", "createRuntime")
_ALONE = ("cgroup", "mount", "time")
"""Namespaces that CRIU does not enter, or would take for the container's with all that is in it."""


def config(config: Config, done: str, directory: str = "") -> None:
    """Refuse a container by its config.json, and its directory if it has one.

    `done` is what it cannot be: checkpointed, restored. Raises MinirunError.
    """
    hooks = config.hooks("prestart")
    has_gpus = directory and os.path.exists(f"{directory}/{places.EDITS}")
    if has_gpus or any(map(config.in_line, hooks)):
        text = f"a container with GPUs cannot be {done}: CRIU does not save their state"
        raise MinirunError(text, "NVIDIA's cuda-checkpoint takes a process off its GPU first")
    if "user" in config.namespaces:
        text = f"a container in a user namespace cannot be {done}"
        raise MinirunError(text, "its root may not open the files that hold its memory")
    if config.layers:
        text = f"a container of `run IMAGE` cannot be {done}: its own layer goes with it"
        raise MinirunError(text, "make a bundle with a root filesystem of its own, and run that")
    if config.terminal:
        text = f"a container with a terminal cannot be {done}: its other end is the caller's"
        raise MinirunError(text, "process.terminal: false in config.json")
    if "mount" not in config.namespaces:
        text = f"a container with the host's mounts cannot be {done}: CRIU would take them all"
        raise MinirunError(text, "give it a mount namespace in config.json")
    for kind in _ALONE:
        if config.namespaces.get(kind):
            text = f"a container that joined a {kind} namespace by path cannot be {done}"
            raise MinirunError(text, "leave its path out of config.json")
    for kind in _BEGIN:
        if config.hooks(kind):
            text = f"a container with {kind} hooks cannot be {done}: they would not run again"
            raise MinirunError(text, "do their work before, and take them out of config.json")
