"""What minirun can do, as the runtime-spec's features.md has it.

Every list is read from the table that the code itself works with, so it says neither more nor less
than what is done. dockerd reads mountOptions: with `rro` in it, its read-only binds get `rro`.
"""

from __future__ import annotations

import ctypes
import errno
import shutil
from importlib.util import find_spec

from minirun import __version__
from minirun.cgroups.rules import PER_DEVICE
from minirun.core import config
from minirun.core.keeping import state
from minirun.core.kernel import libc
from minirun.core.process import caps
from minirun.core.rootfs import mount_options
from minirun.oci import validate
from minirun.oci.seccomp import compiler
from minirun.oci.seccomp import profile as seccomp
from minirun.oci.tuning import tuning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OLDEST = "1.0.0"
"""The first version of the spec whose config.json is taken."""
ARCHITECTURES = (
    "AARCH64", "ARM", "LOONGARCH64", "M68K", "MIPS", "MIPS64", "MIPS64N32", "MIPSEL", "MIPSEL64",
    "MIPSEL64N32", "PARISC", "PARISC64", "PPC", "PPC64", "PPC64LE", "RISCV64", "S390", "S390X",
    "SH", "SHEB", "X32", "X86", "X86_64",
)  # fmt: skip
"""config-linux.md, "Seccomp", architectures; this machine's libseccomp knows most of them."""


def document() -> dict[str, Any]:
    """Return the features document."""
    systemd = find_spec("jeepney") is not None
    words = {
        *mount_options.FLAGS,
        *mount_options.PROPAGATION,
        *mount_options.ID_MAPS,
        mount_options.COPY_UP,
    }
    return {
        "ociVersionMin": OLDEST,
        "ociVersionMax": state.OCI_VERSION,
        "hooks": list(validate.SHAPE["hooks"]),
        "mountOptions": sorted(words | {f"r{word}" for word in mount_options.ATTRIBUTES}),
        "linux": {
            "namespaces": sorted(validate.NAMESPACES),
            "capabilities": list(caps.NUMBERS),
            "cgroup": {
                "v1": True, "v2": True, "systemd": systemd, "systemdUser": systemd,
                "rdma": "rdma" in PER_DEVICE,
            },
            "seccomp": _seccomp(),
            "apparmor": {"enabled": True},
            "selinux": {"enabled": False},
            "intelRdt": {"enabled": False},
            "memoryPolicy": {
                "modes": sorted(tuning.MEMORY_MODES), "flags": sorted(tuning.MEMORY_FLAGS),
            },
            "mountExtensions": {"idmap": {"enabled": bool(mount_options.ID_MAPS)}},
            "netDevices": {"enabled": "netDevices" in validate.SHAPE["linux"]},
        },
        "annotations": {
            "io.minirun.version": __version__,
            "io.minirun.checkpoint.enabled": "true" if shutil.which("criu") else "false",
        },
        "potentiallyUnsafeConfigAnnotations": [config.LOG],
    }  # fmt: skip


def _seccomp() -> dict[str, Any]:
    architectures = _architectures()
    if not architectures:
        return {"enabled": False}
    return {
        "enabled": True,
        "actions": sorted(seccomp.ACTIONS),
        "operators": sorted(seccomp.OPERATORS),
        "archs": architectures,
        "knownFlags": sorted(compiler.FLAGS),
        "supportedFlags": sorted(n for n in compiler.FLAGS if has_flag(n)),
    }


def _architectures() -> list[str]:
    """Return those that libseccomp knows; none if it is not installed."""
    found = []
    for name in ARCHITECTURES:
        try:
            known = compiler.Compiler(seccomp.ACTIONS["SCMP_ACT_ALLOW"]).add_architecture(
                name.lower()
            )
        except OSError as error:
            if not error.errno:
                return []
            known = True  # but in no filter together with this machine's own: another byte order
        if known:
            found.append(f"SCMP_ARCH_{name}")
    return found


def has_flag(name: str) -> bool:
    """Return True if this kernel knows the flag: a program at address 0 asks, and is refused.

    First it looks at the flags (EINVAL), and then at the program (EFAULT).
    """
    flag = compiler.FLAGS[name]
    if flag == compiler.FLAGS["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]:
        flag |= compiler.NEW_LISTENER  # without it, it means nothing
    number = libc.number("seccomp")
    ret = compiler.seccomp_call(number, compiler.SECCOMP_SET_MODE_FILTER, flag, None)
    return bool(ret == -1 and ctypes.get_errno() == errno.EFAULT)
