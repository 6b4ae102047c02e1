"""A user of an image that is not mounted: its /etc/passwd is the one of the topmost layer."""

import os

from minirun.core.rootfs.inroot import Root
from minirun.oci.user import User, resolve_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def in_layers(spec: str, layers: "Sequence[str]") -> User:
    """Return the user that `spec` means in an image of these layers, lowest first.

    Raises MinirunError, OSError.
    """
    if not spec or spec in ("0", "0:0", "root"):
        return User(0, 0, (), "/root", "root")
    with_passwd = [path for path in reversed(layers) if os.path.lexists(f"{path}/etc/passwd")]
    root = Root.at((with_passwd or list(layers))[0])
    try:
        return resolve_user(root, spec)
    finally:
        root.close()
