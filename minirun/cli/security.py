"""--security-opt, as docker has it: `key=value`, or the older `key:value`."""

import os

from minirun.core.errors import UsageError
from minirun.oci.seccomp import default as seccomp_default

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNCONFINED = "unconfined"
_KNOWN = (
    "seccomp=FILE|unconfined, no-new-privileges[=true|false], apparmor=PROFILE, label=disable,"
    " systempaths=unconfined"
)


def options(texts: "list[str]") -> "dict[str, Any]":
    """Return what the options say, as fields of Wishes; of two with one key the later counts.

    Raises UsageError.
    """
    fields: dict[str, Any] = {}
    for text in texts:
        mark = "=" if "=" in text else ":"
        key, given, value = text.partition(mark)
        if key == "no-new-privileges" and (not given or value in ("true", "false")):
            fields["no_new_privileges"] = value != "false"
        elif key == "seccomp" and value:
            fields["seccomp"] = _seccomp(value)
        elif key == "apparmor" and value:
            fields["apparmor"] = _apparmor(value)
        elif key == "label" and value:
            _label(value)
        elif (key, value) == ("systempaths", _UNCONFINED):
            fields["unmasked"] = True
        else:
            raise UsageError(f'invalid --security-opt: "{text}"', _KNOWN)
    return fields


def _seccomp(value: str) -> str:
    if value == _UNCONFINED:
        return ""
    if value in (seccomp_default.NAME, "builtin"):  # docker's word for it
        return seccomp_default.NAME
    return os.path.abspath(value)


def _apparmor(profile: str) -> str:
    """Return the profile, "" for none. Raises UsageError where this kernel has no AppArmor."""
    if profile == _UNCONFINED:
        return ""
    from minirun.oci.tuning import labels

    if not labels.has_apparmor():
        text = f"--security-opt apparmor={profile}: AppArmor is not enabled in this kernel"
        raise UsageError(text, "leave it out: the container would not be confined by it")
    return profile


def _label(value: str) -> None:
    """Take label=disable, which is how it is. Raises UsageError for any other label."""
    if value != "disable":
        text = f"--security-opt label={value}: minirun gives no SELinux labels"
        raise UsageError(text, "leave it out, or label=disable")
