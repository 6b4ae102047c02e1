"""`minirun login` and `logout`, at a real registry with htpasswd."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, wait_until
from required import installed
from tests.rootfs_tools.registry import real


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("registry")
    with real.registry(folder, **real.htpasswd(folder)) as found:
        yield found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    real.no_settings(tmp_path, monkeypatch)
    return tmp_path / "auth.json"


def login(minirun: Program, host: str, password: str) -> subprocess.CompletedProcess[str]:
    return minirun("login", "-u", real.USER, "--password-stdin", host, input=f"{password}\n")


def skopeo(*words: str, input: str = "") -> str:
    """Run the other program that reads and writes this file, with the machine's own settings."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONTAINERS_")}
    argv = [installed("skopeo"), *words]
    done = subprocess.run(argv, input=input, text=True, capture_output=True, env=env, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def test_login_and_logout(minirun: Program, host: str, kept: Path) -> None:
    done = login(minirun, host, real.PASSWORD)
    assert done.stdout == f"Login Succeeded: kept in {kept}\n", done.stderr
    assert kept.stat().st_mode & 0o777 == 0o600
    assert skopeo("login", "--get-login", "--authfile", str(kept), host) == "mona\n"
    assert minirun("logout", host).stdout == f"Removing login credentials for {host}\n"
    assert json.loads(kept.read_text())["auths"] == {}
    assert minirun("logout", host).stdout == f"Not logged in to {host}\n"


@pytest.mark.parametrize("flag", ["-p", "--password"])
def test_a_password_among_the_arguments(minirun: Program, host: str, kept: Path, flag: str) -> None:
    """It is taken, as docker does, with a warning: others of this machine may read it there."""
    done = minirun("login", "-u", real.USER, flag, real.PASSWORD, host)
    assert (done.returncode, done.stdout) == (0, f"Login Succeeded: kept in {kept}\n"), done.stderr
    assert "--password-stdin" in done.stderr and real.PASSWORD not in done.stderr
    assert skopeo("login", "--get-login", "--authfile", str(kept), host) == "mona\n"
    wrong = minirun("login", "-u", real.USER, flag, "wrong", host)
    assert wrong.returncode == 1 and "unauthorized" in wrong.stderr
    both = minirun("login", "-u", real.USER, flag, "x", "--password-stdin", host, input="y")
    assert both.returncode != 0 and real.USER not in both.stdout


def test_a_wrong_password_is_not_kept(minirun: Program, host: str, kept: Path) -> None:
    done = login(minirun, host, "wrong")
    assert done.returncode == 1
    assert "unauthorized" in done.stderr
    assert "wrong" not in done.stderr
    assert not kept.exists()


def test_what_skopeo_kept_is_used(minirun: Program, host: str, kept: Path) -> None:
    words = ("--authfile", str(kept), "--tls-verify=false", "-u", real.USER, "--password-stdin")
    skopeo("login", *words, host, input=real.PASSWORD)
    done = minirun("pull", f"{host}/missing")
    assert "manifest for" in done.stderr  # and not: unauthorized


def test_wrong_words(minirun: Program, kept: Path) -> None:
    for words, said in (
        (("a", "b"), "requires at most 1 argument"),
        (("a b",), "invalid reference format"),
        (("host",), "is no registry"),
        ((), "non TTY device"),
        (("--password-stdin", "a.example"), "Must provide --username"),
    ):
        done = minirun("login", *words, input="")
        assert done.returncode == 1
        assert said in done.stderr


def test_the_password_is_asked_for_without_echo(minirun: Program, host: str, kept: Path) -> None:
    pid, master = pty.fork()
    if pid == 0:
        os.execv(minirun.path, minirun.argv("login", host))
    shown = bytearray()

    def read_until(text: bytes) -> None:
        wait_until(lambda: shown.extend(os.read(master, 1024)) or text in shown)

    read_until(b"Username: ")
    os.write(master, f"{real.USER}\n".encode())
    read_until(b"Password: ")
    os.write(master, f"{real.PASSWORD}\n".encode())
    read_until(b"Login Succeeded")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(master)
    assert real.PASSWORD.encode() not in shown
    assert kept.exists()
