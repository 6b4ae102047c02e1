"""Which of a machine's sources of packages are the distribution's own."""

from pathlib import Path

import pytest

from minirun.core.errors import ImageError
from rootfs_tools.recipe import aptsources

LIST = """\
# deb http://commented.example/debian bookworm main
deb http://one.example/debian bookworm main contrib # a remark
deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] http://two.example/x bookworm-updates main
deb-src http://src.example/debian bookworm main
deb [signed-by=/k/vendor.gpg] http://vendor.example/apt bookworm main
deb http://other.example/debian trixie main
deb http://tools.example/apt bookworm stable
nonsense
"""
SOURCES = """\
# Types: deb
Types: deb
URIs: http://three.example/debian
  http://four.example/debian
Suites: bookworm bookworm-security
# Components: none
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb
URIs: http://node.example/debian
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
"""


def test_keeps_the_distributions_own(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LIST)
    (tmp_path / "sources.list.d" / "x.sources").write_text(SOURCES)
    (tmp_path / "sources.list.d" / "x.sources.disabled").write_text("Types: broken")
    found = aptsources.read("bookworm", str(tmp_path))
    assert [line.split("//")[1].split("/")[0] for line in found.lines.splitlines()] == [
        "one.example",
        "two.example",
    ]
    assert found.mirror == "http://one.example/debian"
    assert "http://three.example/debian\n  http://four.example/debian" in found.stanzas
    assert "off.example" not in found.stanzas
    assert "node.example" not in found.stanzas
    assert "#" not in found.stanzas


def test_the_first_mirror_of_a_stanza(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(SOURCES)
    found = aptsources.read("bookworm", str(tmp_path))
    assert (found.lines, found.mirror) == ("", "http://three.example/debian")


@pytest.mark.parametrize("suite", ["sid", "unstable", "testing"])
def test_sid_says_that_it_is_testing(tmp_path: Path, suite: str) -> None:
    """Its os-release has testing's codename, which no source of it has."""
    (tmp_path / "sources.list").write_text(
        f"deb http://one.example/debian {suite} main\ndeb http://two.example/debian trixie main\n"
    )
    found = aptsources.read("forky", str(tmp_path))
    assert (found.suite, found.mirror) == (suite, "http://one.example/debian")
    assert "trixie" not in found.lines


def test_no_source_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match='no source of packages for "bookworm"'):
        aptsources.read("bookworm", str(tmp_path))


def test_this_machine_has_sources_and_settings_that_apt_understands() -> None:
    from rootfs_tools.recipe.bootstrap import os_release

    assert aptsources.read(os_release("/")["VERSION_CODENAME"]).mirror
    for option in aptsources.options():
        name, value = option.split(" ", 1)
        assert name.startswith("Acquire::")
        assert value.startswith('"') and value.endswith('"')
