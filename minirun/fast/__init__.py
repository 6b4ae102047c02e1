"""The launcher: a short script that starts the interpreter with less to do. Optional.

pip's own script starts the interpreter with ``site``, which reads every .pth file: 3 to 20 ms. The
one that launcher.py writes starts it with -I (no PYTHON* variable counts, no folder of the user's
is in sys.path) and -S (no ``site``). A run imports a hundred modules, and the interpreter looks for
each one's .pyc file in several steps: out of one file they come 4 ms faster, of 38. If there is no
such file, or it is another interpreter's, or a source has changed, the import is the usual one.

Compiled modules were tried and are slower: mypyc 2.4, 85 of the 187 of core, cgroups and gpu. To
load their library, 4 MB, costs `state` 1.8 times the processor time, and `run` 1.2 times. It cannot
compile `with lazy`, Record, nested classes; and it lets go of a buffer after its last use, though
its ctypes.addressof is still needed.

The file: the length of the index in DIGITS digits; the index (marshal), which is the interpreter's
version, and name → Entry; the code of each module (marshal).

    launcher    writes the script and the file
"""

from __future__ import annotations

import fcntl
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    Entry = tuple[str, bool, int, int, int, int]
    """Path of the source, True if it is a package, the source's time of change in ns and its size
    in bytes, where the code begins, counted from the end of the index, and its size in bytes."""

DIGITS = 8
_ModuleSpec: Any = type(sys.__spec__)  # importlib.machinery's; to import that takes 0.3 ms


class CodeFile:
    """A finder for sys.meta_path, and a loader: importlib.abc.MetaPathFinder and Loader."""

    def __init__(self, path: str) -> None:
        """Read the index. Raises OSError, ValueError, EOFError, TypeError."""
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if self.fd < 3:  # the caller has closed 0, 1 or 2, which are the command's
            low, self.fd = self.fd, fcntl.fcntl(self.fd, fcntl.F_DUPFD_CLOEXEC, 3)
            os.close(low)
        size = int(os.read(self.fd, DIGITS))
        self.base = DIGITS + size
        self.index: dict[str, Entry]
        version, self.index = marshal.loads(os.read(self.fd, size))
        if version != sys.version:
            raise ValueError(f"{path}: code of Python {version}")

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        """Return the module's spec; None if it is not in the file, or its source has changed."""
        if name not in self.index:
            return None
        source, is_package, changed, size, _, _ = self.index[name]
        try:
            status = os.stat(source)
        except OSError:
            return None
        if (status.st_mtime_ns, status.st_size) != (changed, size):
            return None
        spec = _ModuleSpec(name, self, origin=source, is_package=is_package)
        spec.has_location = True  # the module gets a __file__
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec

    def create_module(self, spec: object) -> None:
        """Let the interpreter make the module: None means that."""
        return None  # noqa: RET501

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        *_, start, size = self.index[module.__name__]
        exec(marshal.loads(os.pread(self.fd, size, self.base + start)), module.__dict__)

    def close(self) -> None:
        """Close the file. Nothing can be imported out of it after that."""
        os.close(self.fd)
