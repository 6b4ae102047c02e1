"""Source archives of Debian's, for the suites of other projects that minirun is asked by."""

import os
import platform
import subprocess
from pathlib import Path

from rootfs_tools.recipe import aptsources


def fetch(archive: str, sha256: str, folder: Path) -> Path:
    """Return the archive at this path of Debian's mirror; it is fetched into `folder` once.

    The mirror is the machine's own, and apt's downloader has its proxies and checks the sum.
    Raises CalledProcessError; ImageError where apt knows no mirror.
    """
    path = folder / Path(archive).name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        mirror = aptsources.read(platform.freedesktop_os_release()["VERSION_CODENAME"]).mirror
        helper = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file"]
        url = f"{mirror.rstrip('/')}/{archive}"
        subprocess.run([*helper, url, f"{path}.new", f"SHA256:{sha256}"], check=True)
        os.rename(f"{path}.new", path)
    return path
