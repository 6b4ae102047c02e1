"""Which hosts a name leads to: containers' registries.conf, version 2.

    $CONTAINERS_REGISTRIES_CONF, else ~/.config/containers/registries.conf,
    else /etc/containers/registries.conf
    …/registries.conf.d/*.conf     of /etc and of the user; with the user's own file, his alone

A later file replaces what an earlier one says of the same prefix. Version 1 of the format, of
podman before 2019, is refused. Source: containers-registries.conf(5).
"""

import glob
import os
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from minirun.core.errors import ImageError
from minirun.image import Reference

ETC = "/etc/containers"
_DOCKER = "docker.io"
_MODES = ("enforcing", "permissive", "disabled")
_FROM = ("all", "digest-only", "tag-only")


class Endpoint(NamedTuple):
    """A registry's host, and where an image lies there."""

    host: str
    """HOST or HOST:PORT, as people write it."""
    path: str
    insecure: bool = False
    """The user's settings allow TLS without a known authority, and plain HTTP."""

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"


class Mirror(NamedTuple):
    """Where the same images lie."""

    location: str
    insecure: bool
    pull: str
    """all, digest-only or tag-only."""


class RegistryRule(NamedTuple):
    """One [[registry]] of the file."""

    prefix: str
    """HOST/PATH without a tag, or *.DOMAIN."""
    location: str
    insecure: bool
    blocked: bool
    mirrors: tuple[Mirror, ...]


class Registries(NamedTuple):
    """All that the files say."""

    rules: Mapping[str, RegistryRule]
    search: tuple[str, ...] = ()
    """Where a name without a registry is looked for; docker.io if it is empty."""
    aliases: Mapping[str, str] = {}
    mode: str = "permissive"

    def endpoints(self, written: str, wanted: Reference) -> list[Endpoint]:
        """Return where to look for an image, in order. `written` is what the user typed.

        Raises ImageError: blocked, or a short name that may not be guessed.
        """
        found: list[Endpoint] = []
        for place in self._places(written, wanted):
            found += self._of(place, wanted)
        return list(dict.fromkeys(found))

    def is_insecure(self, host: str) -> bool:
        """Return True if the settings call a whole host insecure."""
        rule = self._rule(host)
        return bool(rule and rule.insecure)

    def _places(self, written: str, wanted: Reference) -> list[str]:
        full = f"{wanted.domain}/{wanted.path}"
        short = written.partition("@")[0].rpartition(":")[0] or written.partition("@")[0]
        if wanted.domain != _DOCKER or short.startswith(("docker.io/", "index.docker.io/")):
            return [full]
        if short in self.aliases:
            return [self.aliases[short]]
        if len(self.search) > 1 and self.mode == "enforcing":
            text = f'short-name "{short}" may mean an image of {", ".join(self.search)}'
            raise ImageError(text, f"write {self.search[0]}/{short}")
        return [full if host == _DOCKER else f"{host}/{short}" for host in self.search] or [full]

    def _of(self, place: str, wanted: Reference) -> list[Endpoint]:
        rule = self._rule(place)
        if not rule:
            return [_endpoint(place, False)]
        if rule.blocked:
            text = f"registry {place.partition('/')[0]} is blocked in registries.conf"
            raise ImageError(text, "its [[registry]] says blocked = true")
        matched = place.partition("/")[0] if rule.prefix.startswith("*.") else rule.prefix
        rest = place[len(matched) :]
        kinds = ("all", "digest-only" if wanted.digest else "tag-only")
        places = [(m.location, m.insecure) for m in rule.mirrors if m.pull in kinds]
        places.append((rule.location, rule.insecure))
        return [_endpoint(at + rest if at else place, insecure) for at, insecure in places]

    def _rule(self, place: str) -> RegistryRule | None:
        """Return the rule with the longest prefix that is all of `place` or ends at a `/`."""
        fitting = [rule for rule in self.rules.values() if _fits(rule.prefix, place)]
        return max(fitting, key=lambda rule: len(rule.prefix), default=None)


