"""Writes the launcher: ``python -m minirun.fast.launcher .venv/bin/minirun`` (make setup)."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path

from minirun.fast import DIGITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.fast import Entry

PACKAGES = ("minirun", "rootfs_tools")
SUFFIX = ".code"
"""Of the file beside the launcher."""
TEXT = """#!{python} -IS
import gc
gc.disable()  # a collection writes to every object, so that each page is copied after clone
import sys
sys.path += {places!r}  # at the end: most of what is looked for by path is the interpreter's own
try:
    from minirun.fast import CodeFile
    sys.meta_path.insert(0, CodeFile({code!r}))
except Exception:
    pass  # slower without it
try:
    from minirun.__main__ import start
except (OSError, ImportError) as error:  # no descriptor is left to open a file of the program
    sys.stderr.write(f"minirun: cannot be loaded: {{error}} (ulimit -n)\\n")
    sys.exit(125)
start()
"""


def install(path: str) -> None:
    """Write the launcher to `path`, and its file of code beside it. Raises OSError."""
    path = os.path.abspath(path)  # the caller's directory may be a stranger's: no code of it runs
    specs = filter(None, map(find_spec, PACKAGES))
    folders = [Path(each.origin).parent for each in specs if each.origin]
    places = dict.fromkeys([*(str(each.parent) for each in folders), get_path("platlib")])
    write(path, path + SUFFIX, folders, list(places))


def write(path: str, code: str, folders: list[Path], places: list[str], root: str = "") -> None:
    """Write the launcher, and its file of code to `code`; `places` end sys.path. Raises OSError.

    `root` is what paths of files begin with now, and will not where they are used: of a package
    of Debian's, for example.
    """
    _write(code, compile_all(folders, root), 0o644)
    python = os.path.realpath(sys.executable)
    text = TEXT.format(python=python, places=places, code=code.removeprefix(root))
    _write(path, text.encode(), 0o755)


def compile_all(packages: Iterable[Path], root: str = "") -> bytes:
    """Return the file of code of packages, each named by its directory (minirun.fast).

    `root` as above.
    """
    index: dict[str, Entry] = {}
    body = b""
    for package, path in ((each, path) for each in packages for path in sorted(each.rglob("*.py"))):
        status = path.stat()
        shown = str(path).removeprefix(root)
        code = compile(path.read_bytes(), shown, "exec", dont_inherit=True, optimize=2)
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        is_package = path.name == "__init__.py"
        data = marshal.dumps(code)
        index[module] = (
            shown, is_package, status.st_mtime_ns, status.st_size, len(body), len(data)
        )  # fmt: skip
        body += data
    head = marshal.dumps((sys.version, index))
    return b"%0*d" % (DIGITS, len(head)) + head + body


def _write(path: str, data: bytes, mode: int) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.chmod(temporary, mode)
    os.replace(temporary, path)


def main(path: str) -> None:
    """Install it, or say in one line why not."""
    try:
        install(path)
    except OSError as error:
        hint = "make setup is for the owner of this folder"
        sys.exit(f"minirun: {path} cannot be written: {error.strerror} ({hint})")


if __name__ == "__main__":
    main(sys.argv[1])
