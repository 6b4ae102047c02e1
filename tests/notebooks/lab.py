"""A real JupyterLab, or Notebook 7, and its notebooks in a real browser."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conftest import STORE, wait_until
from faces.show.browser import Browser

TOP = Path(__file__).parents[2]
PLACE = "document.getElementById('live-place')?.textContent ?? ''"
_QUIET = (
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.news_url=None",
)

_STARTUP = """import os
with open({0!r}) as _file:
    os.environ["MINIRUN_ROOT"] = _file.read()
del os, _file
"""
"""What each kernel does first."""
_NO_NEWS = '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}'


def write_cells(file: Path, cells: Sequence[str]) -> None:
    """Write a notebook of these code cells."""
    code = [
        {"cell_type": "code", "id": f"c{number}", "source": cell, "metadata": {}, "outputs": [],
         "execution_count": None}
        for number, cell in enumerate(cells)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    page = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": code}
    file.write_text(json.dumps(page))


def listens(port: int) -> bool:
    """Return True if a server takes connections at this port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A JupyterLab, or Notebook 7. Its start takes longer than what a test does with it.

    Each notebook has a kernel, a folder and a state root of its own: `use` says which root.
    """

    def __init__(self, app: str, folder: Path, prefix: Sequence[str] = ()) -> None:
        """`app`: lab or notebook; `prefix`: the words of a program that starts it."""
        self.app = app
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.count = 0
        own = {
            f"JUPYTER_{name.upper()}_DIR": str(folder / name)
            for name in ("config", "data", "runtime")
        }
        settings = folder / "config" / "labconfig" / "default_setting_overrides.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(_NO_NEWS)
        startup = folder / "ipython/profile_default/startup/root.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(_STARTUP.format(str(folder / "root")))
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *prefix, sys.executable, "-m", "jupyter", app, "--allow-root", "--no-browser",
                    "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={self.files}", *_QUIET,
                    "--LabApp.expose_app_in_browser=True",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | own | {
                    "HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"),
                    "MINIRUN_STORE": STORE,
                },
            )  # fmt: skip
        found = self._running(folder / "runtime")
        wait_until(lambda: listens(found["port"]), 120)  # it says where before it listens
        self.url = found["url"].replace("localhost", "127.0.0.1")
        self.token = found["token"]

    def _running(self, runtime: Path) -> dict[str, Any]:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            for file in runtime.glob("jpserver-*.json"):
                try:
                    found: dict[str, Any] = json.loads(file.read_text())
                    return found
                except ValueError:
                    pass  # it is being written
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def use(self, root: Path) -> Path:
        """Let kernels that start from now on have this state root; return a folder for files."""
        (self.folder / "root").write_text(str(root))
        self.count += 1
        place = self.files / str(self.count)
        place.mkdir()
        return place

    def address(self, file: Path) -> str:
        """Return a notebook's address; in a workspace of its own, in which no other is open."""
        kind = f"lab/workspaces/w{self.count}/tree" if self.app == "lab" else "notebooks"
        return f"{self.url}{kind}/{file.relative_to(self.files)}?token={self.token}"

    def end_kernels(self) -> None:
        """End all kernels, as the end of the server would."""
        for row in json.loads(self._ask("GET", "api/sessions")):
            self._ask("DELETE", f"api/sessions/{row['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(60)


CONNECTED = (
    "typeof jupyterapp === 'object' && [...jupyterapp.shell.widgets('main')].some("
    "w => w.sessionContext?.session?.kernel?.connectionStatus === 'connected')"
)
"""True if the page of a notebook speaks to its kernel."""


class Lab:
    """A notebook of `cells` on a server, and a browser that has it open."""

    def __init__(
        self, server: Server, root: Path, browser: Browser, cells: Sequence[str], lesson: str = ""
    ) -> None:
        """`root`: the state root of its kernel; `browser`: with loopback, in whatever page.

        `lesson`: instead of cells a copy of a lesson, "en/00-seven-stages", beside its pictures.
        """
        self.server = server
        files = server.use(root)
        self.file = files / "page.ipynb"
        if lesson:
            self.file = files / "notebooks" / f"{lesson}.ipynb"
            for each in ("notebooks", "tutorials/pictures"):
                shutil.copytree(TOP / each, files / each)
        else:
            write_cells(self.file, cells)
        self.browser = browser
        self.browser.renew()
        self.browser.visit(server.address(self.file), width=1280, height=1000)
        ready = ".jp-NotebookPanel .jp-CodeCell .cm-content"
        self.browser.wait(f"document.querySelectorAll('{ready}').length >= {len(cells) or 1}", 180)
        if server.app == "lab":  # what is executed before may be lost when it connects again
            with suppress(AssertionError):
                self.browser.wait(CONNECTED, 60)

    def execute(self, number: int, done: str, times: int = 1) -> None:
        """Execute the cell with this number; wait until an expression is true in the browser.

        `times`: 2 if it is the second time, and no other cell is executed.
        """
        cell = f"document.querySelectorAll('.jp-NotebookPanel .jp-CodeCell')[{number}]"
        before = f"[{times - 1 or ' '}]:"
        prompt = f"{cell}?.querySelector('.jp-InputPrompt')?.textContent"
        begun = f"({prompt} ?? '{before}') !== '{before}'"  # its page may be drawn again
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 8}
        while not self.browser.run(begun):  # until the kernel is there it is not taken
            self.browser.run(f"{cell}?.querySelector('.cm-content')?.focus()")
            self.browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **enter)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", **enter)
            with suppress(AssertionError):
                self.browser.wait(begun, 1)
        try:
            self.browser.wait(done, 240)
        except AssertionError as error:
            said = self.browser.run(
                "[...document.querySelectorAll('.jp-OutputArea-output')]"
                ".map(e => e.textContent).join('\\n')"
            )
            log = self.server.log.read_text()[-2000:]
            prompts = self.browser.run(f"{prompt} ?? 'none'")
            raise AssertionError(f"{error}\nprompt {prompts}, output: {said}\nlog: {log}") from None

    def placed(self, text: str) -> None:
        """Wait, inside the frame, until the page says where the run is."""
        self.browser.wait(f"({PLACE}).startsWith({json.dumps(text)})", 120)

    def complaints(self) -> list[str]:
        """What the browser has to say, but for the requests to the server itself."""
        own = ("127.0.0.1", "blob:", "data:")
        return [one for one in self.browser.complaints() if not any(word in one for word in own)]

    def close(self) -> None:
        """End the page, and the kernel."""
        self.browser.renew()
        self.server.end_kernels()
