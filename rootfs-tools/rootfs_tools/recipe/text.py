"""A recipe as it stands in its file: TOML, and nothing in it that is not known here.

Each record below is one table of the file, each field one key; what they leave out has the value
that stands here. A recipe is run with the rights of its user, as a Makefile is.
"""

import hashlib
import os
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from minirun.core.errors import ImageError, reason
from rootfs_tools import recipe as own


class ImagePart(NamedTuple):
    """[image]: how a container is started, as in image-spec config.md."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = ""
    user: str = ""
    labels: Mapping[str, str] = {}


class Packages(NamedTuple):
    """[packages]: a distribution's packages."""

    distribution: str = ""
    """The ID of its os-release(5). If it is that of this machine, apt's own sources are taken."""
    suite: str = ""
    sources: str = ""
    """In the form of stanzas, sources.list(5); of these the first is the archive."""
    ports: str = ""
    """The archive of all architectures but amd64 and i386; "" if it is the same."""
    partial: tuple[str, ...] = ()
    """Debian's names of architectures for which the archive has too few packages for a system."""
    keyring: str = ""
    """A file of keys that sign the archive; if it is missing, one of that name in the package."""
    keyring_package: str = ""
    keyring_sha256: str = ""
    substitute: str = ""
    """The recipe that stands in if the archive cannot be reached, or is partial."""
    include: tuple[str, ...] = ()
    """Packages besides the essential ones."""
    hooks: tuple[str, ...] = ()
    """Folders of mmdebstrap's --hook-dir."""
    only: Mapping[str, str] = {}
    """Folders below which only files of one name stay."""
    remove: tuple[str, ...] = ()
    """What is removed in the end: FOLDER/PATTERN."""


class RecipeProgram(NamedTuple):
    """[[programs]]: one program, of a package that is installed here, or compiled here."""

    path: str = ""
    """Where it is in the image; and on this machine, if it is of a package."""
    package: str = ""
    compile: str = ""
    """A C file beside the recipe."""
    options: tuple[str, ...] = ()
    """The compiler's."""
    names: str = ""
    """The option by which the program prints the other names that it is to have."""
    without: tuple[str, ...] = ()
    """Names that it is not to have."""
    absolute: bool = False
    """Whether these names are absolute links."""


class Directories(NamedTuple):
    """[[directories]]: empty ones, of one mode."""

    paths: tuple[str, ...] = ()
    mode: int = 0o755


class RecipeLink(NamedTuple):
    """[[links]]: a symbolic link."""

    path: str = ""
    target: str = ""


class File(NamedTuple):
    """[[files]]: a text."""

    path: str = ""
    text: str = ""
    mode: int = 0o644


class Recipe(NamedTuple):
    """All of a file."""

    about: str = ""
    source: str = ""
    """Where the source code is; the archive, if there are packages."""
    base: str = ""
    """The image that this one is a layer on: a recipe's, or another one that is here."""
    image: ImagePart = ImagePart()
    packages: Packages = Packages()
    programs: tuple[RecipeProgram, ...] = ()
    directories: tuple[Directories, ...] = ()
    links: tuple[RecipeLink, ...] = ()
    files: tuple[File, ...] = ()
    name: str = ""
    folder: str = ""
    digest: str = ""
    """These three are the file's: its name, where it is, the sha256 of it and of its sources."""


_TABLES: dict[str, Any] = {"image": ImagePart, "packages": Packages}
_LISTS: dict[str, Any] = {
    "programs": RecipeProgram, "directories": Directories, "links": RecipeLink, "files": File,
}  # fmt: skip
_OF_THE_FILE = ("name", "folder", "digest")


def load(name: str) -> Recipe:
    """Return a recipe of minirun's own, or that of a file, if `name` ends as one: ./app.toml.

    Raises ImageError.
    """
    path = name if name.endswith(own.SUFFIX) else f"{own.FOLDER}/{name}{own.SUFFIX}"
    if path is not name and name not in own.names():
        hint = f"there are {', '.join(own.names())}; or name a file that ends in {own.SUFFIX}"
        raise ImageError(f"no recipe for {name}", hint)
    try:
        with open(path, "rb") as file:
            data = file.read()
        table = tomllib.loads(data.decode())
    except (OSError, ValueError) as error:
        raise ImageError(f"recipe {path}: {reason(error)}") from None
    recipe: Recipe = _record(Recipe, table, f"recipe {path}")
    folder = os.path.dirname(os.path.realpath(path))
    sources = [f"{folder}/{each.compile}" for each in recipe.programs if each.compile]
    return recipe._replace(
        name=os.path.basename(path).removesuffix(own.SUFFIX),
        folder=folder,
        digest=_digest(data, sources),
    )


def _digest(data: bytes, sources: list[str]) -> str:
    """Return the digest of a recipe and of what it compiles. Raises ImageError."""
    found = hashlib.sha256(data)
    for path in sources:
        try:
            with open(path, "rb") as file:
                found.update(file.read())
        except OSError as error:
            raise ImageError(f"{path}: {reason(error)}", "the recipe compiles it") from None
    return f"sha256:{found.hexdigest()}"


def _record(kind: Any, table: object, where: str) -> Any:
    """Return a table as a record. Raises ImageError: a key is unknown, or of the wrong type."""
    if not isinstance(table, dict):
        raise ImageError(f"{where}: not a table")
    known = [key for key in kind._fields if kind is not Recipe or key not in _OF_THE_FILE]
    for key in table:
        if key not in known:
            raise ImageError(f"{where}: {key!r} is unknown", f"known are {', '.join(known)}")
    return kind(**{key: _value(kind, key, value, where) for key, value in table.items()})


def _value(kind: Any, key: str, value: object, where: str) -> Any:
    where, default = f"{where}: {key}", kind._field_defaults[key]
    if kind is Recipe and key in _TABLES:
        return _record(_TABLES[key], value, where)
    if isinstance(default, tuple):
        if not isinstance(value, list):
            raise ImageError(f"{where}: not a list")
        if kind is Recipe:
            return tuple(_record(_LISTS[key], each, where) for each in value)
        return tuple(_text(each, where) for each in value)
    if isinstance(default, dict):
        if not isinstance(value, dict):
            raise ImageError(f"{where}: not a table")
        return {name: _text(each, where) for name, each in value.items()}
    if isinstance(default, str):
        return _text(value, where)
    if type(value) is not type(default):
        raise ImageError(f"{where}: {value!r} is not of the type {type(default).__name__}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ImageError(f"{where}: {value!r} is no text")
    return value
