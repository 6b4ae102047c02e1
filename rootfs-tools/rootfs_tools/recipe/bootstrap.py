"""[packages]: a root filesystem of a distribution's packages, as this machine's apt would get it.

mmdebstrap installs the packages into a directory; apt in it believes only what the archive's keys
have signed. It runs in mount and pid namespaces of its own: mounts that it leaves and processes
that it starts are gone when it ends, however it ends, and so is the bind mount that lets apt's
unprivileged downloader reach a directory of the store, which only root may enter. Afterwards
caches, device nodes and what names this machine are removed, and what is newer than the archive's
own release (the date of its InRelease) gets that date: the same packages give the same image.
"""

import fnmatch
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from rootfs_tools import made
from rootfs_tools.recipe import aptsources
from rootfs_tools.recipe.text import Packages
from rootfs_tools.tree import clamp_times
from rootfs_tools.unpack_layer import apply_flat

TOOL = "mmdebstrap"
MOUNT_POINT = "/mnt"
TREE = "tree"
PRIVATELY = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
    "--mount-proc", "sh", "-ec", f'mount --bind "$1" {MOUNT_POINT}; shift; exec "$@"', "sh",
)  # fmt: skip
"""Runs what follows in namespaces that die with this process, with a directory on /mnt."""
_HELPER = ("/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=0")
_HASTY, _PATIENT = 4, 120
"""Seconds that an archive has to answer: with another way to go, and without."""


class UnreachableArchive(ImageError):
    """An archive of packages does not answer."""


class Bootstrapped(NamedTuple):
    """A root filesystem of packages, and what it was made of."""

    tree: str
    release: dict[str, str]
    """Its os-release(5)."""
    tool: str
    mirror: str
    epoch: int
    """Seconds since 1970: nothing in it is newer."""
    packages: list[str]
    """One line each: name, version, architecture, and digest of the file that was unpacked."""


Notify = Callable[[str], None]
"""Takes one line for the user."""


def ignore(_: str) -> None:
    """Show nothing: a Notify."""


class BootstrapPlan(NamedTuple):
    """All that is to be known before packages are fetched."""

    sources: aptsources.AptSources
    keyring: str
    """The keys to believe; "" for apt's own settings."""
    epoch: int
    folder: str


def prepare(wanted: Packages, folder: str) -> BootstrapPlan:
    """Ask the archive; `folder` is where to work. Raises UnreachableArchive, ImageError."""
    if not shutil.which(TOOL):
        raise ImageError(f"{TOOL} is not here", f"apt-get install {TOOL}")
    sources, keyring = _sources(wanted, folder)
    epoch = made.epoch(lambda: _released(sources, wanted, folder))
    return BootstrapPlan(sources, keyring, epoch, folder)


def fill(wanted: Packages, ready: BootstrapPlan, contents: bytes, watch: Notify) -> Bootstrapped:
    """Make a root filesystem, and unpack the archive `contents` on top.

    `watch` gets a line for each step of the tool, and an empty one when it has ended.

    Raises ImageError with the tool's own last word if it fails.
    """
    sources, epoch, folder = ready.sources, ready.epoch, ready.folder
    tree = f"{folder}/{TREE}"
    _run(_command(wanted, ready), folder, epoch, watch)
    made_of = list(packages(tree))
    trim(tree, wanted)
    apply_flat(io.BytesIO(contents), tree)
    clamp_times(tree, epoch * 10**9)
    release = os_release(tree)
    if release.get("ID") != wanted.distribution:
        raise ImageError(f"these packages are not those of {wanted.distribution}")
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True).stdout.split()
    return Bootstrapped(tree, release, f"{TOOL} {version[-1]}", sources.mirror, epoch, made_of)


def os_release(tree: str) -> dict[str, str]:
    """Return the fields of etc/os-release in the tree at `tree`: os-release(5)."""
    with closing(Root.at(tree)) as root:
        text = root.read("etc/os-release", 65536).decode()
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def packages(tree: str) -> Iterator[str]:
    """Yield a line for each package in a tree: name, version, architecture, and its file's digest.

    The digests are those of apt's lists, which the archive's keys have signed.
    """
    digests: dict[str, str] = {}
    lists = f"{tree}/var/lib/apt/lists"
    for name in os.listdir(lists):
        if name.endswith("_Packages"):
            with open(f"{lists}/{name}", encoding="utf-8") as file:
                digests.update(_stanzas(file))
    command = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "--show", "--showformat"]
    form = "${Package} ${Version} ${Architecture}\n"
    result = subprocess.run([*command, form], capture_output=True, text=True, check=True)
    for line in result.stdout.splitlines():
        yield f"{line} sha256:{digests[line]}" if line in digests else line


def _stanzas(lines: io.TextIOWrapper) -> Iterator[tuple[str, str]]:
    """Yield "NAME VERSION ARCHITECTURE" and SHA256 of each stanza of an archive's list."""
    fields: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(": ")
        if colon and key in ("Package", "Version", "Architecture", "SHA256"):
            fields[key] = value.strip()
        elif line == "\n" and len(fields) == 4:
            yield (
                f"{fields['Package']} {fields['Version']} {fields['Architecture']}",
                fields["SHA256"],
            )
            fields = {}


def trim(tree: str, wanted: Packages) -> None:
    """Remove what a recipe says of a tree of packages; never through a link."""
    with closing(Root.at(tree)) as root:
        for each in wanted.remove:
            folder, _, pattern = each.rpartition("/")
            _remove(root, folder, pattern)
        for folder, name in wanted.only.items():
            _remove_but(root, folder, name)


