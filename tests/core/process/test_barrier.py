"""The import barrier: what the interpreter has not loaded by then, it never loads."""

import subprocess
import sys
from pathlib import Path

from minirun.core.process import barrier

PROGRAM = """
import os, sys
sys.path[:0] = [sys.argv[1], os.getcwd()]
import json
from minirun.core.process import barrier
barrier.close_imports()

def attempt(what, act):
    try:
        act()
    except (ImportError, LookupError) as error:
        print(what, type(error).__name__)
    else:
        print(what, "works")

attempt("loaded before", lambda: __import__("json").dumps({}))
attempt("a file", lambda: __import__("planted"))
attempt("the library", lambda: __import__("wave"))
attempt("a package", lambda: __import__("email.message"))
attempt("built in", lambda: __import__("_bisect"))
attempt("frozen", lambda: __import__("__hello__"))
attempt("a codec", lambda: "x".encode("idna"))
attempt("utf-8", lambda: "é".encode().decode())
attempt("a path set anew", lambda: (sys.path.append(os.getcwd()), __import__("planted")))
print("path", sys.path)
"""


def test_nothing_is_loaded_behind_it(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("print('the code of the image runs')")
    source = str(Path(barrier.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-IS", "-c", PROGRAM, source],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *rows, path = done.stdout.splitlines()
    assert dict(row.rsplit(" ", 1) for row in rows) == {
        "loaded before": "works", "a file": "ModuleNotFoundError",
        "the library": "ModuleNotFoundError", "a package": "ModuleNotFoundError",
        "built in": "ModuleNotFoundError", "frozen": "ModuleNotFoundError",
        "a codec": "LookupError", "utf-8": "works", "a path set anew": "ModuleNotFoundError",
    }, done.stderr  # fmt: skip
    assert path == f"path ['{tmp_path}']"
