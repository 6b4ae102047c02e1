"""podman's containers: texts of an image on a terminal, a damaged record, gc beside strangers."""

import json
from collections.abc import Iterator

import pytest

from engines.clients import images
from engines.clients.engine import Podman
from security.test_terminal import ALL, EVIL, assert_harmless

IMAGE = "test.local/escapes:1"
ROOT = "/run/minirun"


@pytest.fixture(scope="module")
def engine(command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """podman, whose runtime names its state root itself.

    conmon's last call, `delete`, comes without --runtime-flag and without podman's environment.
    """
    runtime = tmp_path_factory.mktemp("bin") / "minirun"
    runtime.write_text(f'#!/bin/sh\nexec {command} --root {ROOT} "$@"\n')
    runtime.chmod(0o755)
    found = Podman("minirun", str(runtime))
    yield found
    found.close()


@pytest.fixture
def name(engine: Podman) -> Iterator[str]:
    """A running container of an image that is all escapes; its whole id."""
    target = images.archive(
        engine.home / "escapes.tar", IMAGE, cmd=("sh", "-c", "/bin/sleep 300; true", *EVIL),
        annotations={"org.example.evil": ALL, "org.opencontainers.image.title": ALL},
        Env=[images.PATH, f"EVIL={ALL}"], Labels={"evil": ALL, "title": ALL},
    )  # fmt: skip
    engine("load", "-i", str(target))
    parent = f"--cgroup-parent={engine.cell.parent}"
    words = ("run", "-d", "--network=none", parent, "--annotation", f"org.example.more={ALL}")
    yield engine(*words, IMAGE).strip()
    engine.clean()


def call(engine: Podman, *words: str) -> tuple[int, str, str]:
    done = engine.cell.run(engine.path, *words)
    return done.returncode, done.stdout, done.stderr


def test_an_images_texts(engine: Podman, name: str) -> None:
    for words in (
        ("ps", "-a"), ("ps", name), ("list",), ("state", name), ("inspect", name),
        ("inspect", "--text", name),
        ("timeline", name), ("timeline", "--text", name), ("gpu", "why", name),
    ):  # fmt: skip
        status, stdout, stderr = call(engine, *words)
        assert (status, stderr) == (0, ""), words
        assert_harmless(stdout)
    assert "\\x1b[2J" in call(engine, "inspect", "--text", name)[1]
    done = engine.full("exec", name.strip(), f"/{ALL}")
    assert done.returncode != 0
    assert_harmless(call(engine, "exec", name, f"/{ALL}")[2])


def test_a_damaged_record(engine: Podman, name: str) -> None:
    """podman's cgroup has the container's id in its name: it is ended without the record."""
    path = f"{ROOT}/{name}/state.json"
    pid = json.loads(call(engine, "state", name)[1])["pid"]
    engine.cell.run("sh", "-c", f"echo '[' > {path}; mkdir -p {ROOT}/theirs/documents")
    status, stdout, stderr = call(engine, "ps", "-a")
    assert (status, "Damaged" in stdout, stderr.count("\n")) == (0, True, 1)
    status, _, stderr = call(engine, "gc")
    assert status == 1
    assert f"{ROOT}/theirs is left: it has no state.json" in stderr
    status, _, stderr = call(engine, "delete", "--force", name)
    assert status == 0, stderr
    assert "removed without its record" in stderr and "2 processes killed" in stderr
    assert engine.cell.run("test", "-e", f"/proc/{pid}/root").returncode == 1
    assert engine.cell.run("ls", ROOT).stdout == "theirs\n"
    engine.cell.run("rm", "-r", f"{ROOT}/theirs")
