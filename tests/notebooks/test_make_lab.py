"""`make lab`: JupyterLab on this machine alone, with the lessons and the right kernel."""

import json
import os
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from conftest import wait_until
from notebooks.lab import listens

TOP = Path(__file__).parents[2]


def test_it_opens_the_lessons(tmp_path: Path) -> None:
    log = tmp_path / "log"
    home = {"HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    words = ["make", "lab", "JUPYTER=--no-browser --ServerApp.port=0"]
    with log.open("w") as file:
        process = subprocess.Popen(
            words, cwd=TOP, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=os.environ | home, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: _address(log) or process.poll() is not None, 120)
        address, token = _address(log) or ("", "")
        assert address, log.read_text()
        port = int(urllib.parse.urlsplit(address).port or 0)
        wait_until(lambda: listens(port))  # it prints the address before it listens
        files = _asked(address, "contents/notebooks/en", token)["content"]
        assert "00-seven-stages.ipynb" in {file["name"] for file in files}
        assert _asked(address, "contents/tutorials/pictures/figure-3.svg", token)["size"]
        found = _asked(address, "kernelspecs", token)
        news = "@jupyterlab/apputils-extension:notification"
        asks = _asked(address, f"../lab/api/settings/{news}", token)["schema"]["properties"]
        assert asks["fetchNews"]["default"] == "false", "nothing is asked about Jupyter's news"
        kernel = found["kernelspecs"][found["default"]]["spec"]
        assert kernel["language"] == "python"
        assert Path(kernel["argv"][0]).name.startswith("python") or kernel["argv"][0] == "python"
        listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
        bound = [line.split()[3] for line in listening.stdout.splitlines() if f":{port} " in line]
        assert bound == [f"127.0.0.1:{port}"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def _address(log: Path) -> tuple[str, str] | None:
    found = re.search(r"(http://127\.0\.0\.1:\d+/)lab\?token=(\w+)", log.read_text())
    return (found[1], found[2]) if found else None


def _asked(address: str, what: str, token: str) -> Any:
    request = urllib.request.Request(urllib.parse.urljoin(f"{address}api/", what))
    request.add_header("Authorization", f"token {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)
