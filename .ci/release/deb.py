"""A .deb of minirun, for machines without git, pip and a network: Debian's dpkg-deb makes it.

Debian lacks some of the Python packages that minirun needs, and has others too old. So minirun and
they lie in a folder of their own, /usr/lib/minirun, compiled for one version of Python: the one on
which the package depends. /usr/bin/minirun is the launcher (minirun.fast). The package has no
maintainer scripts: nothing is started, enabled or changed. Built twice, it is the same file: times
are the release's, owners root, and the list of files is sorted.
"""

import compileall
import gzip
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from email.message import Message
from email.parser import Parser
from pathlib import Path

import changelog

from minirun.fast import launcher

NAME = "minirun"
LIBRARY = "usr/lib/minirun"
DOC = f"usr/share/doc/{NAME}"
COMPLETIONS = {
    "bash": f"usr/share/bash-completion/completions/{NAME}",
    "zsh": f"usr/share/zsh/vendor-completions/_{NAME}",
    "fish": f"usr/share/fish/vendor_completions.d/{NAME}.fish",
}
DEBIANS = "/usr/lib/python3/dist-packages"
"""python3-prctl's place: after /usr/lib/minirun in sys.path."""
SETUP_ALONE = ("python3", "python3-venv")
"""What `make setup` needs and the package does not: it names its Python, and has no .venv."""
TEXTS = Path(__file__).parent
_LICENSE_FILE = re.compile(r"LICEN[CS]E|COPYING|NOTICE|AUTHORS", re.IGNORECASE)
_OWN_LICENSE = f"""{NAME} is under the Apache License, version 2.0, which is in
/usr/share/common-licenses/Apache-2.0. In /usr/lib/{NAME} are, of others:
"""
_COMMON_LICENSES = {
    r"Apache License\s+Version 2\.0": "Apache-2.0",
    r"GNU GENERAL PUBLIC LICENSE\s+Version 2,": "GPL-2",
}
_START = "import sys; sys.path += {!r}; from minirun.__main__ import start; start()"


