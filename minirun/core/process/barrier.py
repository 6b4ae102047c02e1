"""The import barrier: after pivot_root the interpreter loads nothing more.

Imports, codecs and name services would load files below the container's root then, and run the
image's code with the runtime's privileges, as `docker cp` did (CVE-2019-14271).
"""

import sys


def close_imports() -> None:
    """Make every later import fail: no finder, no path. It cannot be undone."""
    for finder in sys.meta_path:
        if close := getattr(finder, "close", None):
            close()  # the launcher's file of code: minirun.fast
    sys.meta_path.clear()
    sys.path_hooks.clear()
    sys.path.clear()
    sys.path_importer_cache.clear()
