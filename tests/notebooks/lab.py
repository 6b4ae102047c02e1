"""A real JupyterLab, or Notebook 7, with one notebook, in a real browser."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from conftest import STORE, Program, wait_until
from show.browser import Browser

TOP = Path(__file__).parents[2]
PLACE = "document.getElementById('live-place')?.textContent ?? ''"
_QUIET = (
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.news_url=None",
)

_NO_NEWS = '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}'


def write_cells(file: Path, cells: Sequence[str]) -> None:
    """Write a notebook of these code cells."""
    code = [nbformat.v4.new_code_cell(cell) for cell in cells]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    page = nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": kernel})
    nbformat.write(page, file)


def listens(port: int) -> bool:
    """Return True if a server takes connections at this port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Lab:
    """A server of its own with a notebook of `cells`, and a browser that has it open."""

    def __init__(
        self, app: str, minirun: Program, folder: Path, cells: Sequence[str],
        prefix: Sequence[str] = (), lesson: str = "",
    ) -> None:  # fmt: skip
        """`app`: lab or notebook; `prefix`: the words of a program that starts it.

        `lesson`: instead of cells a copy of a lesson, "en/00-seven-stages", beside its pictures.
        """
        files = folder / "files"
        self.file = files / "page.ipynb"
        self.file.parent.mkdir(parents=True)
        if lesson:
            self.file = files / "notebooks" / f"{lesson}.ipynb"
            for each in ("notebooks", "tutorials/pictures"):
                shutil.copytree(TOP / each, files / each)
        else:
            write_cells(self.file, cells)
        own = {
            f"JUPYTER_{name.upper()}_DIR": str(folder / name)
            for name in ("config", "data", "runtime")
        }
        settings = folder / "config" / "labconfig" / "default_setting_overrides.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(_NO_NEWS)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(
                [
                    *prefix, sys.executable, "-m", "jupyter", app, "--allow-root", "--no-browser",
                    "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={files}", *_QUIET,
                    "--LabApp.expose_app_in_browser=True",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | own | {
                    "HOME": str(folder), "MINIRUN_ROOT": str(minirun.root), "MINIRUN_STORE": STORE,
                },
            )  # fmt: skip
        found = self._running(folder / "runtime")
        self.browser = Browser(folder / "profile", loopback=True)
        wait_until(lambda: listens(found["port"]), 30)  # it says where before it listens
        place = f"{'lab/tree' if app == 'lab' else 'notebooks'}/{self.file.relative_to(files)}"
        address = f"{found['url'].replace('localhost', '127.0.0.1')}{place}"
        self.browser.visit(f"{address}?token={found['token']}", width=1280, height=1000)
        ready = ".jp-NotebookPanel .jp-CodeCell .cm-content"
        self.browser.wait(f"document.querySelectorAll('{ready}').length >= {len(cells) or 1}", 60)

    def _running(self, runtime: Path) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.server.poll() is None, self.log.read_text()
            for file in runtime.glob("jpserver-*.json"):
                try:
                    found: dict[str, Any] = json.loads(file.read_text())
                    return found
                except ValueError:
                    pass  # it is being written
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def execute(self, number: int, done: str, times: int = 1) -> None:
        """Execute the cell with this number; wait until an expression is true in the browser.

        `times`: 2 if it is the second time, and no other cell is executed.
        """
        cell = f"document.querySelectorAll('.jp-NotebookPanel .jp-CodeCell')[{number}]"
        before = f"[{times - 1 or ' '}]:"
        begun = f"{cell}.querySelector('.jp-InputPrompt').textContent !== '{before}'"
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 8}
        while not self.browser.run(begun):  # until the kernel is there it is not taken
            self.browser.run(f"{cell}.querySelector('.cm-content').focus()")
            self.browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **enter)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", **enter)
            time.sleep(1)
        self.browser.wait(done, 60)

    def placed(self, text: str) -> None:
        """Wait, inside the frame, until the page says where the run is."""
        self.browser.wait(f"({PLACE}).startsWith({json.dumps(text)})", 30)

    def complaints(self) -> list[str]:
        """What the browser has to say, but for the requests to the server itself."""
        own = ("127.0.0.1", "blob:", "data:")
        return [one for one in self.browser.complaints() if not any(word in one for word in own)]

    def close(self) -> None:
        """End the browser, the server and its kernels."""
        self.browser.close()
        self.server.terminate()
        self.server.wait(20)
