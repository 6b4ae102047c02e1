"""Writes the fast launcher that `make setup` puts at .venv/bin/minirun.

The console script that pip makes starts the interpreter with ``site``, which reads every .pth file
(3 to 20 ms), and then finds, opens and checks some seventy modules one by one (8 ms). The launcher
starts it with -I -S (isolated: no PYTHON* variable, no user's or current directory in sys.path),
and takes the code of the modules that `run` needs from one file beside it. A module whose source
has changed since (its time or size) is imported in the ordinary way.
"""

import os
import sys

TEXT = """#!{python} -IS
import gc
gc.disable()
import sys
sys.path[:0] = [{source!r}, {packages!r}]
import marshal
try:
    with open(__file__ + {suffix!r}, "rb") as file:
        hot = marshal.load(file)
    finder = {{"__name__": "minirun.hot"}}
    exec(marshal.loads(hot["minirun.hot"][3]), finder)
    sys.meta_path.insert(0, finder["Hot"](hot))
except (OSError, ValueError, EOFError, KeyError, TypeError):
    pass
from minirun.__main__ import start
start()
"""
"""Garbage is left to reference counts: a collector that runs touches every object, and after the
clone each touched page is copied."""

SUFFIX = ".hot"
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
known = set(sys.modules)
import minirun.__main__, minirun.cli.run, minirun.hot
import minirun.cli.bundle, minirun.cli.delete, minirun.cli.exec, minirun.cli.kill
import minirun.cgroups.hierarchies, minirun.cgroups.v1, minirun.cgroups.v2
import minirun.gpu.select, minirun.stages.s4_arguments, minirun.stages.s5_inject
import minirun.gpu.simulated
for name in sorted(set(sys.modules) - known):
    path = getattr(sys.modules[name], "__file__", None)
    if path and path.endswith(".py"):
        print(name, path)
"""


def collect(python: str, source: str, packages: str) -> "dict[str, object]":
    """Return what :class:`minirun.hot.Hot` reads: the modules that `run` imports, compiled."""
    import marshal
    import subprocess

    argv = [python, "-IS", "-c", PROGRAM, source, packages]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    codes: dict[str, object] = {}
    for line in listing.splitlines():
        name, path = line.split(" ", 1)
        info = os.stat(path)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True, optimize=2)
        is_package = path.endswith("/__init__.py")
        codes[name] = (path, is_package, (info.st_mtime_ns, info.st_size), marshal.dumps(code))
    return codes


def install(path: str) -> None:
    """Write the launcher and its code file to `path`, each in one step.

    Raises OSError, subprocess.CalledProcessError.
    """
    import marshal
    import sysconfig

    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    python = os.path.realpath(sys.executable)
    packages = sysconfig.get_path("platlib")
    codes = marshal.dumps(collect(python, source, packages))
    _write(path + SUFFIX, codes, 0o644)
    text = TEXT.format(python=python, source=source, packages=packages, suffix=SUFFIX)
    _write(path, text.encode(), 0o755)


def _write(path: str, data: bytes, mode: int) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.chmod(temporary, mode)
    os.replace(temporary, path)


if __name__ == "__main__":
    install(sys.argv[1])
