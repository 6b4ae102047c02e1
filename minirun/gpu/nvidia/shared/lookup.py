"""Where a program is: PATH first, then the places where programs lie on every system.

podman starts a runtime without PATH (its kill and delete), so PATH alone is not enough.
"""

import os
import sys

from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import GPUError


def program(name: str) -> str:
    """Return the path of the program `name`, "" where there is none.

    A `name` with a slash is a path already.
    """
    if "/" in name:
        return name if _executable(name) else ""
    folders = f"{os.environ.get('PATH', '')}:{DEFAULT_PATH}".split(":")
    paths = (f"{folder}/{name}" for folder in folders if folder)
    return next((path for path in paths if _executable(path)), "")


def need(name: str, hint: str) -> str:
    """Return the path of the program `name`. Raises GPUError where there is none."""
    path = program(name)
    if not path:
        raise GPUError(f"no {name} in PATH or /usr/bin", hint)
    return path


def this_program() -> str:
    """Return the path of this program itself, links resolved; "" where it has none."""
    path = os.path.realpath(sys.argv[0])
    return path if _executable(path) else ""


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
