"""A finder that takes code from one file instead of seventy, made by minirun.launcher."""

import marshal
import os
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Hot:
    """A finder and loader (importlib.abc) of modules whose code lies in one dictionary.

    Its index maps name → (path, is a package, (mtime in ns, size) of the source, how long the
    marshalled code is, and where in the file that begins, counted from `base`); of one that is a
    shared library, the length is 0. Only what is imported is read: at 2 µs a page, all of it would
    take a millisecond.
    """

    def __init__(
        self, index: "dict[str, tuple[str, bool, tuple[int, int], int, int]]", fd: int, base: int
    ) -> None:
        self.index = index
        self.fd = fd
        self.base = base

    def find_spec(self, name: str, path: object, target: object = None) -> "ModuleSpec | None":
        """Return where the module is, if its source is unchanged."""
        entry = self.index.get(name)
        if entry is None:
            return None
        is_library = not entry[3]
        try:
            info = os.stat(entry[0])
            if is_library:
                os.close(os.open(entry[0], os.O_RDONLY))  # no descriptor left: dlopen has no errno
        except OSError:
            return None
        if (info.st_mtime_ns, info.st_size) != entry[2]:
            return None
        if is_library:
            return ModuleSpec(name, ExtensionFileLoader(name, entry[0]), origin=entry[0])
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
        """Run the module's code."""
        size, at = self.index.pop(module.__name__)[3:]
        exec(marshal.loads(os.pread(self.fd, size, self.base + at)), module.__dict__)

    def close(self) -> None:
        """Close the file: nothing is imported any more."""
        os.close(self.fd)
