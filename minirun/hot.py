"""A finder that takes code from one file instead of seventy, made by minirun.launcher."""

import marshal
import os
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Hot:
    """A finder and loader (importlib.abc) of modules whose code lies in one dictionary.

    It maps name → (path, is a package, (mtime in ns, size) of the source, marshalled code).
    """

    def __init__(self, codes: "dict[str, tuple[str, bool, tuple[int, int], bytes]]") -> None:
        self.codes = codes

    def find_spec(self, name: str, path: object, target: object = None) -> "ModuleSpec | None":
        """Return where the module is, if its source is unchanged."""
        entry = self.codes.get(name)
        if entry is None:
            return None
        try:
            info = os.stat(entry[0])
        except OSError:
            return None
        if (info.st_mtime_ns, info.st_size) != entry[2]:
            return None
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
        exec(marshal.loads(self.codes.pop(module.__name__)[3]), module.__dict__)
