"""runc's own tests, tests/integration of its source, as Debian has it: each file is for bats(1).

They want three programs of runc's contrib/, compiled here with Debian's Go and its libraries
(Makefile: BATS_PACKAGES), and the root filesystems of busybox and debian, which they would fetch:
here minirun's own images are packed for them. All of it lies in build/bats/, under a key of
everything that it was made from, this file among it.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from debian_source import fetch  # noqa: E402
from minirun.core.errors import ImageError  # noqa: E402
from minirun.core.keeping.places import STORE  # noqa: E402
from minirun.image import split, store  # noqa: E402

ARCHIVE = "pool/main/r/runc/runc_1.1.5+ds1.orig.tar.xz"
SHA256 = "e936cc563c4557178b3416aa1bb9e8231c53011beb8df67adedbfbaba4eacce7"
BUILD = HERE.parents[1] / "build" / "bats"
PROGRAMS = ("recvtty", "sd-helper", "seccompagent")
IMAGES = ("busybox", "debian")
DEBIAN_GO_SOURCES = "/usr/share/gocode"


def build() -> Path:
    """Return the folder of the *.bats files, with all that they need beside it.

    Raises CalledProcessError, OSError; ImageError where the store lacks an image.
    """
    images = {name: _image(name) for name in IMAGES}
    made_from = [
        SHA256,
        Path(__file__).read_text(),
        _go("version"),
        *(image.digest for image in images.values()),
    ]
    done = BUILD / hashlib.sha256(" ".join(made_from).encode()).hexdigest()[:16]
    if not done.is_dir():
        archive = fetch(ARCHIVE, SHA256, BUILD)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=".new-") as scratch:
            runc = Path(scratch, "src/github.com/opencontainers/runc")
            runc.mkdir(parents=True)
            subprocess.run(["tar", "--strip-components=1", "-xf", archive, "-C", runc], check=True)
            _compile(runc, Path(scratch))
            _pack(images, runc / "tests/integration/testdata")
            _wait_for_helpers(runc / "tests/integration/helpers.bash")
            os.rename(runc, done)
    return done / "tests/integration"


def _image(name: str) -> store.Image:
    folder = os.environ.get("MINIRUN_STORE", STORE)
    image = store.find(folder, split(name))
    if not image:
        raise ImageError(f"no image {name} in {folder}", f"rootfs-tools/build {name}")
    return image


def _go(*arguments: str) -> str:
    done = subprocess.run(["go", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _compile(runc: Path, gopath: Path) -> None:
    """Compile the programs; name one that cannot be, and what the compiler says of it."""
    environment = os.environ | {
        "GO111MODULE": "off",
        "GOPATH": f"{gopath}:{DEBIAN_GO_SOURCES}",
        "GOCACHE": str(gopath / "cache"),
        "GOFLAGS": "",
    }
    for name in PROGRAMS:
        folder = runc / "contrib/cmd" / name
        command = ["nice", "go", "build", "-tags", "seccomp", "-o", name, "."]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{name} is not compiled, so its tests fail: {done.stderr.strip()}", flush=True)


def _pack(images: dict[str, store.Image], testdata: Path) -> None:
    """Pack the images under the names that get-images.sh looks for before it pulls.

    tar reads an archive by what it holds, so these are not compressed, whatever they are called.
    The busybox of the registry has no /proc and no /sys; a test makes links of these names.
    """
    without = ["--exclude=./proc", "--exclude=./sys"]
    for name, image in images.items():
        archive = testdata / f"{name}-{_go('env', 'GOARCH')}.tar.xz"
        subprocess.run(["tar", "-C", image.layers[0], "-cf", archive, *without, "."], check=True)


def _wait_for_helpers(helpers: Path) -> None:
    """Have the tests wait until a helper listens: on a busy machine it is too late for some."""
    text = helpers.read_text()
    for started, socket in (
        ('"$RECVTTY" --pid-file', "$CONSOLE_SOCKET"),
        ('"${SECCOMP_AGENT}" -socketfile', "$SECCCOMP_AGENT_SOCKET"),
    ):
        (line,) = (line for line in text.splitlines() if started in line)
        text = text.replace(line, f'{line}\n\tretry 100 0.1 test -S "{socket}"')
    helpers.write_text(text)
