"""Where the driver's files and nodes are, found as nvidia-ctk finds them, and said in its words.

    nodes       device nodes by pattern, below the root of /dev
    files       plain files by pattern, in a list of folders
    libraries   the usual folders for libraries, links followed; then ld.so.cache
    programs    $PATH

The real tool's locators (pkg/lookup) are these. What is found is named by its path below the
driver root; a folder never counts as a file, so the directory of MPS pipes is no socket.
"""

import os
import stat

from minirun.core.errors import GPUError
from minirun.gpu.nvidia.cli import ldcache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.gpu.nvidia.runtime.log import ToolkitLog

_TRIPLETS = ("x86_64-linux-gnu", "aarch64-linux-gnu")
LIBRARY_FOLDERS = (
    "/", "/usr/lib64", *(f"/usr/lib/{name}" for name in _TRIPLETS),
    *(f"/usr/lib/{name}/nvidia/current" for name in _TRIPLETS), "/lib64",
    *(f"/lib/{name}" for name in _TRIPLETS), *(f"/lib/{name}/nvidia/current" for name in _TRIPLETS),
)  # fmt: skip
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DATA = "/usr/local/share:/usr/share"


class Finder:
    """Looks below a driver root; `log` (None: nobody) is told what is there and what is not.

    `dev_root` is where /dev is; `library_folders` and `config_folders` replace the usual ones.
    """

    def __init__(
        self,
        root: str = "",
        dev_root: "str | None" = None,
        log: "ToolkitLog | None" = None,
        library_folders: "tuple[str, ...]" = (),
        config_folders: "tuple[str, ...]" = (),
    ) -> None:
        self.root = root.rstrip("/")
        self.dev_root = self.root if dev_root is None else dev_root.rstrip("/")
        self.log = log
        self._library_folders = library_folders
        data = os.environ.get("XDG_DATA_DIRS") or _DATA
        self._config_folders = config_folders or ("/etc", *filter(None, data.split(":")))

    def nodes(self, *patterns: str) -> "list[str]":
        """Return the character devices of these patterns, each once. Raises OSError."""
        found: "list[str]" = []
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
        try:
            return stat.S_ISCHR(os.stat(self.dev_root + path).st_mode)
        except FileNotFoundError:
            return False  # a link to nothing

    def files(
        self, names: "tuple[str, ...]", folders: "tuple[str, ...]", *, first: bool = False
    ) -> "list[str]":
        """Return the files of these names or patterns, each name in the order of `folders`.

        `first`: only those of the first folder that has one.
        """
        found: "list[str]" = []
        for name in names:
            paths = self._in_folders(name, folders, first)
            if not paths:
                self.missing(name)
            for path in paths:
                if path not in found:
                    found.append(path)
                    self.selected(self.root + path, path)
        return found

    def _in_folders(self, name: str, folders: "tuple[str, ...]", first: bool) -> "list[str]":
        found: "list[str]" = []
        for folder in folders:
            path = f"{folder.rstrip('/')}/{name.lstrip('/')}"
            found += [path for path in glob(self.root, path) if os.path.exists(self.root + path)]
            found = [path for path in found if not os.path.isdir(self.root + path)]
            if found and first:
                break
        return found

    def configs(self, *names: str) -> "list[str]":
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

    def programs(self, *names: str) -> "list[str]":
        """Return programs, each from the first folder of $PATH that has it."""
        folders = tuple(os.environ.get("PATH", _PATH).split(":"))
        found = []
        for name in names:
            for path in (f"{folder}/{name}" for folder in folders if folder.startswith("/")):
                if os.path.isfile(self.root + path) and os.access(self.root + path, os.X_OK):
                    found.append(path)
                    self.selected(self.root + path, path)
                    break
            else:
                self.missing(name)
        return found

    def libraries(self, *patterns: str) -> "list[str]":
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

    def locate_library(self, pattern: str) -> "list[str]":
        """Return the files of one library in silence. Raises GPUError."""
        paths = self._in_folders(pattern, self._library_folders or LIBRARY_FOLDERS, False)
        if not paths and not self._library_folders:
            paths = [entry.path for entry in self._cached() if matches(_name(entry.path), pattern)]
        return list(dict.fromkeys(map(self.resolve, paths)))

    def _cached(self) -> "list[ldcache.Entry]":
        try:
            with open(f"{self.root}/etc/ld.so.cache", "rb") as file:
                entries = ldcache.parse(file.read())
        except FileNotFoundError:
            return []
        wide = ldcache.WIDE.get(os.uname().machine, ())
        return [entry for entry in entries if entry.arch in wide]

    def resolve(self, path: str) -> str:
        """Return `path` without links, as a path below the root, where it stays below it."""
        base = os.path.realpath(self.root) if self.root else ""
        real = os.path.realpath(self.root + path)
        return real[len(base) :] if real.startswith(f"{base}/") else path

    def driver_folder(self, driver: str) -> str:
        """Return the folder of this driver's libcuda. Raises GPUError where there is none."""
        found = self.locate_library(f"libcuda.so.{driver}")
        if found:
            return found[0].rpartition("/")[0]
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


def glob(root: str, pattern: str) -> "list[str]":
    """Return the paths below `root` of a pattern with `*` in its last name, sorted."""
    folder, _, name = pattern.rpartition("/")
    if "*" not in name:
        return [pattern] if os.path.lexists(root + pattern) else []
    try:
        names = sorted(os.listdir(f"{root}{folder}/"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{folder}/{found}" for found in names if matches(found, name)]


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


def _name(path: str) -> str:
    return path.rpartition("/")[2]
