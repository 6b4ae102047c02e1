"""Where this machine's apt gets its packages: read from /etc/apt, never known beforehand.

sources.list(5) knows two forms, one line a source (.list) and stanzas of fields (.sources). What
is returned is text in both forms, less every source that is not the distribution's own: another
suite, no component `main`, or a keyring other than the distribution's archive keyring.
"""

import glob
import os
import subprocess
from email import message_from_string  # the form of a stanza is a mail's head: RFC 822
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.kernel.architecture import NATIVE

_ALIASES = ("sid", "unstable", "testing", "stable")
"""Names by which sources call a release too. In sid os-release(5) has testing's codename."""
_PASSED_ON = ("Acquire::http", "Acquire::Check-", "Acquire::Retries", "Acquire::Force")


class AptSources(NamedTuple):
    """The distribution's sources: one-line form, stanza form, first address, and its suite."""

    lines: str
    stanzas: str
    mirror: str
    suite: str


def read(codename: str, etc: str = "/etc/apt") -> AptSources:
    """Return the sources of the distribution release `codename` (bookworm).

    If none has that name, those of the first of sid, unstable, testing and stable that one has.
    Raises ImageError if there are none.
    """
    lines = [line for text in _texts(etc, "list") for line in text.splitlines()]
    stanzas = [part for text in _texts(etc, "sources") for part in text.split("\n\n")]
    for suite in (codename, *_ALIASES):
        kept_lines = [line for line in lines if _official(_line_fields(line), suite)]
        kept_stanzas = [part for part in stanzas if _official(_fields(part), suite)]
        fields = [_line_fields(line) for line in kept_lines] + [_fields(p) for p in kept_stanzas]
        fields.sort(key=lambda source: source["suites"] != suite)
        mirrors = [f["uris"].split()[0] for f in fields if suite in f["suites"].split()]
        if mirrors:
            text = "\n\n".join(map(_plain, kept_stanzas))
            return AptSources("\n".join(kept_lines), text, mirrors[0], suite)
    text = f'no source of packages for "{codename}" in {etc}'
    raise ImageError(text, "add the distribution's own, then apt-get update")


def written(suite: str, text: str, ports: str) -> AptSources:
    """Return the sources that a recipe has written down, in the form of stanzas.

    The first address gives way to `ports`, if there is one, where the machine is no PC.
    """
    mirror = _fields(text.split("\n\n")[0]).get("uris", "").split(" ")[0]
    if ports and NATIVE.debian not in ("amd64", "i386"):
        text, mirror = text.replace(mirror, ports), ports
    return AptSources("", text, mirror, suite)


def options() -> list[str]:
    """Return the settings of this machine's apt that reaching its sources may need (a proxy, …)."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True)
    lines = [line for line in dump.stdout.splitlines() if line.startswith(_PASSED_ON)]
    return [line.rstrip(";") for line in lines if not line.endswith('"";')]


def _texts(etc: str, suffix: str) -> list[str]:
    names = [os.path.join(etc, f"sources.{suffix}")]
    names += sorted(glob.glob(os.path.join(etc, "sources.list.d", f"*.{suffix}")))
    texts = []
    for name in names:
        if os.path.isfile(name):
            with open(name, encoding="utf-8") as file:
                texts.append(file.read())
    return texts


def _official(fields: dict[str, str], codename: str) -> bool:
    own = {codename, *(codename + end for end in ("-updates", "-security", "/updates"))}
    keyring = fields.get("signed-by", "")
    return (
        "deb" in fields.get("types", "").split()
        and fields.get("enabled", "yes") not in ("no", "false")
        and set(fields.get("suites", "").split()) <= own
        and "main" in fields.get("components", "").split()
        and (not keyring or "-archive-keyring" in keyring)
    )


def _line_fields(line: str) -> dict[str, str]:
    """The fields of `deb [signed-by=…] ADDRESS SUITE COMPONENT…`; none for any other line."""
    head, bracket, tail = line.partition("[")
    options, _, rest = tail.partition("]") if bracket else ("", "", "")
    words = (head + rest).split("#")[0].split()
    if len(words) < 4 or words[0] != "deb":
        return {}
    fields = dict(option.lower().split("=", 1) for option in options.split() if "=" in option)
    names = {"types": words[0], "uris": words[1], "suites": words[2]}
    return fields | names | {"components": " ".join(words[3:])}


def _fields(stanza: str) -> dict[str, str]:
    """The fields of a stanza, by lower-case name; a continued value keeps only its words."""
    rows = message_from_string(_plain(stanza)).items()
    return {name.lower(): " ".join(value.split()) for name, value in rows}


def _plain(stanza: str) -> str:
    return "\n".join(line for line in stanza.strip().splitlines() if not line.startswith("#"))
