"""Writes the fast launcher that `make setup` puts at .venv/bin/minirun.

The console script that pip makes starts the interpreter with ``site``, which reads every .pth file
(3 to 20 ms), and then finds, opens and checks some seventy modules one by one (8 ms). The launcher
starts it with -I -S (isolated: no PYTHON* variable, no user's or current directory in sys.path),
and takes the code of the modules that `run` needs from one file beside it: an index, and where in
the file each module's code is, and what each brings along. A module whose source has changed since
(its time or size) is imported in the ordinary way.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    from minirun.hot import Entry

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
sys.path[:0] = sys.argv[1:3]
from importlib.machinery import SourceFileLoader as Loader
done, plain = [], Loader.exec_module
def exec_module(self, module):
    plain(self, module)
    package = module.__name__.rpartition(".")[0]
    if not package or package in done:
        done.append(module.__name__)
Loader.exec_module = exec_module
known = set(sys.modules)
for name in sys.argv[3].split():
    __import__(name)
before = len(done)
for name in sys.argv[4].split():
    __import__(name)
print(*done[before:])
for name in sorted(set(sys.modules) - known):
    print(name, getattr(sys.modules[name], "__file__", None) or "")
"""
"""Imports the modules of its third argument, then those of its fourth; prints on one line what
the latter brought, in the order in which they were complete, then each module and its file. What a
package imports of its own before it is complete is left to the import system."""

_START = ("minirun.__main__", "minirun.cli", "minirun.core.process.streams", "minirun.hot")
GROUPS: "dict[str, tuple[tuple[str, ...], tuple[str, ...]]]" = {
    "minirun.__main__": ((), _START[1:3]),
    **{
        f"minirun.cli.{name}": (_START, ())
        for name in ("run", "bundle", "delete", "exec", "kill", "oci", "start", "state")
    },
    "minirun.core.stages.s4_arguments": (
        (
            *_START,
            "minirun.core.lifecycle",
            "minirun.gpu.selector",
            "minirun.core.rootfs.initlayer",
        ),
        ("minirun.core.stages.s5_inject",),
    ),
    "minirun.gpu.simulated": (
        (*_START, "minirun.core.lifecycle", "minirun.core.stages.s4_arguments"),
        (),
    ),
    "minirun.gpu.nvidia.cli.ldconfig": (
        (
            *_START,
            "minirun.core.lifecycle",
            "minirun.core.stages.s4_arguments",
            "minirun.core.stages.s5_inject",
        ),
        (),
    ),
}
"""What brings others along: module → (what is there before, what is always imported beside it)."""
SINGLE = (
    "minirun.hot", "minirun.cgroups.hierarchies", "minirun.cgroups.v1", "minirun.cgroups.v2",
    "minirun.gpu.selector", "minirun.gpu.mountpoints", "minirun.core.rootfs.initlayer",
)  # fmt: skip


class Collector:
    """Finds out what is imported, and compiles it."""

    def __init__(self, python: str, source: str, packages: str) -> None:
        self.argv = [python, "-IS", "-c", PROGRAM, source, packages]
        self.files: "dict[str, str]" = {}

    def imports(self, before: "tuple[str, ...]", names: "tuple[str, ...]") -> "list[str]":
        """Return what importing `names` brings after `before`, and note the file of each."""
        import subprocess

        argv = [*self.argv, " ".join(before), " ".join(names)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        first, *rest = done.stdout.splitlines()
        for line in rest:
            name, _, path = line.partition(" ")
            if path.endswith((".py", ".so")):
                self.files[name] = path
        return first.split()

    def code(self, name: str) -> "CodeType | None":
        """Return the module's code; None for a shared library."""
        path = self.files[name]
        if not path.endswith(".py"):
            return None
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True, optimize=2)


def collect(python: str, source: str, packages: str) -> bytes:
    """Return what :class:`minirun.hot.Hot` reads: the modules that `run` imports, compiled.

    That is the length of the index, the index, and the code, that of the finder first.
    """
    import marshal

    found = Collector(python, source, packages)
    groups = {
        name: [other for other in found.imports(before, (*beside, name)) if other != name]
        for name, (before, beside) in GROUPS.items()
    }
    found.imports((), SINGLE)
    index: "dict[str, Entry]" = {}
    body = b""
    for name in sorted(found.files, key=lambda name: name != "minirun.hot"):
        path, code, along = found.files[name], found.code(name), tuple(groups.get(name, ()))
        data = marshal.dumps(code) if code else b""
        info = os.stat(path)
        stamp = (info.st_mtime_ns, info.st_size)
        index[name] = (
            path, path.endswith("/__init__.py"), stamp, len(data), len(body), along
        )  # fmt: skip
        body += data
    head = marshal.dumps(index)
    return b"%0*d" % (DIGITS, len(head)) + head + body


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
