"""Who the command of `run` is, and what it may do: --user, --group-add, --privileged, --ipc,
--security-opt, --init.
"""

from __future__ import annotations

import os

from minirun.cli.run.run_flags import ConfigFlags
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import places
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.core.lazy import lazy
from minirun.image.store import Image
from minirun.oci.image_user import groups_in_layers, in_layers
from minirun.oci.run_config import INIT, RunOptions
from minirun.oci.seccomp.file import NAME as DEFAULT_PROFILE

with lazy:
    from minirun.cli.run import properties
    from minirun.oci.tuning import labels  # 10 ms, for AppArmor
    from minirun.running import joined, shared_memory

_UNCONFINED = "unconfined"
_SECURITY = (
    "seccomp=FILE|unconfined, no-new-privileges[=true|false], apparmor=PROFILE, label=disable,"
    " systempaths=unconfined"
)


_INITS = (
    "/usr/bin/docker-init", "/usr/bin/tini-static", "/usr/bin/catatonit",
    "/usr/libexec/docker/docker-init", "/usr/libexec/podman/catatonit", "/usr/sbin/docker-init",
)  # fmt: skip
"""Programs of the host that --init takes, none of which needs a library of the image."""
_OPENED = (
    "--privileged: every capability, every device of the host, /sys and its cgroups writable;"
    " no seccomp profile, nothing of /proc and /sys hidden"
)


def add(run: RunOptions, flags: ConfigFlags, image: Image) -> RunOptions:
    """Return the options with the command's user and rights. Raises MinirunError, OSError."""
    user = in_layers(flags.user or image.user, image.layers)
    more = groups_in_layers(flags.group_add, image.layers)
    run = run._replace(user=(user.uid, user.gid, tuple(dict.fromkeys((*user.groups, *more)))))
    if flags.privileged:
        run = _privileged(run)
    return _confined(run, flags.security_opt)


def _privileged(run: RunOptions) -> RunOptions:
    nodes = properties.devices_of_host()
    return run._replace(
        privileged=True, unmasked=True, seccomp="", warnings=(*run.warnings, _OPENED),
        properties=(*run.properties, ("linux.devices", nodes)),
    )  # fmt: skip


def with_ipc(run: RunOptions, mode: str, settings: Settings) -> RunOptions:
    """Return the options with --ipc. Raises MinirunError, OSError."""
    if mode.startswith("container:"):
        other = joined.running(mode, settings, "ipc")
        if "ipc" not in other.config.namespaces:
            return run._replace(ipc="host")
        return run._replace(
            ipc_path=joined.path(other, "ipc"), shm=shared_memory.source(other),
            joined=run.joined | {"ipc": other.id},
        )  # fmt: skip
    if mode not in ("private", "shareable", "host", "none"):
        right = "private, shareable, host, none, or container:ID"
        raise UsageError(f"invalid --ipc {mode!r}", right)
    if mode != "shareable":
        return run._replace(ipc=mode)
    if unprivileged():
        text = "--ipc shareable needs root: its /dev/shm is a mount of the host"
        raise UsageError(text, "leave it out: the container's own is private")
    return run._replace(shm=places.SHM)


def with_init(run: RunOptions) -> RunOptions:
    """Return the options with pid 1 a small program that passes signals on and reaps children.

    Raises MinirunError if the host has none.
    """
    program = next((path for path in _INITS if os.access(path, os.X_OK)), "")
    if not program:
        text = "--init: neither docker-init, tini-static nor catatonit is installed"
        raise MinirunError(text, "apt install tini")
    return run._replace(
        args=(INIT, "--", *run.args), mounts=(*run.mounts, (program, INIT, ("ro",)))
    )


def _confined(options: RunOptions, texts: list[str]) -> RunOptions:
    """Return the options with what --security-opt says; of two with one key the later counts.

    As docker has it: `key=value`, or the older `key:value`. Raises UsageError.
    """
    for text in texts:
        mark = "=" if "=" in text else ":"
        key, given, value = text.partition(mark)
        if key == "no-new-privileges" and (not given or value in ("true", "false")):
            options = options._replace(no_new_privileges=value != "false")
        elif key == "seccomp" and value:
            options = options._replace(seccomp=_seccomp(value))
        elif key == "apparmor" and value:
            options = options._replace(apparmor=_apparmor(value))
        elif key == "label" and value:
            _label(value)
        elif (key, value) == ("systempaths", _UNCONFINED):
            options = options._replace(unmasked=True)
        else:
            raise UsageError(f'invalid --security-opt: "{text}"', _SECURITY)
    return options


def _seccomp(value: str) -> str:
    if value == _UNCONFINED:
        return ""
    if value in (DEFAULT_PROFILE, "builtin"):  # docker's word for it
        return DEFAULT_PROFILE
    return os.path.abspath(value)


def _apparmor(profile: str) -> str:
    """Return the profile, "" for none. Raises UsageError where this kernel has no AppArmor."""
    if profile == _UNCONFINED:
        return ""
    if not labels.has_apparmor():
        text = f"--security-opt apparmor={profile}: AppArmor is not enabled in this kernel"
        raise UsageError(text, "leave it out: the container would not be confined by it")
    return profile


def _label(value: str) -> None:
    """Take label=disable, which is how it is. Raises UsageError for any other label."""
    if value != "disable":
        text = f"--security-opt label={value}: minirun gives no SELinux labels"
        raise UsageError(text, "leave it out, or label=disable")
