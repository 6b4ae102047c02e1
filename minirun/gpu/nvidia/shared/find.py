"""Where the driver's files and nodes are: one finder for both of NVIDIA's tools.

                nvidia-container-cli (libnvidia-container)   nvidia-ctk (pkg/lookup)
    libraries   `cached`: ld.so.cache alone, in which a      `libraries`: the usual folders, then
                file of the exact version is chosen          ld.so.cache, by a pattern
    programs    $PATH (minirun: and /usr/local/nvidia/bin)   $PATH
    files       firmware in one folder                       plain files by pattern, in many folders
    nodes       four paths, minirun.gpu.nvidia.shared.real      by pattern, below the root of /dev

What is found is named by its path below the driver root, and no link leads out of that
(minirun.gpu.driverroot). With a `log` it is said in nvidia-ctk's words.
"""

from __future__ import annotations

import os
import stat

from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import GPUError
from minirun.core.kernel.architecture import NATIVE, Architecture, of_machine
from minirun.gpu import driverroot
from minirun.gpu.nvidia.shared import ldcache
from minirun.gpu.nvidia.shared.catalog import LD_SO_CACHE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.nvidia.shared.log import ToolkitLog

_TRIPLETS = (
    *(of_machine(name).triplet for name in ("x86_64", "aarch64")),
    *([NATIVE.triplet] if NATIVE.bits == 32 else []),
)
"""nvidia-ctk looks for the first two in each place; it is not made for 32 bits."""
LIBRARY_FOLDERS = (
    "/", "/usr/lib64", *(f"/usr/lib/{name}" for name in _TRIPLETS),
    *(f"/usr/lib/{name}/nvidia/current" for name in _TRIPLETS), "/lib64",
    *(f"/lib/{name}" for name in _TRIPLETS), *(f"/lib/{name}/nvidia/current" for name in _TRIPLETS),
)  # fmt: skip
_DATA = "/usr/local/share:/usr/share"


