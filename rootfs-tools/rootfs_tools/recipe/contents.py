"""What a recipe puts into an image besides packages: programs, directories, links and texts.

They become the members of one tar archive, sorted, owned by root, all of one date: that of the
programs. A program of a package is the file as it is installed here, so it needs no network.
"""

import hashlib
import io
import os
import shutil
import subprocess
import tempfile
from typing import BinaryIO, NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.recipe.text import Recipe, RecipeProgram
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter


class Gathered(NamedTuple):
    """A program that is here now."""

    program: RecipeProgram
    data: bytes
    names: tuple[str, ...]
    origin: str
    """busybox-static 1:1.35.0-4."""
    version: str
    date: int
    """Seconds since 1970; 0 if it was compiled."""

    def provenance(self) -> str:
        """Return a line for the annotations: what it is of, and its digest."""
        return f"{self.origin} sha256:{hashlib.sha256(self.data).hexdigest()}"


def gather(recipe: Recipe) -> list[Gathered]:
    """Return a recipe's programs. Raises ImageError: one is not installed, or no compiler is."""
    return [
        _compiled(each, recipe.folder) if each.compile else _installed(each)
        for each in recipe.programs
    ]


def write(recipe: Recipe, programs: list[Gathered], date: int, stream: BinaryIO) -> None:
    """Write the archive; `date` in seconds. Raises ImageError."""
    writer = TarWriter(stream)
    for member, data in sorted(_members(recipe, programs, date), key=lambda row: row[0].name):
        writer.add(member, io.BytesIO(data))
    writer.finish()


def _members(recipe: Recipe, programs: list[Gathered], date: int) -> list[tuple[Member, bytes]]:
    def member(path: str, kind: str, mode: int, data: bytes = b"", to: str = "") -> None:
        found.append(
            (Member(path, kind, mode, 0, 0, len(data), date * 10**9, to, (0, 0), {}), data)
        )

    found: list[tuple[Member, bytes]] = []
    if not recipe.base and not recipe.packages.distribution:
        member(".", "dir", 0o755)
    for row in recipe.directories:
        for path in row.paths:
            member(path, "dir", row.mode)
    for each in programs:
        member(each.program.path, "file", 0o755, each.data)
        for name in each.names:
            member(name, "link", 0o777, to=_target(each.program, name))
    for link in recipe.links:
        member(link.path, "link", 0o777, to=link.target)
    for file in recipe.files:
        member(file.path, "file", file.mode, file.text.encode())
    return found


def _target(program: RecipeProgram, name: str) -> str:
    if program.absolute:
        return f"/{program.path}"
    return os.path.relpath(program.path, os.path.dirname(name))


def _installed(program: RecipeProgram) -> Gathered:
    path, package = f"/{program.path}", program.package
    command = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    try:
        version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise ImageError(f"{package} is not installed", f"apt-get install {package}") from None
    try:
        with open(path, "rb") as file:
            data, date = file.read(), int(os.fstat(file.fileno()).st_mtime)
    except FileNotFoundError:
        hint = f"apt-get install --reinstall {package}"
        raise ImageError(f"{path} is missing", hint) from None
    names: set[str] = set()
    if program.names:
        command = [path, program.names]
        result = subprocess.run(command, capture_output=True, text=True, check=True, env={})
        names = set(result.stdout.split()) - {program.path, *program.without}
    origin = f"{package} {version}"
    return Gathered(program, data, tuple(sorted(names)), origin, version, date)


def _compiled(program: RecipeProgram, folder: str) -> Gathered:
    """Compile a C file, without debugging information, so that no path of this machine is in it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        hint = "apt-get install gcc libc6-dev"
        raise ImageError(f"no C compiler is here to compile {program.compile}", hint)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    with tempfile.TemporaryDirectory(prefix="minirun-") as place:
        shutil.copy(f"{folder}/{program.compile}", place)
        command = [compiler, "-o", "program", program.compile, *program.options]
        result = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, errors="replace"
        )
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "error" in line]
            last = (lines or result.stderr.splitlines() or ["no word why"])[0]
            raise ImageError(f"{compiler} failed: {last}", "apt-get install gcc libc6-dev")
        with open(f"{place}/program", "rb") as file:
            data = file.read()
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    origin = f"{program.compile} {said.splitlines()[0]}"
    return Gathered(program, data, (), origin, "", 0)
