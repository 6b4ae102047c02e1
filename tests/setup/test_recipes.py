"""Recipes that fetch packages: what they make is reproducible. It takes minutes."""

import json
import subprocess
from pathlib import Path

import pytest

from rootfs_tools import catalogue
from rootfs_tools.archives.saving import FolderTarget, collected, write
from rootfs_tools.image_spec import digest_of
from rootfs_tools.recipe import bootstrap, build, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_two_builds_of_debian_are_one_image_that_others_read(tmp_path: Path) -> None:
    """Built at two times in two stores; packages, base and dates stand in the annotations."""
    images = [build.build(str(tmp_path / n), "debian", lambda line: None) for n in "12"]
    assert images[0].digest == images[1].digest
    with collected(str(tmp_path / "1"), ["debian"]) as saved:
        (tmp_path / "out").mkdir()
        write(saved, "oci-dir", FolderTarget(str(tmp_path / "out")))
    place = f"oci:{tmp_path}/out:latest"
    command = ["skopeo", "inspect", "--raw", place]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    assert digest_of(raw) == images[0].digest
    found = json.loads(raw)
    rows = [line.split() for line in found["annotations"]["minirun.made-of"].splitlines()]
    assert {"apt", "bash", "coreutils", "libc6", "procps"} <= {row[0] for row in rows}
    assert all(row[3].startswith("sha256:") and len(row[3]) == 71 for row in rows)
    release = bootstrap.os_release(images[0].layers[0])
    version = found["annotations"].get("org.opencontainers.image.version")
    assert version == release.get("VERSION_ID")  # sid has none


def test_ubuntu_is_made_of_ubuntus_archive(tmp_path: Path) -> None:
    """Where its archive does not answer this is skipped: then it is no Ubuntu."""
    wanted = text.load("ubuntu").packages
    (tmp_path / "ask").mkdir()
    try:
        bootstrap.prepare(wanted, str(tmp_path / "ask"))
    except bootstrap.UnreachableArchive as error:
        pytest.skip(f"no archive of Ubuntu's: {error}")
    image = build.build(str(tmp_path), "ubuntu", lambda line: None)
    assert image.origin.startswith("Ubuntu 24.04")
    assert bootstrap.os_release(image.layers[0])["ID"] == "ubuntu"
    assert catalogue.verify(str(tmp_path), "ubuntu") == ""
    command = ["chroot", image.layers[0], "apt-cache", "policy", "bash"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"bash:")
