"""OCI's runtime-tools, whose validation/ programs ask a runtime what the runtime-spec demands.

Debian has it as a source package, and its Go dependencies as packages (Makefile: GO_PACKAGES), all
but one, which tap/ stands in for. The archive comes from the machine's own mirror, checked against
SHA256; all that is made lies in build/conformance/, under a key of everything it was made from.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from debian_source import fetch  # noqa: E402

VERSION = "0.9.0.109.ge931285"
SHA256 = "203989a1ea98cf2aaced79155bbda09270b20db19b03376dde91ab12e5e6a0fe"
NAME = "golang-github-opencontainers-runtime-tools"
ARCHIVE = f"pool/main/g/{NAME}/{NAME}_{VERSION}.orig.tar.xz"
DEBIAN_GO_SOURCES = "/usr/share/gocode"

BUILD = HERE.parents[1] / "build" / "conformance"
TAP = HERE / "tap" / "tap.go"


def build() -> Path:
    """Return the directory with the programs in validation/, building it where it is not there.

    Raises CalledProcessError, OSError; ImageError where apt knows no mirror.
    """
    key = hashlib.sha256(f"{SHA256} {TAP.read_text()} {_go_version()}".encode()).hexdigest()[:16]
    done = BUILD / key
    if not done.is_dir():
        archive = fetch(ARCHIVE, SHA256, BUILD)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=".new-") as scratch:
            _compile(_unpack(archive, Path(scratch)), Path(scratch), Path(scratch, "done"))
            os.rename(Path(scratch, "done"), done)
    return done


def programs(directory: Path) -> list[str]:
    """Return the names of the programs, in order."""
    return sorted(path.name for path in (directory / "validation").iterdir())


def _go_version() -> str:
    return subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout


def _unpack(archive: Path, scratch: Path) -> Path:
    """Lay out a GOPATH of the archive and the stand-in; return where runtime-tools is in it."""
    github = scratch / "src" / "github.com"
    tools = github / "opencontainers" / "runtime-tools"
    tools.mkdir(parents=True)
    subprocess.run(["tar", "--strip-components=1", "-xf", archive, "-C", tools], check=True)
    tap = github / "mndrix" / "tap-go"
    tap.mkdir(parents=True)
    shutil.copy(TAP, tap)
    return tools


def _compile(tools: Path, scratch: Path, done: Path) -> None:
    """Compile the programs, statically: runtimetest runs in containers that have no libc."""
    (done / "validation").mkdir(parents=True)
    environment = os.environ | {
        "GO111MODULE": "off",
        "GOPATH": f"{scratch}:{DEBIAN_GO_SOURCES}",
        "GOCACHE": str(scratch / "cache"),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    go = ["nice", "go", "build", "-ldflags", "-s -w"]
    for output, package in ((done / "validation", "./validation/..."), (done, "./cmd/runtimetest")):
        subprocess.run([*go, "-o", f"{output}/", package], cwd=tools, env=environment, check=True)
    for rootfs in tools.glob("rootfs-*.tar.gz"):
        shutil.copy(rootfs, done)
