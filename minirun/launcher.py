"""Writes the fast launcher that `make setup` puts at .venv/bin/minirun.

The console script that pip makes starts the interpreter with ``site``, which reads every .pth file
(3 to 20 ms), and then finds, opens and checks some seventy modules one by one (8 ms). The launcher
starts it with -I -S (isolated: no PYTHON* variable, no user's or current directory in sys.path),
and takes the code of the modules that `run` needs from one file beside it: an index, and where in
the file each module's code is. A module whose source has changed since (its time or size) is
imported in the ordinary way.
"""

import os
import sys

TEXT = """#!{python} -IS
import gc
gc.disable()
import sys
sys.path[:0] = [{source!r}, {packages!r}]
import fcntl, marshal, posix
try:
    fd = low = posix.open(__file__ + {suffix!r}, posix.O_RDONLY | posix.O_CLOEXEC)
    if low < 3:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
        posix.close(low)
    size = int(posix.read(fd, {digits}))
    hot = marshal.loads(posix.read(fd, size))
    finder = {{"__name__": "minirun.hot"}}
    exec(marshal.loads(posix.read(fd, hot["minirun.hot"][3])), finder)
    sys.meta_path.insert(0, finder["Hot"](hot, fd, {digits} + size))
except (OSError, ValueError, EOFError, KeyError, TypeError):
    pass
from minirun.__main__ import start
start()
"""
"""Garbage is left to reference counts: a collector that runs touches every object, and after the
clone each touched page is copied. Where the caller closed 0, 1 or 2, the file of code must not
take its place."""

SUFFIX = ".hot"
DIGITS = 8
"""How the file begins: the length of its index, in so many digits."""
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
known = set(sys.modules)
import minirun.__main__, minirun.cli.run, minirun.hot
import minirun.cli.bundle, minirun.cli.delete, minirun.cli.exec, minirun.cli.kill
import minirun.cli.oci, minirun.cli.start, minirun.cli.state
import minirun.cgroups.hierarchies, minirun.cgroups.v1, minirun.cgroups.v2
import minirun.gpu.wish, minirun.stages.s4_arguments, minirun.stages.s5_inject
import minirun.gpu.simulated
for name in sorted(set(sys.modules) - known):
    path = getattr(sys.modules[name], "__file__", None)
    if path and path.endswith((".py", ".so")):
        print(name, path)
"""


def collect(python: str, source: str, packages: str) -> bytes:
    """Return what :class:`minirun.hot.Hot` reads: the modules that `run` imports, compiled."""
    import marshal
    import subprocess

    argv = [python, "-IS", "-c", PROGRAM, source, packages]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows: list[tuple[str, str, bool, tuple[int, int], bytes]] = []
    for line in listing.splitlines():
        name, path = line.split(" ", 1)
        info = os.stat(path)
        code = b""
        if path.endswith(".py"):
            with open(path, "rb") as file:
                code = marshal.dumps(
                    compile(file.read(), path, "exec", dont_inherit=True, optimize=2)
                )
        is_package = path.endswith("/__init__.py")
        stamp = (info.st_mtime_ns, info.st_size)
        rows.append((name, path, is_package, stamp, code))
    return _file(rows)


def _file(rows: "list[tuple[str, str, bool, tuple[int, int], bytes]]") -> bytes:
    """Return the length of the index, the index, and the code, that of the finder first."""
    import marshal

    rows.sort(key=lambda row: row[0] != "minirun.hot")
    index: dict[str, object] = {}
    at = 0
    for name, path, is_package, stamp, code in rows:
        index[name] = (path, is_package, stamp, len(code), at)
        at += len(code)
    head = marshal.dumps(index)
    return b"%0*d" % (DIGITS, len(head)) + head + b"".join(row[4] for row in rows)


def install(path: str) -> None:
    """Write the launcher and its code file to `path`, each in one step.

    Raises OSError, subprocess.CalledProcessError.
    """
    import sysconfig

    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    python = os.path.realpath(sys.executable)
    packages = sysconfig.get_path("platlib")
    _write(path + SUFFIX, collect(python, source, packages), 0o644)
    text = TEXT.format(
        python=python, source=source, packages=packages, suffix=SUFFIX, digits=DIGITS
    )
    _write(path, text.encode(), 0o755)


def _write(path: str, data: bytes, mode: int) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.chmod(temporary, mode)
    os.replace(temporary, path)


if __name__ == "__main__":
    install(sys.argv[1])
