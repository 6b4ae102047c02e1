"""What tests need of a machine: named where it is missing, and a failure where it can be had.

`make test` installs the packages below. So with MINIRUN_REQUIRE=all (CI sets it) a missing program
is a failure, unless .ci/packages says why this machine cannot have its package: this release of
Debian is without it, or something of the user's would have to go.
"""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

STRICT = os.environ.get("MINIRUN_REQUIRE", "") == "all"
FOLDERS = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
PACKAGES = Path(__file__).parents[1] / ".ci" / "packages"
PACKAGE_OF = {
    "bridge": "containernetworking-plugins", "buildah": "buildah", "chromium": "chromium",
    "containerd": "containerd", "criu": "criu", "crun": "crun", "ctr": "containerd",
    "dbus-daemon": "dbus", "docker": "docker-cli|docker.io", "docker-registry": "docker-registry",
    "dockerd": "docker.io", "gcc": "gcc", "htpasswd": "apache2-utils", "munged": "munge",
    "pasta": "passt", "slirp4netns": "slirp4netns",
    "mkfs.ext4": "e2fsprogs", "chattr": "e2fsprogs", "nft": "nftables", "ip": "iproute2",
    "newgidmap": "uidmap", "newuidmap": "uidmap", "openssl": "openssl", "podman": "podman",
    "pivot_root": "util-linux-extra",
    "runc": "runc", "skopeo": "skopeo", "slurmctld": "slurmctld", "slurmd": "slurmd",
    "srun": "slurm-client", "strace": "strace", "systemd": "systemd", "systemd-cat": "systemd",
    "tmux": "tmux",
    "umoci": "umoci", "zstd": "zstd", "zsh": "zsh", "fish": "fish",
}  # fmt: skip
"""Program → Debian's package. A test of `make test`'s list sees that it installs them all."""


def skip(reason: str) -> NoReturn:
    """Skip, or fail where MINIRUN_REQUIRE says that this machine must be able to."""
    if STRICT:
        pytest.fail(f"required, but: {reason}")
    pytest.skip(reason)


def installed(program: str, path: str = FOLDERS) -> str:
    """Return where a program is, looked for in the folders of `path`; skips, or fails, without."""
    if found := shutil.which(program, path=path):
        return found
    package = PACKAGE_OF[program]
    if refused := _cannot_be_had(package):
        pytest.skip(f"{program} is missing: {refused}")
    skip(f"{program} is not installed: apt-get install {package.partition('|')[0]}")


def machine_has(text: str) -> None:
    """Skip, or fail, where this machine lacks what a lesson needs, beside root."""
    if "\nstrace " in text or "\nminirun observe " in text:
        installed("strace")
    if "pivot_root . " in text:
        installed("pivot_root")
    for program in ("ip", "nft"):
        if re.search(rf"^(?:host )?{program} ", text, re.MULTILINE):
            installed(program)
    if "--reuid" in text and not _user_has_namespaces():
        skip("a user without root may not make a user namespace on this machine")
    if "--cgroup v2" in text and " cgroup2 " not in Path("/proc/mounts").read_text():
        skip("no cgroup2 file system is mounted on this machine")


@functools.cache
def _user_has_namespaces() -> bool:
    """Return True if a user without any privilege may mount, in namespaces of their own."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    mount = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    return not subprocess.run([*user, *mount], cwd="/", capture_output=True).returncode


@functools.cache
def _cannot_be_had(package: str) -> str:
    """Why .ci/packages leaves a package out, "" where it would install it."""
    argv = [str(PACKAGES), "--simulate", "--optional", package]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stderr.strip()