def _remove_but(root: Root, directory: str, kept: str) -> None:
    """Remove all files below a directory but those of one name."""
    try:
        fd = root.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for _, _, names, folder in os.fwalk(".", dir_fd=fd):
            for name in names:
                if name != kept:
                    os.unlink(name, dir_fd=folder)
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


def _sources(wanted: Packages, folder: str) -> tuple[aptsources.AptSources, str]:
    """Return where the packages come from, and the keys to believe; "" for apt's own settings."""
    here = os_release("/")
    if here.get("ID") == wanted.distribution:
        return aptsources.read(here.get("VERSION_CODENAME", "")), ""
    if NATIVE.debian in wanted.partial:
        raise UnreachableArchive(f"{wanted.distribution} has no whole system for {NATIVE.debian}")
    sources = aptsources.written(wanted.suite, wanted.sources, wanted.ports)
    if not wanted.keyring or os.path.exists(wanted.keyring):
        return sources, wanted.keyring
    if not wanted.keyring_package:
        name = os.path.basename(wanted.keyring).removesuffix(".gpg")
        raise ImageError(f"{wanted.keyring} is missing", f"apt-get install {name}")
    package = f"{folder}/keyring.deb"
    address = f"{sources.mirror}/{wanted.keyring_package}"
    _fetch(address, package, wanted.substitute, f"SHA256:{wanted.keyring_sha256}")
    subprocess.run(["dpkg-deb", "--extract", package, f"{folder}/keyring"], check=True)
    return sources, f"{folder}/keyring{wanted.keyring}"


def _released(sources: aptsources.AptSources, wanted: Packages, folder: str) -> float:
    """Return when the archive's suite was released: the date of its InRelease, in seconds."""
    address = f"{sources.mirror.rstrip('/')}/dists/{sources.suite}/InRelease"
    _fetch(address, f"{folder}/InRelease", wanted.substitute)
    with open(f"{folder}/InRelease", encoding="utf-8", errors="replace") as file:
        dates = [line.partition(": ")[2] for line in file if line.startswith("Date: ")]
    try:
        return parsedate_to_datetime(dates[0]).timestamp()
    except (IndexError, ValueError):
        raise ImageError(f"{address} has no date") from None


def _fetch(address: str, path: str, hasty: object, checksum: str = "") -> None:
    """Fetch a file as apt does, by its proxies. Raises UnreachableArchive; ImageError."""
    command = [*_HELPER, "download-file", address, path]
    command += [checksum] if checksum else []
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_HASTY if hasty else _PATIENT, env=os.environ | {"LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UnreachableArchive(f"{address}: no answer") from None
    except FileNotFoundError:
        raise ImageError(f"{_HELPER[0]} is missing", "apt-get install apt") from None
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.startswith("E: ")]
        reason = " ".join((lines or ["E: apt-helper says no more"])[0][3:].split())
        if "Hash Sum mismatch" in reason:
            raise ImageError(reason, f"the recipe says {checksum}")
        raise UnreachableArchive(reason, "see whether apt-get update works")


def _command(wanted: Packages, ready: BootstrapPlan) -> list[str]:
    sources, folder = ready.sources, ready.folder
    files = []
    for suffix, text in (("list", sources.lines), ("sources", sources.stanzas)):
        if text:
            name = f"{wanted.distribution}.{suffix}"
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text + "\n")
            files.append(f"{MOUNT_POINT}/{name}")
    settings = ["--mode=root", "--format=directory", "--variant=minbase"]
    settings += ["--skip=cleanup/apt/lists", f"--include={','.join(wanted.include)}"]
    settings += [f"--hook-dir={hook}" for hook in wanted.hooks]
    settings += [f"--aptopt={option}" for option in aptsources.options()]
    if ready.keyring:
        settings.append(f"--keyring={ready.keyring.replace(folder, MOUNT_POINT, 1)}")
    return [TOOL, *settings, sources.suite, f"{MOUNT_POINT}/{TREE}", *files]


def _run(command: list[str], folder: str, epoch: int, watch: Notify) -> None:
    """Run the tool; `watch` gets its steps ("I: …"). The rest is only of interest if it fails."""
    os.chmod(folder, 0o711)
    env = {k: v for k, v in os.environ.items() if k == "PATH" or k.lower().endswith("_proxy")}
    env |= {"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TMPDIR": MOUNT_POINT}
    said = []
    try:
        with subprocess.Popen(
            [*PRIVATELY, folder, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", env=env, cwd="/",
        ) as process:  # fmt: skip
            assert process.stdout
            try:
                for line in process.stdout:
                    said.append(line.rstrip("\n"))
                    if line.startswith("I: "):
                        watch(line[3:].strip())
            except BaseException:
                process.kill()  # and its namespaces with it, before their files are removed:
                process.stdout.read()  # the end comes when none of them has the pipe any more
                process.wait()
                raise
    finally:
        watch("")
    os.chmod(folder, 0o700)
    if process.returncode:
        errors, warnings = ([line for line in said if line.startswith(key)] for key in ("E:", "W:"))
        last = (errors or warnings or said or ["no word why"])[0]
        hint = "see whether apt-get update works; minirun images import needs no network"
        raise ImageError(f"{command[0]} failed: {last}", hint)
