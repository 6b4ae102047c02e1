"""A source whose index a mirror does not have is left out by name: indexes.py, asked of apt."""

import hashlib
from pathlib import Path

import pytest

from machines.indexes import usable
from rootfs_tools.recipe.aptsources import AptSources


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror of two suites: the index of `late` is older than its list says."""
    tmp_path.chmod(0o755)
    for suite, listed in (("good", b""), ("late", b"Package: new\n\n")):
        folder = tmp_path / "dists" / suite / "main/binary-i386"
        folder.mkdir(parents=True)
        (folder / "Packages").write_bytes(b"")
        digest = hashlib.sha256(listed).hexdigest()
        row = f" {digest} {len(listed)} main/binary-i386/Packages\n"
        text = f"Suite: {suite}\nArchitectures: i386\nComponents: main\nSHA256:\n{row}"
        (folder.parents[1] / "Release").write_text(text)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # apt's own user reads it
    return tmp_path


def test_stanza_of_two_suites(mirror: Path) -> None:
    """Only the suite whose index does not fit is left out, and its line says why."""
    text = f"Types: deb\nURIs: file:{mirror}\nSuites: good late\nComponents: main\nTrusted: yes"
    kept, left_out = usable(AptSources("", text, f"file:{mirror}", "release"), "i386")
    assert "Suites: good" in kept
    assert "late" not in kept
    (line,) = left_out
    assert line.startswith("late is left out, i386 cannot be had of it: E: Failed to fetch")


def test_lines(mirror: Path) -> None:
    """The form of one line a source, with options and without."""
    lines = f"deb [trusted=yes] file:{mirror} late main\ndeb [trusted=yes] file:{mirror} good main"
    kept, left_out = usable(AptSources(lines, "", f"file:{mirror}", "release"), "i386")
    assert kept == lines.splitlines()[1]
    assert len(left_out) == 1


def test_release_itself_stays(mirror: Path) -> None:
    """Without it nothing can be made, so mmdebstrap's own error is better than a silent gap."""
    line = f"deb [trusted=yes] file:{mirror} late main"
    assert usable(AptSources(line, "", f"file:{mirror}", "late"), "i386") == (line, [])