class Finder:
    """Looks below a driver root; writes into `log`, if there is one, what is there and what is not.

    `dev_root` is where /dev is; `library_folders` and `config_folders` replace the usual ones;
    `cache` is the loader's, below the root.
    """

    def __init__(
        self,
        root: str = "",
        dev_root: str | None = None,
        log: ToolkitLog | None = None,
        library_folders: tuple[str, ...] = (),
        config_folders: tuple[str, ...] = (),
        cache: str = "",
    ) -> None:
        self.root = root.rstrip("/")
        self.dev_root = self.root if dev_root is None else dev_root.rstrip("/")
        self.log = log
        self._cache = cache or LD_SO_CACHE
        self._chains: list[list[str]] | None = None
        below = f"{self.root}/"  # they are the host's paths; what is looked for is below the root
        self._library_folders = tuple(
            f"/{path.removeprefix(below)}" if path.startswith(below) else path
            for path in library_folders
        )
        data = os.environ.get("XDG_DATA_DIRS") or _DATA
        self._config_folders = config_folders or ("/etc", *filter(None, data.split(":")))

    def enter(self, root: str) -> None:
        """Look below another driver root, also for nodes if they were looked for in the old one."""
        self.dev_root = root if self.dev_root == self.root else self.dev_root
        self.root = root

    def nodes(self, *patterns: str) -> list[str]:
        """Return the character devices of these patterns, each once."""
        found: list[str] = []
        for pattern in patterns:
            paths = [path for path in glob(self.dev_root, pattern) if self._is_node(path)]
            if not paths:
                self.missing(pattern)
            for path in paths:
                if path not in found:
                    found.append(path)
                    self.selected(f"{self.dev_root}{path}", path)
        return found

    def _is_node(self, path: str) -> bool:
        found = driverroot.status(self.dev_root, path)
        return found is not None and stat.S_ISCHR(found.st_mode)

    def files(
        self, names: tuple[str, ...], folders: tuple[str, ...], *, first: bool = False
    ) -> list[str]:
        """Return the files of these names or patterns, each name in the order of `folders`.

        A folder is no file. `first`: only those of the first folder that has one.
        """
        found: list[str] = []
        for name in names:
            paths = self._in_folders(name, folders, first)
            if not paths:
                self.missing(name)
            for path in paths:
                if path not in found:
                    found.append(path)
                    self.selected(self.root + path, path)
        return found

    def _in_folders(self, name: str, folders: tuple[str, ...], first: bool) -> list[str]:
        found: list[str] = []
        for folder in folders:
            path = f"{folder.rstrip('/')}/{name.lstrip('/')}"
            for one in glob(self.root, path):
                status = driverroot.status(self.root, one)
                found += [one] if status and not stat.S_ISDIR(status.st_mode) else []
            if found and first:
                break
        return found

    def configs(self, *names: str) -> list[str]:
        """Return configuration files, below /etc and the folders of $XDG_DATA_DIRS."""
        return self.files(names, self._config_folders)

    def config(self, name: str, target: str) -> str:
        """Return the configuration file that becomes `target` in a container; "" for none."""
        found = self._in_folders(name, (*self._config_folders, "/"), True)
        if not found:
            self.missing(name, 2)  # the real one looks twice, and says so
            return ""
        self.selected(self.root + found[0], target)
        return found[0]

    def programs(self, *names: str, beside: tuple[str, ...] = ()) -> list[str]:
        """Return programs, each from the first folder of $PATH, then of `beside`, that has it."""
        folders = (*os.environ.get("PATH", DEFAULT_PATH).split(":"), *beside)
        found = []
        for name in names:
            for path in (f"{folder}/{name}" for folder in folders if folder.startswith("/")):
                status = driverroot.status(self.root, path)
                if status and stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
                    found.append(path)
                    self.selected(self.root + path, path)
                    break
            else:
                self.missing(name)
        return found

    def libraries(self, *patterns: str) -> list[str]:
        """Return libraries, links followed. Raises GPUError for a damaged ld.so.cache."""
        found = []
        for pattern in patterns:
            paths = self.locate_library(pattern)
            if not paths:
                self.missing(pattern, 1 if self._library_folders else 2)
            for path in paths:
                found.append(path)
                self.selected(self.root + path, path)
        return found

    def locate_library(self, pattern: str) -> list[str]:
        """Return the files of one library in silence. Raises GPUError."""
        paths = self._in_folders(pattern, self._library_folders or LIBRARY_FOLDERS, False)
        if not paths and not self._library_folders:
            paths = self._in_cache(pattern)
        return [*dict.fromkeys(real(self.root, path) for path in paths)]

    def _in_cache(self, pattern: str) -> list[str]:
        """Return what ld.so.cache lists and `pattern` names: an entry, a link on its way, its end.

        An entry is called by its SONAME, the file that it leads to by the driver's version; with
        Debian's links the folders differ too. Raises GPUError.
        """
        if self._chains is None:
            self._chains = [chain(self.root, entry.path) for entry in self.cached()]
        ways = (way for way in self._chains if any(matches(name_of(one), pattern) for one in way))
        return [way[-1] for way in ways]

    def cached(self, made_for: Architecture | None = NATIVE) -> list[ldcache.LdCacheEntry]:
        """Return the libraries in ld.so.cache that are made for an architecture.

        There are none if there is no cache. Raises GPUError for a damaged one.
        """
        return ldcache.load(self.root, self._cache, made_for)

    def has_cache(self) -> bool:
        """Return True if there is an ld.so.cache, even one that lists nothing."""
        return driverroot.exists(self.root, self._cache)

    def driver_folders(self, driver: str) -> list[str]:
        """Return the folders of this driver's libraries. Raises GPUError where there is no libcuda.

        Debian keeps what draws apart from what computes. The usual folders come first, then what
        ld.so.cache lists: nvidia-ctk 1.20 takes the latter only where the former have nothing.
        """
        pattern = f"lib*.so.{driver}"
        found = self.locate_library(pattern)
        if not self._library_folders:
            found += [real(self.root, path) for path in self._in_cache(pattern)]
        if self.locate_library(f"libcuda.so.{driver}"):
            return [*dict.fromkeys(path.rpartition("/")[0] for path in found)]
        others = self.locate_library("libcuda.so.*.*")
        what = f"failed to locate libcuda.so: libcuda.so.{driver}: not found"
        hint = f"the kernel module is {driver}, its libraries are not there"
        if others:
            hint = f"there is {others[0]}: driver and libraries are of different releases"
        raise GPUError(what, hint, status=1)

    def selected(self, source: str, target: str) -> None:
        """Say that a file becomes `target` in a container."""
        if self.log:
            self.log.info(f"Selecting {source} as {target}")

    def missing(self, name: str, times: int = 1) -> None:
        """Say that nothing of this name is there, in `times` places."""
        if self.log:
            self.log.warning(
                f"Could not locate {name}: " + "\n".join([f"{name}: not found"] * times)
            )


def glob(root: str, pattern: str) -> list[str]:
    """Return the paths below `root` of a pattern with `*` in its last name, sorted."""
    folder, _, name = pattern.rpartition("/")
    if "*" not in name:
        return [pattern] if driverroot.status(root, pattern, os.O_NOFOLLOW) else []
    names = driverroot.names(root, folder or "/")
    return [f"{folder}/{found}" for found in names if matches(found, name)]


def name_of(path: str) -> str:
    """Return the last name of a path."""
    return path.rpartition("/")[2]


def chain(root: str, path: str) -> list[str]:
    """Return `path` and the paths below the root at which its links arrive, one after another."""
    found: list[str] = []
    while path not in found:
        found.append(path)
        if target := driverroot.link(root, path):
            path = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return found


def real(root: str, path: str) -> str:
    """Return the path below the root at which `path` ends when all links are followed.

    `path` itself where nothing is there.
    """
    if not root:
        return os.path.realpath(path)
    try:
        fd = driverroot.open_file(root, path)
    except OSError:
        return path
    try:
        return os.readlink(f"/proc/self/fd/{fd}").removeprefix(os.path.realpath(root))
    finally:
        os.close(fd)


def matches(name: str, pattern: str) -> bool:
    """Tell whether a file name fits a pattern, in which `*` stands for anything."""
    head, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    if not name.startswith(head):
        return False
    rest = name[len(head) :]
    for part in parts[:-1]:
        _, found, rest = rest.partition(part) if part else ("", "*", rest)
        if not found:
            return False
    return rest.endswith(parts[-1])
