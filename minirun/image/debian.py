"""The recipe `debian`: the smallest Debian with apt and procps, as this machine's apt would get it.

mmdebstrap (or debootstrap, if that is missing) installs the packages into a directory. It runs
in mount and pid namespaces of its own: mounts that it leaves and processes that it starts are gone
when it ends, however it ends, and so is the bind mount that lets apt's unprivileged downloader
reach a directory of the store, which only root may enter. Documentation, caches, device nodes and
whatever names this machine are removed afterwards, so that two builds from the same packages have
the same digest. The official image is made by debuerreotype, of the same packages.
"""

import fnmatch
import os
import shutil
import subprocess
from contextlib import closing

from minirun.common.operations import WriteFile
from minirun.core.errors import ImageError
from minirun.core.rootfs.inroot import Root
from minirun.image import aptsources
from minirun.image.catalogue import Draft
from minirun.image.tree import clamp_times

MOUNT_POINT = "/mnt"
PRIVATELY = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
    "--mount-proc", "sh", "-ec", f'mount --bind "$1" {MOUNT_POINT}; shift; exec "$@"', "sh",
)  # fmt: skip
"""Runs what follows in namespaces that die with this process, with a directory on /mnt."""

INCLUDED = "--include=procps,usr-is-merged"
MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
"""Without the two, /bin is merged into /usr/bin by a program that needs all of perl."""

TRIMMED = {
    "dev": "*", "run": "*", "tmp": "*", "var/tmp": "*", "var/log": "*",
    "usr/share/man": "*", "usr/share/info": "*", "usr/share/locale": "*",
    "usr/share/lintian": "*", "usr/share/bash-completion": "*",
    "var/lib/apt/lists": "*", "var/cache/apt": "*", "var/cache/ldconfig": "*",
    "var/cache/debconf": "*-old", "var/lib/dpkg": "*-old", "var/lib/systemd": "*",
    "etc": "*-", "etc/apt/apt.conf.d": "99mmdebstrap", "etc/dpkg/dpkg.cfg.d": "99mmdebstrap",
}  # fmt: skip
"""Directories of the image, and the names in them that are removed."""

WRITTEN = (
    WriteFile("etc/hostname", b"debian\n"),
    WriteFile("etc/hosts", b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"),
    WriteFile("etc/resolv.conf", b""),
)


def fill(draft: Draft) -> dict[str, object]:
    """Make the root filesystem in a layer of `draft` and return the entries of image.json.

    Raises ImageError with the tool's own last word if it fails.
    """
    sources = aptsources.read(os_release("/").get("VERSION_CODENAME", ""))
    tree = draft.layer()
    tool = _tool()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or os.stat("/usr/lib/os-release").st_mtime)
    _run(_command(tool, sources, draft.path), draft.path, tree, epoch)
    trim(tree)
    clamp_times(tree, epoch * 10**9)
    release = os_release(tree)
    if release.get("ID") != "debian":
        raise ImageError("these packages are not Debian's", "build on Debian, or import an image")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.split()
    return {
        "origin": f"{release['PRETTY_NAME']}, built on this machine by {tool}",
        "recipe": {
            "name": "debian", "tool": f"{tool} {version[-1]}", "suite": sources.suite,
            "source_date_epoch": epoch, "packages": packages(tree),
        },
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "cmd": ["bash"],
    }  # fmt: skip


def os_release(tree: str) -> dict[str, str]:
    """Return the fields of etc/os-release in the tree at `tree`: os-release(5)."""
    with closing(Root.at(tree)) as root:
        text = root.read("etc/os-release", 65536).decode()
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def packages(tree: str) -> dict[str, str]:
    """Return name and version of the packages installed in a tree, as dpkg recorded them."""
    admin = f"--admindir={tree}/var/lib/dpkg"
    command = ["dpkg-query", admin, "--show", "--showformat", "${Package} ${Version}\n"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in result.stdout.splitlines())


def trim(tree: str) -> None:
    """Remove what no container needs and what names this machine; never through a link."""
    with closing(Root.at(tree)) as root:
        for directory, pattern in TRIMMED.items():
            _remove(root, directory, pattern)
        _remove_documents(root)
        for operation in WRITTEN:
            operation.execute(root)


def _remove_documents(root: Root) -> None:
    """Remove all of usr/share/doc but the licences."""
    try:
        fd = root.open("usr/share/doc", os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for _, _, names, directory in os.fwalk(".", dir_fd=fd):
            for name in names:
                if name != "copyright":
                    os.unlink(name, dir_fd=directory)
    finally:
        os.close(fd)


def _remove(root: Root, directory: str, pattern: str) -> None:
    try:
        fd = root.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        with os.scandir(fd) as entries:
            for entry in [e for e in entries if fnmatch.fnmatchcase(e.name, pattern)]:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.name, dir_fd=fd)
                else:
                    os.unlink(entry.name, dir_fd=fd)
    finally:
        os.close(fd)


def _tool() -> str:
    for name in ("mmdebstrap", "debootstrap"):
        if shutil.which(name):
            return name
    raise ImageError("neither mmdebstrap nor debootstrap is here", "apt-get install mmdebstrap")


def _command(tool: str, sources: aptsources.AptSources, scratch: str) -> list[str]:
    target = f"{MOUNT_POINT}/layers/0"
    if tool == "debootstrap":
        return [tool, "--variant=minbase", INCLUDED, sources.suite, target, sources.mirror]
    files = []
    for name, text in (("debian.list", sources.lines), ("debian.sources", sources.stanzas)):
        if text:
            with open(os.path.join(scratch, name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            files.append(f"{MOUNT_POINT}/{name}")
    settings = ["--mode=root", "--format=directory", "--variant=minbase", MERGED, INCLUDED]
    settings += [f"--aptopt={option}" for option in aptsources.options()]
    return [tool, *settings, sources.suite, target, *files]


def _run(command: list[str], scratch: str, tree: str, epoch: int) -> None:
    """Run the tool; what it says is only of interest if it fails."""
    os.chmod(scratch, 0o711)
    env = {k: v for k, v in os.environ.items() if k == "PATH" or k.lower().endswith("_proxy")}
    env |= {"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp"}
    result = subprocess.run(
        [*PRIVATELY, scratch, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", env=env, cwd="/",
    )  # fmt: skip
    os.chmod(scratch, 0o700)
    if result.returncode:
        lines = [line for line in result.stdout.splitlines() if line.startswith(("E:", "W:"))]
        last = (lines or result.stdout.splitlines() or ["no word why"])[0]
        hint = "see whether apt-get update works; minirun images import needs no network"
        raise ImageError(f"{command[0]} failed: {last}", hint)