def _fits(prefix: str, place: str) -> bool:
    if prefix.startswith("*."):
        return place.partition("/")[0].endswith(prefix[1:])
    return place == prefix or place.startswith(f"{prefix}/")


def _endpoint(place: str, insecure: bool) -> Endpoint:
    host, _, path = place.partition("/")
    return Endpoint(host, path, insecure)


def load(etc: str = ETC) -> Registries:
    """Read the settings of the machine and of the user. Raises ImageError, OSError."""
    found = Registries({})
    for path in _files(etc):
        try:
            with open(path, "rb") as file:
                found = _merged(found, tomllib.load(file))
        except FileNotFoundError:
            continue
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
            raise ImageError(f"{path}: {error}", "see containers-registries.conf(5)") from None
    return found


def _files(etc: str) -> list[str]:
    own = os.path.expanduser("~/.config/containers")
    chosen = os.environ.get("CONTAINERS_REGISTRIES_CONF")
    alone = not chosen and os.path.exists(f"{own}/registries.conf")
    main = chosen or f"{own if alone else etc}/registries.conf"
    folders = [own] if alone else [etc, own]
    found = [main]
    for folder in folders:
        found += sorted(glob.glob(f"{glob.escape(folder)}/registries.conf.d/*.conf"))
    return found


def _merged(before: Registries, document: Mapping[str, Any]) -> Registries:
    """Return the settings with those of one more file. Raises ValueError."""
    if "registries" in document:
        raise ValueError("version 1 of the format: write it anew as [[registry]]")
    rules = dict(before.rules)
    for entry in _tables(document, "registry"):
        rule = _parse(entry)
        rules[rule.prefix] = rule
    aliases = _typed(document, "aliases", dict, {})
    mode = _one_of(document, "short-name-mode", before.mode, _MODES)
    search = _typed(document, "unqualified-search-registries", list, list(before.search))
    if not all(isinstance(each, str) for each in [*search, *aliases.values()]):
        raise ValueError("unqualified-search-registries and aliases hold texts")
    return Registries(rules, tuple(search), {**before.aliases, **aliases}, mode)


def _parse(entry: Mapping[str, Any]) -> RegistryRule:
    location = _typed(entry, "location", str, "").rstrip("/")
    prefix = _typed(entry, "prefix", str, "").rstrip("/") or location
    if not prefix or not (location or prefix.startswith("*.")):
        raise ValueError("[[registry]]: location is missing")
    digests = _typed(entry, "mirror-by-digest-only", bool, False)
    mirrors = []
    for mirror in _tables(entry, "mirror"):
        at = _typed(mirror, "location", str, "").rstrip("/")
        if not at:
            raise ValueError("[[registry.mirror]]: location is missing")
        pull = _one_of(mirror, "pull-from-mirror", "digest-only" if digests else "all", _FROM)
        mirrors.append(Mirror(at, _typed(mirror, "insecure", bool, False), pull))
    insecure, blocked = (_typed(entry, key, bool, False) for key in ("insecure", "blocked"))
    return RegistryRule(prefix, location, insecure, blocked, tuple(mirrors))


def _typed(entry: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    found = entry.get(key, default)
    if not isinstance(found, kind):
        raise ValueError(f"{key}: {found!r} is no {kind.__name__}")
    return found


def _one_of(entry: Mapping[str, Any], key: str, default: str, words: tuple[str, ...]) -> str:
    found: str = _typed(entry, key, str, default) or default
    if found not in words:
        raise ValueError(f"{key}: {found!r} is none of {', '.join(words)}")
    return found


def _tables(entry: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = _typed(entry, key, list, [])
    if not all(isinstance(each, dict) for each in found):
        raise ValueError(f"[[{key}]] is no table")
    return found
