"""The version: where it stands, which may come next, and what CHANGELOG.md says of each."""

import datetime
import re
import textwrap
from typing import NamedTuple

EMPTY = "## [Unreleased]\n"
PLACE = "minirun/__init__.py"
"""The one file with the version."""
_SECTION = re.compile(r"^## \[(.+?)\](?: - (\S+))?\n", re.MULTILINE)
_NUMBER = r"(0|[1-9][0-9]{0,4})"


class RefusedError(Exception):
    """A release cannot be made; the text is one line."""


class Section(NamedTuple):
    """What one version brings; `date` is empty where it is not released."""

    version: str
    date: str
    text: str


def numbers(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version. Raises RefusedError if it is another form."""
    if not version:
        raise RefusedError("no version is named (make release VERSION=X.Y.Z)")
    match = re.fullmatch(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", version, re.ASCII)
    if not match:
        raise RefusedError(f"VERSION={version} is not of the form X.Y.Z, such as 0.3.0")
    return tuple(map(int, match.groups()))


def sections(changelog: str) -> list[Section]:
    """Return the sections of CHANGELOG.md, the newest first."""
    _, *parts = _SECTION.split(changelog)
    rows = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [Section(version, date or "", text.strip()) for version, date, text in rows]


def released(changelog: str, version: str, date: datetime.date) -> str:
    """Return CHANGELOG.md after a release. Raises RefusedError if it cannot be made."""
    wanted = numbers(version)
    first, *others = sections(changelog) or [Section("", "", "")]
    if first.version != "Unreleased":
        raise RefusedError("CHANGELOG.md does not begin with [Unreleased]")
    if others and wanted <= numbers(others[0].version):
        raise RefusedError(
            f"VERSION={version} is not newer than {others[0].version} (CHANGELOG.md)"
        )
    if not re.search(r"^- ", first.text, re.MULTILINE):
        raise RefusedError("[Unreleased] in CHANGELOG.md is empty: there is nothing to release")
    return changelog.replace(EMPTY, f"{EMPTY}\n## [{version}] - {date.isoformat()}\n", 1)


def with_version(source: str, version: str) -> str:
    """Return minirun/__init__.py with another version."""
    text, count = re.subn(r'^__version__ = ".*"$', f'__version__ = "{version}"', source, flags=re.M)
    if count != 1:
        raise RefusedError(f"{PLACE} has {count} lines with the version")
    return text


def debian(changelog: str, package: str, maintainer: str) -> str:
    """Return the released sections in the form of deb-changelog(5)."""
    entries = []
    for each in sections(changelog):
        if not each.date:
            continue
        lines = []
        for block in re.split(r"\n(?=- |### )|\n\n", each.text):
            words = " ".join(block.split())
            if words.startswith("### "):
                lines += ["", f"  [ {words[4:]} ]"]
            elif words:
                words = words.removeprefix("- ")
                lines += textwrap.wrap(words, 78, initial_indent="  * ", subsequent_indent="    ")
        day = datetime.date.fromisoformat(each.date).strftime("%a, %d %b %Y 00:00:00 +0000")
        body = "\n".join(lines).lstrip("\n")
        head = f"{package} ({each.version}) unstable; urgency=medium"
        entries.append(f"{head}\n\n{body}\n\n -- {maintainer}  {day}\n")
    return "\n".join(entries)
