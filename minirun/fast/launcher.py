"""Writes the launcher: ``python -m minirun.fast.launcher .venv/bin/minirun`` (make setup)."""

from __future__ import annotations

import marshal
import os
import sys
from pathlib import Path

from minirun.fast import DIGITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.fast import Entry

SUFFIX = ".code"
"""Of the file beside the launcher."""
TEXT = """#!{python} -IS
import gc
gc.disable()  # a collection writes to every object, so that each page is copied after clone
import sys
sys.path[:0] = [{source!r}, {packages!r}]
try:
    from minirun.fast import CodeFile
    sys.meta_path.insert(0, CodeFile(__file__ + {suffix!r}))
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
    import sysconfig

    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    _write(path + SUFFIX, compile_all(source, "minirun"), 0o644)
    text = TEXT.format(
        python=os.path.realpath(sys.executable), source=source,
        packages=sysconfig.get_path("platlib"), suffix=SUFFIX,
    )  # fmt: skip
    _write(path, text.encode(), 0o755)


def compile_all(top: str, package: str) -> bytes:
    """Return the file of code of a package in the directory `top` (minirun.fast)."""
    index: dict[str, Entry] = {}
    body = b""
    for path in Path(top, package).rglob("*.py"):
        status = path.stat()
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True, optimize=2)
        module = ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
        is_package = path.name == "__init__.py"
        data = marshal.dumps(code)
        index[module] = (
            str(path), is_package, status.st_mtime_ns, status.st_size, len(body), len(data)
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


if __name__ == "__main__":
    install(sys.argv[1])
