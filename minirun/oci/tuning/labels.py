"""Labels of a security module: process.apparmorProfile, process.selinuxLabel, linux.mountLabel.

What happens: init asks AppArmor to change to the profile at the next execve, which is the
trampoline's; the container's command then inherits it. Without the module in the kernel there is
nothing to ask: a warning, on stderr and in the log. Imported only if config.json has a label.

What the real stack does: crun passes labels over without a word if the kernel lacks the module;
runc refuses them.

What the kernel says: Documentation/admin-guide/LSM, apparmor(7); /proc/PID/attr/apparmor/exec takes
``exec PROFILE``.

Where we simplify: SELinux's labels are refused even if the kernel has it. A label for "the next
execve" would be judged by the trampoline's file, which no policy knows as an entry point.
"""

import os

from minirun.core import events
from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.keeping.visible import warn
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root

UNCONFINED = "unconfined"
"""AppArmor's word for no profile."""
_ENABLED = "/sys/module/apparmor/parameters/enabled"
_PLACES = ("self/attr/apparmor/exec", "self/attr/exec")
"""The module's own file, Linux 5.8; before that all modules shared one."""


def check(config: Config) -> str:
    """Return AppArmor's profile for init; "" for none. Warn of labels that have no effect.

    Raises ConfigError for SELinux's labels if the kernel has it.
    """
    process, linux = config.process, config.linux
    profile: str = process.get("apparmorProfile") or ""
    if profile and not has_apparmor():
        if profile != UNCONFINED:  # it is what there is
            _warn("process.apparmorProfile", "AppArmor")
        profile = ""
    rows = (("process.selinuxLabel", process), ("linux.mountLabel", linux))
    for where in [where for where, place in rows if place.get(where.partition(".")[2])]:
        if os.path.exists("/sys/fs/selinux/enforce"):
            raise ConfigError(f"config.json: {where}: minirun gives no SELinux labels")
        _warn(where, "SELinux")
    return profile


def _warn(where: str, module: str) -> None:
    what = f"{module} is not enabled in this kernel, so the container is not confined by it"
    events.emit("note", "label passed over", {"property": where}, why=what)
    warn(f"config.json: {where}: {what}")


def has_apparmor() -> bool:
    """Return True if AppArmor is in this kernel and enabled."""
    try:
        with open(_ENABLED) as file:
            return file.read(1) == "Y"
    except FileNotFoundError:
        return False


def apply(profile: str) -> None:
    """Ask AppArmor for the profile at the next execve. Raises OSError, MinirunError.

    The file is looked up on a checked procfs, across no mount and no link (CVE-2019-16884).
    """
    if not profile:
        return
    root = Root.at("/")
    proc = root.open("/proc", os.O_PATH | os.O_DIRECTORY)
    root.close()
    try:
        if files.filesystem_magic(proc) != files.PROC_SUPER_MAGIC:
            raise MinirunError("/proc in the container is not procfs")
        os.write(fd := _open_first(proc), f"exec {profile}".encode())
        os.close(fd)
    finally:
        os.close(proc)


def _open_first(proc: int) -> int:
    resolve = files.RESOLVE_BENEATH | files.RESOLVE_NO_XDEV | files.RESOLVE_NO_MAGICLINKS
    try:
        return files.openat2(proc, _PLACES[0], os.O_WRONLY, resolve)
    except FileNotFoundError:
        return files.openat2(proc, _PLACES[1], os.O_WRONLY, resolve)
