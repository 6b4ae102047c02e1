"""A lesson in JupyterLite: Python runs in the browser, the cells show what was recorded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import wait_until
from faces.show.browser import Browser
from notebooks import files
from required import installed
from tutorials.publish.notebooks import ROOT

pytest.importorskip("jupyterlite_pyodide_kernel")
from tutorials.publish import lite

PANEL = "[...jupyterapp.shell.widgets('main')].find(w => w.context && w.content.widgets)"
RUN = "jupyterapp.commands.execute('notebook:run-cell-and-select-next'); 1"
CELLS = 6


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    out = tmp_path_factory.mktemp("lite") / "site"
    try:
        lite.build(out)
    except OSError as error:
        pytest.skip(f"JupyterLite cannot be assembled here: {error}")
    settings = out / "jupyter-lite.json"
    content = json.loads(settings.read_text())
    content["jupyter-config-data"]["exposeAppInBrowser"] = True  # for this test alone
    settings.write_text(json.dumps(content))
    words = ["-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(out)]
    server = subprocess.Popen(
        [sys.executable, "-u", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout
    port = server.stdout.readline().split("port ")[1].split()[0]
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.communicate()


def test_a_lesson_runs_in_the_browser(served: str, tmp_path: Path) -> None:
    installed("chromium")
    path = "notebooks/ko/07-devices.ipynb"
    cells = files.read(ROOT / path).cells[:CELLS]
    browser = Browser(tmp_path / "profile", loopback=True)
    try:
        browser.visit(f"{served}/lab/index.html?path={path}")
        ready = f"{PANEL}?.context.sessionContext.session?.kernel?.status === 'idle'"
        browser.wait(f"typeof jupyterapp === 'object' && ({ready})", 180)
        browser.run(f"jupyterapp.shell.activateById({PANEL}.id); 1")
        for number, cell in enumerate(cells):
            browser.run(RUN)
            if cell.cell_type == "code":
                browser.wait(f"{PANEL}.content.widgets[{number}].model.executionCount > 0")
        outputs = f"JSON.stringify({PANEL}.content.widgets.slice(0, {CELLS})"
        outputs += ".filter(w => w.model.outputs).map(w => w.model.outputs.toJSON()))"
        wait_until(lambda: "195" in browser.run(outputs))
        said = json.loads(browser.run(outputs))
    finally:
        browser.close()
    assert "emscripten" in said[0][0]["data"]["text/plain"]
    assert "crw-rw-rw- 1 root root 195, 255" in said[1][0]["data"]["text/plain"]
    assert not any(each["output_type"] == "error" for outputs in said for each in outputs)
