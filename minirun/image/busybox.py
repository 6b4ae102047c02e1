"""The recipe `busybox`: one static program, its names as links, and the smallest /etc.

The program is that of Debian's package busybox-static as it is installed here, so the image needs
no network and is the same on every machine with the same version of the package. The image that
docker pulls under this name is built by its own maintainers and differs.
"""

import os
import subprocess

from minirun.core.errors import ImageError
from minirun.image import tree
from minirun.image.catalogue import Draft

BUSYBOX = "/bin/busybox"
PACKAGE = "busybox-static"

DIRECTORIES = (
    "bin", "dev", "etc", "home", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "usr/bin",
    "usr/lib", "usr/sbin", "var", "var/log", "var/run", "var/tmp",
)  # fmt: skip
MODES = {"root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}
FILES = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/sh\n"
        "daemon:x:1:1:daemon:/usr/sbin:/bin/false\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    ),
    "etc/group": "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:::::::\ndaemon:*:::::::\nnobody:*:::::::\n",
    "etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
    "etc/hostname": "busybox\n",
    "etc/resolv.conf": "",
}


def fill(draft: Draft) -> dict[str, object]:
    """Make the root filesystem in a layer of `draft` and return the entries of image.json.

    Raises ImageError if the package is not installed.
    """
    version = _installed_version()
    with open(BUSYBOX, "rb") as file:
        program = file.read()
        built = os.fstat(file.fileno()).st_mtime_ns
    root = draft.layer()
    for path in DIRECTORIES:
        os.mkdir(os.path.join(root, path))
        os.chmod(os.path.join(root, path), MODES.get(path, 0o755))
    _write(os.path.join(root, "bin/busybox"), program, 0o755)
    for path in _applets():
        target = os.path.relpath("bin/busybox", os.path.dirname(path))
        os.symlink(target, os.path.join(root, path))
    for path, text in FILES.items():
        mode = 0o600 if path == "etc/shadow" else 0o644
        _write(os.path.join(root, path), text.encode(), mode)
    tree.clamp_times(root, built)
    return {
        "origin": f"busybox {version} of Debian's package {PACKAGE}",
        "recipe": {"name": "busybox", "tool": "minirun", "packages": {PACKAGE: version}},
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "cmd": ["sh"],
    }


def _installed_version() -> str:
    command = ["dpkg-query", "--show", "--showformat", "${Version}", PACKAGE]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ImageError(f"{PACKAGE} is not installed", f"apt-get install {PACKAGE}") from None
    if not os.path.exists(BUSYBOX):
        raise ImageError(f"{BUSYBOX} is missing", f"apt-get install --reinstall {PACKAGE}")
    return result.stdout


def _applets() -> list[str]:
    command = [BUSYBOX, "--list-full"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    names = set(result.stdout.split()) - {"linuxrc", "bin/busybox"}  # linuxrc is for an initrd
    return sorted(names)


def _write(path: str, data: bytes, mode: int) -> None:
    with open(path, "xb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
