"""A finder that takes code from one file instead of eighty, made by minirun.launcher.

The import system takes 20 µs for each module, before anything of it has run. So where one brings
others along, as it does whenever it is imported, they are made without it.
"""

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec, module_from_spec
from _frozen_importlib_external import ExtensionFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

    Entry = tuple[str, bool, tuple[int, int], int, int, tuple[str, ...]]


class Hot:
    """A finder and loader (importlib.abc) of modules whose code lies in one file.

    Its index maps name → (path, is a package, (mtime in ns, size) of the source, how long the
    marshalled code is, where in the file that begins, counted from `base`, and what it brings
    along, in the order in which that is to run). Of a shared library the length is 0. Only what is
    imported is read: at 2 µs a page, all of it would take a millisecond.
    """

    def __init__(self, index: "dict[str, Entry]", fd: int, base: int) -> None:
        self.index = index
        self.fd = fd
        self.base = base

    def find_spec(self, name: str, path: object, target: object = None) -> "ModuleSpec | None":
        """Return where the module is, if its source is unchanged."""
        entry = self.index.get(name)
        if entry is None or not _is_unchanged(entry):
            return None
        if entry[3]:
            return self._spec(name, entry)
        try:
            os.close(os.open(entry[0], os.O_RDONLY))  # no descriptor left: dlopen has no errno
        except OSError:
            return None
        return ModuleSpec(name, ExtensionFileLoader(name, entry[0]), origin=entry[0])

    def _spec(self, name: str, entry: "Entry") -> "ModuleSpec":
        loader: "Any" = self  # a loader by what it can do, not by its base class
        spec = ModuleSpec(name, loader, origin=entry[0], is_package=entry[1])
        spec.has_location = True
        if entry[1]:
            spec.submodule_search_locations = [entry[0].rpartition("/")[0]]
        return spec

    def create_module(self, spec: "ModuleSpec") -> None:
        """Let the interpreter make the module: that is what None says (importlib.abc.Loader)."""
        return None  # noqa: RET501

    def exec_module(self, module: "ModuleType") -> None:
        """Run the module's code, after that of the modules that it brings along."""
        entry = self.index.pop(module.__name__)
        new = [name for name in entry[5] if name not in sys.modules]
        if all(name in self.index and _is_unchanged(self.index[name]) for name in new):
            for name in new:
                self._bring(name)
        exec(self._code(entry), module.__dict__)

    def _bring(self, name: str) -> None:
        """Import a module that nobody has asked for yet, and its package before it."""
        package, _, own = name.rpartition(".")
        if package:
            __import__(package)
        if name in sys.modules:  # by its package, or by one that needs it half done
            return
        entry = self.index.pop(name)
        module = sys.modules[name] = module_from_spec(self._spec(name, entry))
        try:
            exec(self._code(entry), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        if package:
            setattr(sys.modules[package], own, module)

    def _code(self, entry: "Entry") -> "CodeType":
        code: "CodeType" = marshal.loads(os.pread(self.fd, entry[3], self.base + entry[4]))
        return code

    def close(self) -> None:
        """Close the file: nothing is imported any more."""
        os.close(self.fd)


def _is_unchanged(entry: "Entry") -> bool:
    try:
        info = os.stat(entry[0])
    except OSError:
        return False
    return (info.st_mtime_ns, info.st_size) == entry[2]
