"""A lesson in JupyterLite: Python runs in the browser, the cells show what was recorded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faces.show.browser import Browser
from minirun.faces.api.course import tab
from required import installed

pytest.importorskip("jupyterlite_pyodide_kernel")
from tutorials.publish import lite

PANEL = "[...jupyterapp.shell.widgets('main')].find(w => w.context && w.content.widgets)"
RUN = "jupyterapp.commands.execute('notebook:run-cell-and-select-next'); 1"
PATH = "notebooks/ko/07-devices.ipynb"
CELLS = 6


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    out = site / "lite"
    try:
        lite.build(out)
    except OSError as error:
        pytest.skip(f"JupyterLite cannot be assembled here: {error}")
    settings = out / "jupyter-lite.json"
    content = json.loads(settings.read_text())
    content["jupyter-config-data"]["exposeAppInBrowser"] = True  # for this test alone
    settings.write_text(json.dumps(content))
    words = ["-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(site)]
    server = subprocess.Popen(
        [sys.executable, "-u", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout
    port = server.stdout.readline().split("port ")[1].split()[0]
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.communicate()


@pytest.fixture
def notebook(served: str, tmp_path: Path) -> Iterator[Browser]:
    """A lesson's notebook, whose kernel is ready."""
    installed("chromium")
    browser = Browser(tmp_path / "profile", loopback=True)
    try:
        browser.visit(f"{served}/lite/lab/index.html?path={PATH}")
        ready = f"{PANEL}?.context.sessionContext.session?.kernel?.status === 'idle'"
        browser.wait(f"typeof jupyterapp === 'object' && ({ready})", 180)
        browser.run(f"jupyterapp.shell.activateById({PANEL}.id); 1")
        yield browser
    finally:
        browser.close()


def run_cells(browser: Browser, count: int) -> list[Any]:
    """Run the first cells; return the outputs of those that are code."""
    for number in range(count):
        browser.run(RUN)
        cell = f"{PANEL}.content.widgets[{number}].model"
        browser.wait(f"{cell}.type !== 'code' || {cell}.executionCount > 0")
    outputs = f"JSON.stringify({PANEL}.content.widgets.slice(0, {count})"
    outputs += ".filter(w => w.model.outputs).map(w => w.model.outputs.toJSON()))"
    browser.wait(f"JSON.parse({outputs}).every(each => each.length > 0)")
    return list(json.loads(browser.run(outputs)))


def test_a_lesson_runs_in_the_browser(notebook: Browser) -> None:
    said = run_cells(notebook, CELLS)
    assert "emscripten" in said[0][0]["data"]["text/plain"]
    assert "crw-rw-rw- 1 root root 195, 255" in said[1][0]["data"]["text/plain"]
    assert not any(each["output_type"] == "error" for outputs in said for each in outputs)


def test_a_cell_is_typed_into_the_tab(notebook: Browser, served: str) -> None:
    """Here the page hears what is sent; that the tab types it is seen in test_tab_page."""
    heard = f"new BroadcastChannel('{tab.CHANNEL}').onmessage = ({{data}}) => heard.push(data.run)"
    notebook.run(f"window.heard = []; {heard}; 1")
    cells = "minirun state lesson | grep pid\n# \"'\u2603\n"
    source = json.dumps(f"%%minirun\n{cells}")
    notebook.run(f"{PANEL}.content.widgets[3].model.sharedModel.setSource({source}); 1")
    first, typed = run_cells(notebook, 4)
    notebook.wait("heard.length > 0", 30)
    assert notebook.run("heard") == [cells]
    for outputs in (first, typed):
        assert f"{served}/tab/" in outputs[0]["data"]["text/plain"]
