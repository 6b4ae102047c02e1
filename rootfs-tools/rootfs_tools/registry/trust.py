"""Which authorities TLS trusts at one host: the system's, and those of certs.d.

    FOLDER/HOST:PORT/*.crt           further authorities
    FOLDER/HOST:PORT/NAME.cert|key   the user's own certificate for this host, and its key

The first folder that has the host counts: ~/.config/containers/certs.d, /etc/containers/certs.d,
/etc/docker/certs.d. Source: containers-certs.d(5); docker's "Verify repository client with
certificates".
"""

import functools
import glob
import os
import ssl
from collections.abc import Callable

from minirun.core.errors import ImageError

FOLDERS = ("~/.config/containers/certs.d", "/etc/containers/certs.d", "/etc/docker/certs.d")


def context(
    host: str, insecure: bool = False, folders: tuple[str, ...] = FOLDERS
) -> ssl.SSLContext:
    """Return what a TLS connection to `host` (HOST or HOST:PORT) uses.

    `insecure`: any certificate will do. Raises ImageError: a file of certs.d is broken.
    """
    found = ssl.create_default_context()
    # Python 3.13 asks certificates for extensions that Go, and so docker and podman, does not.
    found.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    for folder in folders:
        path = f"{os.path.expanduser(folder)}/{host}"
        if os.path.isdir(path):
            _add(found, glob.escape(path))
            break
    return found


def _add(found: ssl.SSLContext, path: str) -> None:
    for name in sorted(glob.glob(f"{path}/*.crt")):
        _load(name, found.load_verify_locations)
    for name in sorted(glob.glob(f"{path}/*.cert")):
        key = f"{name.removesuffix('.cert')}.key"
        if not os.path.exists(key):
            raise ImageError(f"{name}: missing key {os.path.basename(key)} for client certificate")
        _load(name, functools.partial(found.load_cert_chain, keyfile=key))
    for key in sorted(glob.glob(f"{path}/*.key")):
        name = f"{key.removesuffix('.key')}.cert"
        if not os.path.exists(name):
            raise ImageError(f"{key}: missing client certificate {os.path.basename(name)} for key")


def _load(name: str, load: Callable[[str], None]) -> None:
    try:
        load(name)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        raise ImageError(f"{name}: no certificate that can be used: {reason}") from None