class Package:
    """The package, built of a wheel and of the clone."""

    def __init__(self, top: Path, wheel: Path, maintainer: str, epoch: int) -> None:
        """`epoch` is the time of all files, in seconds since 1970."""
        self.top, self.wheel, self.maintainer, self.epoch = top, wheel, maintainer, epoch
        self.version = wheel.name.split("-")[1]
        self.python = os.path.basename(os.path.realpath(sys.executable))

    def build(self, place: Path, depends: list[str], recommends: list[str]) -> Path:
        """Build the .deb in a folder; return its path. Raises CalledProcessError, RefusedError."""
        if not re.fullmatch(r"/usr/bin/python3\.\d+", os.path.realpath(sys.executable)):
            raise changelog.RefusedError(
                f"{os.path.realpath(sys.executable)} is not Debian's own Python (make clean setup)"
            )
        architecture = _output("dpkg", "--print-architecture").strip()
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / NAME
            root.mkdir(mode=0o755)
            self._install(root)
            self._documents(root)
            self._set_times(root)
            self._compile(root)
            self._set_times(root)
            needed = [self.python, "libc6", *(one for one in depends if one not in SETUP_ALONE)]
            self._control(root, architecture, needed, recommends)
            path = place / f"{NAME}_{self.version}_{architecture}.deb"
            argv = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path]
            env = os.environ | {"DPKG_DEB_THREADS_MAX": "1"}
            subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL)
        return path

    def _install(self, root: Path) -> None:
        """Put the wheel and what it needs into the library, the ladder into /usr/share."""
        library = root / LIBRARY
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*pip, "--target", library, self.wheel], check=True)
        shutil.rmtree(library / "bin")
        (root / "usr/share").mkdir(parents=True)
        shutil.move(library / "share" / NAME, root / "usr/share" / NAME)
        shutil.rmtree(library / "share")
        for module in (library / "yaml").glob("_yaml.*.so"):  # has a copy of Debian's libyaml in it
            module.unlink()

    def _documents(self, root: Path) -> None:
        """Write what Debian's policy asks for, man pages and completions."""
        pages = root / "usr/share/man/man1"
        for page in sorted((self.top / "build/man/man1").iterdir()):
            _zipped(pages / f"{page.name}.gz", page.read_text())
        program = _START.format([str(root / LIBRARY)])
        for shell, path in COMPLETIONS.items():
            text = _output(sys.executable, "-IBSc", program, "completion", shell)
            _write(root / path, text)
        doc = root / DOC
        news = (self.top / "CHANGELOG.md").read_text()
        _zipped(doc / "changelog.gz", changelog.debian(news, NAME, self.maintainer))
        _write(doc / "copyright", self._copyright(root / LIBRARY))
        others = [one for one in _packages(root / LIBRARY).values() if one["Name"] != NAME]
        rows = "\n".join(f"    {each['Name']} {each['Version']}" for each in others)
        release = re.search(r'^PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text(), re.M)
        text = (TEXTS / "README.Debian").read_text()
        _write(doc / "README.Debian", text.format(
            release=release[1] if release else "Debian", python=self.python, packages=rows
        ))  # fmt: skip
        _write(root / f"usr/share/lintian/overrides/{NAME}", (TEXTS / "lintian").read_text())
        records = sorted((root / LIBRARY).glob("*.dist-info/*"))
        for path in records:  # pip's, with this machine's paths; licences, which stand above
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "METADATA":
                path.unlink()

    def _copyright(self, library: Path) -> str:
        """Return whose the parts are, and their licences: each as its package has it."""
        parts = [_OWN_LICENSE]
        for info, about in _packages(library).items():
            if about["Name"] == NAME:
                continue
            parts.append(f"{'-' * 72}\n{textwrap.fill(_terms(about), 72)}\n")
            files = [path for path in info.rglob("*") if _LICENSE_FILE.match(path.name)]
            parts += [_license(path) for path in sorted(files) if path.is_file()]
        return "\n".join(parts)

    def _set_times(self, root: Path) -> None:
        """Give all files the release's time, and the modes that a package's files have."""
        for folder, _, names in os.walk(root, topdown=False):
            for name in names:
                path = os.path.join(folder, name)
                os.chmod(path, 0o755 if path == str(root / "usr/bin" / NAME) else 0o644)
                os.utime(path, (self.epoch, self.epoch))
            os.chmod(folder, 0o755)
            os.utime(folder, (self.epoch, self.epoch))

    def _compile(self, root: Path) -> None:
        """Compile the library, and write the launcher with its file of code."""
        library = root / LIBRARY
        compileall.compile_dir(
            library, quiet=1, stripdir=str(root), prependdir="/", maxlevels=99,
            invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP,
        )  # fmt: skip
        (root / "usr/bin").mkdir()
        launcher.write(
            str(root / "usr/bin" / NAME), str(library / f"{NAME}{launcher.SUFFIX}"),
            [library / each for each in launcher.PACKAGES], [f"/{LIBRARY}", DEBIANS], str(root),
        )  # fmt: skip
        keep = (
            "import sys; sys.path += {!r}\n"
            "from minirun.faces.knowledge import source; source.keep()"
        )
        subprocess.run([sys.executable, "-IBSc", keep.format([str(library)])], check=True)

    def _control(
        self, root: Path, architecture: str, depends: list[str], recommends: list[str]
    ) -> None:
        """Write DEBIAN/control and DEBIAN/md5sums: deb-control(5)."""
        files = sorted(path for path in root.rglob("*") if path.is_file())
        size = sum(max(1, -(-path.stat().st_size // 1024)) for path in files)
        text = (TEXTS / "control").read_text().format(
            name=NAME, version=self.version, architecture=architecture, size=size,
            maintainer=self.maintainer, depends=", ".join(depends),
            recommends=", ".join(recommends),
        )  # fmt: skip
        sums = _output("md5sum", *(str(path.relative_to(root)) for path in files), cwd=root)
        _write(root / "DEBIAN/control", text)
        _write(root / "DEBIAN/md5sums", sums)
        for path in (root / "DEBIAN/control", root / "DEBIAN/md5sums", root / "DEBIAN"):
            os.utime(path, (self.epoch, self.epoch))
        os.utime(root, (self.epoch, self.epoch))


def _packages(library: Path) -> dict[Path, Message]:
    """Return the folder of metadata → metadata, of each Python package."""
    found = {info: (info / "METADATA").read_text() for info in library.glob("*.dist-info")}
    return {info: Parser().parsestr(found[info]) for info in sorted(found)}


def _license(path: Path) -> str:
    """Return a licence's text, or where Debian has it."""
    text = path.read_text()
    for words, name in _COMMON_LICENSES.items():
        if re.match(rf"\s*{words}", text):
            return f"The text of {path.name}: /usr/share/common-licenses/{name}\n"
    return text


def _terms(about: Message) -> str:
    """Return whose a Python package is, and its licence, by its metadata."""
    owners = ("Author", "Author-email", "Maintainer", "Maintainer-email")
    owner = next((about[name] for name in owners if about[name]), "its authors")
    classes = [row.split(" :: ")[-1] for row in about.get_all("Classifier", []) if "License" in row]
    short = (about["License"] or "").strip().split("\n")[0]
    terms = about["License-Expression"] or short or ", ".join(classes)
    return f"{about['Name']} {about['Version']}, by {owner}: {terms}"


def _output(*argv: str, cwd: Path | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=cwd).stdout


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _zipped(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
