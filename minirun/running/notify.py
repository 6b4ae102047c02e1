"""$NOTIFY_SOCKET: how a container's command tells systemd that it is ready. sd_notify(3).

A service sends READY=1 to the datagram socket that $NOTIFY_SOCKET names: the host's. The command
gets one of its own instead, /run/notify/notify.sock. `start` or `run` listens there, and hands on
READY, and MAINPID: the process that systemd is to watch. Nothing else of the container reaches it:
minirun.running.readiness.

What the real stack does: runc the same; crun binds the host's socket itself into the container.
"""

import os

from minirun.core.config import Config
from minirun.core.keeping import places

NAME = "notify.sock"
"""The socket, in the directory that :func:`make_directory` makes."""
_INSIDE = "/run/notify"


def manager() -> str:
    """Return the socket of the service manager, systemd's; "" if the caller has none."""
    return os.environ.get("NOTIFY_SOCKET", "")


def offer(config: Config, container: str) -> None:
    """Ask for the mount and the variable; `container`: the directory that it will have."""
    if not manager() or not config.process:
        return
    mount = {
        "destination": _INSIDE, "type": "bind", "source": f"{container}/{places.NOTIFY}",
        "options": ["bind", "nosuid", "noexec", "nodev", "ro"],
    }  # fmt: skip
    config.raw["mounts"] = [*(config.raw.get("mounts") or []), mount]
    variables = config.process.get("env") or []
    config.process["env"] = [*variables, f"NOTIFY_SOCKET={_INSIDE}/{NAME}"]


def make_directory(container: str) -> None:
    """Make the directory that :func:`offer` has named. Raises OSError."""
    if manager():
        path = f"{container}/{places.NOTIFY}"
        os.mkdir(path)
        os.chmod(path, 0o755)  # whatever the umask is: the command may be any user
