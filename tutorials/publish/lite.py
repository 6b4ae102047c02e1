"""The lessons in a browser, with nothing to install: JupyterLite, and Python as WebAssembly.

`make site` puts it beside the pages, as lite/; it needs a web server, as
`python3 -m http.server -d build/site`.

Nothing comes from a content delivery network, neither now nor when a page is read: Pyodide is
taken from npm's registry, with the checksum that this names, and the wheels that IPython needs
from PyPI, in the versions of Pyodide's own lock. minirun is the wheel of this repository; it is
entered into the lock, so that `import minirun` finds it. The cells show what was recorded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tutorials.publish.notebooks import ROOT

REGISTRY = "https://registry.npmjs.org/pyodide"
NEEDED = ("ipython", "jedi", "micropip", "packaging", "rich")
"""What the kernel and minirun import; what these need stands in Pyodide's lock."""
KERNEL = ("comm",)
"""What the kernel asks piplite for."""


def build(out: Path) -> None:
    """Assemble JupyterLite in a folder. Raises OSError without a registry, CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="minirun-lite.") as place:
        work = Path(place)
        pyodide(work / "pyodide")
        with tarfile.open(work / "pyodide.tar.bz2", "w:bz2", compresslevel=1) as archive:
            archive.add(work / "pyodide", "pyodide")
        files = work / "files"
        shutil.copytree(ROOT / "notebooks", files / "notebooks")
        shutil.copytree(ROOT / "tutorials" / "pictures", files / "tutorials" / "pictures")
        _download(work / "wheels", *KERNEL)
        wheels = [f"--piplite-wheels={wheel}" for wheel in (work / "wheels").glob("*.whl")]
        words = ["--apps=lab", "--LiteBuildConfig.no_sourcemaps=True", *wheels]
        words += [f"--contents={files}", f"--output-dir={out}"]
        (work / "lite").mkdir()
        _run("jupyter_lite_build", cwd=work / "lite", words=[
            "-m", "jupyterlite_core", "build", *words, f"--pyodide={work / 'pyodide.tar.bz2'}",
        ])  # fmt: skip


def pyodide(folder: Path) -> None:
    """Unpack Pyodide, with the wheels that are needed and minirun's own. Raises OSError."""
    from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION

    _unpack(PYODIDE_VERSION, folder)
    lock = folder / "pyodide-lock.json"
    content = json.loads(lock.read_text())
    packages = content["packages"]
    names = needed(packages)
    _download(folder, *(f"{name}=={packages[name]['version']}" for name in names))
    wheels = {_plain(wheel.name.partition("-")[0]): wheel for wheel in folder.glob("*.whl")}
    for name in names:
        packages[name] |= _entry(wheels[_plain(name)])
    own = _own_wheel(folder)
    packages["minirun"] = _entry(own) | {
        "name": "minirun", "version": own.name.split("-")[1], "install_dir": "site",
        "package_type": "package", "imports": ["minirun"], "depends": ["rich"],
        "unvendored_tests": False,
    }  # fmt: skip
    lock.write_text(json.dumps(content))


def needed(packages: dict[str, Any]) -> list[str]:
    """Return the names in the lock of all that NEEDED need."""
    known = {_plain(name): name for name in packages}
    todo, found = list(NEEDED), list[str]()
    while todo:
        name = known[_plain(todo.pop())]
        if name not in found:
            found.append(name)
            todo += packages[name]["depends"]
    return found


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _entry(wheel: Path) -> dict[str, Any]:
    return {"file_name": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}


def _unpack(version: str, folder: Path) -> None:
    """Fetch npm's package of Pyodide, check it, and unpack it. Raises OSError."""
    with urllib.request.urlopen(f"{REGISTRY}/{version}", timeout=60) as answer:
        about = json.load(answer)["dist"]
    with urllib.request.urlopen(about["tarball"], timeout=300) as answer:
        data = answer.read()
    if f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}" != about["integrity"]:
        raise OSError(f"{about['tarball']}: not what the registry names")
    npm = folder.parent / "npm"
    npm.mkdir()
    subprocess.run(["tar", "xzf", "-", "-C", npm], input=data, check=True)
    shutil.move(npm / "package", folder)
    for unused in (*folder.glob("*.map"), *folder.glob("*.d.ts"), *folder.glob("*.html")):
        unused.unlink()


def _download(folder: Path, *packages: str) -> None:
    target = ["--python-version=3.14", "--platform=any", "--only-binary=:all:", "--no-deps"]
    _run("pip", words=["-m", "pip", "download", "-q", *target, f"--dest={folder}", *packages])


def _own_wheel(folder: Path) -> Path:
    """Build minirun's wheel from a copy: a build leaves files beside its source."""
    with tempfile.TemporaryDirectory() as place:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "minirun", Path(place) / "minirun", ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, place)
        _run("pip", words=["-m", "pip", "wheel", "-q", "--no-deps", f"-w{folder}", place])
    return next(folder.glob("minirun-*.whl"))


def _run(name: str, words: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, check=False, text=True, capture_output=True
    )
    if done.returncode:
        raise OSError(f"{name}: {done.stderr.strip() or done.stdout.strip()}")
