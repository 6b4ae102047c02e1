"""Which of this machine's sources of packages have what another architecture needs.

A mirror may lack the index of a suite for one architecture, or have an older one than its signed
list says, for days (apt asks: "Mirror sync in progress?"). mmdebstrap ends at the first of them.
apt itself is asked here beforehand, source by source, in folders of its own. A source whose index
cannot be had is left out and named; the release itself never is: nothing can be made without it.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

from rootfs_tools.recipe import aptsources

UNCHECKED = 'Acquire::Check-Valid-Until "false";'  # a mirror may be a snapshot


def usable(sources: aptsources.AptSources, debian: str) -> tuple[str, list[str]]:
    """Return the sources that Debian's architecture can be had of, and a line for each other."""
    kept, left_out = [], []
    for suite, text in _single(sources):
        why = "" if suite == sources.suite else _objection(text, debian)
        if why:
            left_out.append(f"{suite} is left out, {debian} cannot be had of it: {why}")
        else:
            kept.append(text)
    return "\n\n".join(kept), left_out


def _single(sources: aptsources.AptSources) -> Iterator[tuple[str, str]]:
    """Yield suite and text of each source, one suite each: a stanza may name several."""
    for line in filter(None, sources.lines.splitlines()):
        yield line.partition("]")[2].split()[1] if "[" in line else line.split()[2], line
    for text in filter(None, sources.stanzas.split("\n\n")):
        stanza = message_from_string(text)
        for suite in str(stanza["Suites"]).split():
            stanza.replace_header("Suites", suite)
            yield suite, stanza.as_string().strip()


def _objection(text: str, debian: str) -> str:
    """Return what apt has against a source, its first line; "" if it gets its index."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # for apt's own user, who fetches
        file = folder / ("list.list" if text.startswith("deb") else "list.sources")
        file.write_text(text + "\n")
        for each in ("lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True)
        settings = {
            "Dir::Etc::sourcelist": file, "Dir::Etc::sourceparts": "-", "Dir::State": folder,
            "Dir::Cache": folder / "cache", "Dir::State::status": "/dev/null",
            "APT::Architecture": debian, "APT::Architectures": debian,
        }  # fmt: skip
        options = [f"-o{key}={value}" for key, value in settings.items()]
        options.append("-o" + UNCHECKED.replace(' "', "=").replace('";', ""))
        argv = ["apt-get", "update", "--quiet=2", "--error-on=any", *options]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if not done.returncode:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("E: ")]
    return (lines or [f"apt-get ends with status {done.returncode}"])[0]
