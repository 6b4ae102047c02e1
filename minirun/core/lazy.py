"""Modules that few runs need: a name now, the module at its first use.

    from minirun.core.lazy import lazy

    with lazy:
        import json                         # `json.loads(…)` imports json
        from minirun.running import gc

So each import stands at the top of its file, and a start loads what it uses: an import costs 0.1 to
10 ms. The names are of modules, never of what is in one: `gc.collect`, not `from … import collect`.
Python 3.15 has the statement `lazy import json` for it (PEP 810); with it the block can go.

In init a first use after pivot_root is an error, as any import is: minirun.core.process.barrier.
"""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class LazyModule(ModuleType):
    """A module that is imported when something of it is asked for. Raises what an import does."""

    def __getattr__(self, name: str) -> Any:
        return getattr(lazy.load(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(lazy.load(self.__name__), name, value)


class _Package:
    """What `from package import name` takes its names from."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return _named(f"{self.name}.{name}")


class _Lazy:
    """The block `with lazy`: in the module that it stands in, import gives names alone."""

    def __enter__(self) -> None:
        self.importer = builtins.__import__
        self.globals = sys._getframe(1).f_globals
        builtins.__import__ = self._import

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self.importer

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Stand in for import: return a name without its module."""
        if globals is not self.globals:  # another thread's
            return self.importer(name, globals, locals, fromlist, level)
        return _Package(name) if fromlist else _named(name)

    def load(self, name: str) -> Any:
        """Import a module now, and return it: a row of a table, or one that init will need.

        One that another thread is importing is waited for: the import system does so.
        """
        module = sys.modules.get(name)
        if module and not getattr(module.__spec__, "_initializing", False):
            return module
        return __import__(name, fromlist=["*"])


def _named(name: str) -> Any:
    """Return a module if it is loaded, else one that loads at its first use."""
    return sys.modules.get(name) or LazyModule(name)


lazy = _Lazy()
