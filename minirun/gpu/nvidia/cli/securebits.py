"""Securebits: root that is not almighty.

A process of uid 0 that executes a program regains every capability of its bounding set. With
SECBIT_NOROOT it does not, and uid 0 is a user like any other: capabilities(7), "The securebits
flags". Used for a helper that runs on an image's files.
"""

from minirun.core.kernel import libc
from minirun.core.kernel.libc import c_int, c_ulong

PR_SET_SECUREBITS = 28
SECBIT_NOROOT, SECBIT_NOROOT_LOCKED = 0x1, 0x2
SECBIT_NO_SETUID_FIXUP, SECBIT_NO_SETUID_FIXUP_LOCKED = 0x4, 0x8
_NAMES = {name: bit for name, bit in globals().items() if name.startswith("SECBIT_")}

_prctl = libc.bind("prctl", c_int, c_ulong, c_ulong, c_ulong, c_ulong)


def set_securebits(bits: int, *, why: str = "") -> None:
    """Set this process's securebits: PR_SET_SECUREBITS(2const). Raises OSError."""
    args = securebits_shown(bits)
    libc.logged("prctl", _prctl, (PR_SET_SECUREBITS, bits, 0, 0, 0), args, None, why)


def securebits_shown(bits: int) -> "dict[str, str]":
    """Return the arguments of its event."""
    return {"option": "PR_SET_SECUREBITS", "arg2": libc.flag_names(bits, _NAMES)}
