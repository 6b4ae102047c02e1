"""--user and --security-opt of `run`: the user of its command, and its rights."""

from __future__ import annotations

import os

from minirun.cli.docker.run_flags import ConfigFlags
from minirun.core.errors import UsageError
from minirun.core.lazy import lazy
from minirun.image.store import Image
from minirun.oci.image_user import in_layers
from minirun.oci.run_config import RunOptions
from minirun.oci.seccomp.file import NAME as DEFAULT_PROFILE

with lazy:
    from minirun.oci.tuning import labels  # 10 ms, for AppArmor

_UNCONFINED = "unconfined"
_SECURITY = (
    "seccomp=FILE|unconfined, no-new-privileges[=true|false], apparmor=PROFILE, label=disable,"
    " systempaths=unconfined"
)


def add(run: RunOptions, flags: ConfigFlags, image: Image) -> RunOptions:
    """Return the options with the command's user, and what --security-opt says.

    Raises MinirunError, OSError.
    """
    user = in_layers(flags.user or image.user, image.layers)
    run = run._replace(user=(user.uid, user.gid, user.groups))
    return _confined(run, flags.security_opt)


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
