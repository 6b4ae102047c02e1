"""`make tab`: build/site/tab, from Debian's packages, npm's and PyPI's. It takes some minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tutorials.publish.tab import page


def main() -> int:
    """Build it, and say how large it is."""
    out = page.folder()
    if os.geteuid():
        print("make tab: it makes device nodes and a chroot: call it as root", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="minirun-tab.") as work:
        made = Path(work) / "page"
        try:
            page.make(Path(work), made)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"make tab: {error}", file=sys.stderr)
            return 1
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(made, out)
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    state = (out / "state.bin").stat().st_size
    print(f"{out}: {total / 1e6:.0f} MB, of which the state {state / 1e6:.1f} MB")
    print("to see it: python3 -m http.server --bind 127.0.0.1 -d build/site, then /tab/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
