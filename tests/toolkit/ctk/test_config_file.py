"""nvidia-ctk config: the default file, and other values in one; flags of nvidia-ctk itself."""

import os
import tomllib
from pathlib import Path

import pytest

from conftest import Program
from gpu.recorded import DATA
from minirun.gpu.nvidia.hook import ldconfig_of
from minirun.gpu.nvidia.shared import config
from minirun.toolkit.ctk import config_file

FILE = "nvidia-container-runtime/config.toml"


def test_the_default_file_to_the_letter(minirun: Program, tmp_path: Path) -> None:
    text = (DATA / "ctk/config-default-v1.20.0.toml").read_text()
    text = text.replace("@/sbin/ldconfig", ldconfig_of("@/sbin/ldconfig"))
    assert minirun("nvidia-ctk", "config", "default").stdout == text
    path = tmp_path / "new/config.toml"
    assert minirun("nvidia-ctk", "config", "create-default", "-o", str(path)).stdout == ""
    assert (path.read_text(), path.stat().st_mode & 0o777) == (text, 0o644)


def test_suse_has_another_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_file, "default_user", lambda: "root:video")
    assert '\nuser = "root:video"\n' in config_file.default()


def test_keys_are_set(minirun: Program, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    sets = (
        "--set=nvidia-container-cli.no-cgroups", "--set=disable-require=t",
        "--set", "nvidia-container-runtime.modes.cdi.spec-dirs=/a:/b",
        "--set=swarm-resource=A,B", "--set=features.ignore-imex-channel-requests=true",
        "--set=nvidia-container-runtime.modes.legacy.cuda-compat-mode=mount",
    )  # fmt: skip
    printed = minirun("nvidia-ctk", "config", *sets, env=env).stdout
    assert not os.listdir(tmp_path), "nothing is written unasked"
    assert minirun("nvidia-ctk", "config", "-i", *sets, env=env).stdout == ""
    assert (tmp_path / FILE).read_text() == printed
    found = config.parse(printed, "x")
    assert found.hook.options.no_cgroups and found.hook.disable_require
    assert found.hook.swarm_resources == ("A", "B") and found.spec_dirs == ("/a", "/b")
    assert found.hook.ignore_imex_channels
    assert found.hook.options.cuda_compat_mode == "mount"


def test_the_rest_of_a_file_stays(minirun: Program, tmp_path: Path) -> None:
    path, other = tmp_path / "config.toml", tmp_path / "other.toml"
    text = '# mine\nmode-of-another = 1\n[nvidia-ctk] # here\npath = "/x"\n'
    path.write_text(text)
    words = (f"--config-file={path}", f"--output={other}", "--set=nvidia-ctk.path=/y")
    assert minirun("nvidia-ctk", "config", *words).returncode == 0
    assert path.read_text() == text
    assert other.read_text() == text.replace("/x", "/y")
    words = ("-c", str(path), "--set=nvidia-container-cli.root=/r", "--in-place")
    assert minirun("nvidia-ctk", "config", *words).returncode == 0
    assert tomllib.loads(path.read_text())["nvidia-container-cli"] == {"root": "/r"}
    assert path.read_text().startswith(text)


@pytest.mark.parametrize(
    ("words", "text"),
    (
        (("--set=nosuch=1",), 'invalid --set option nosuch=1: invalid config option: undefined'),
        (("--set=nvidia-ctk=1",), "undefined field"),
        (("--set=disable-require=yes",), "invalid format: expected disable-require=true"),
        (("--set=nvidia-ctk.path",), "invalid format: expected nvidia-ctk.path=value"),
        (("--nosuch",), "unknown flag: --nosuch"),
        (("nosuch",), "unexpected argument 'nosuch'"),
    ),
)  # fmt: skip
def test_mistakes(minirun: Program, words: tuple[str, ...], text: str) -> None:
    done = minirun("nvidia-ctk", "config", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert text in done.stderr


def test_flags_of_the_whole_program(minirun: Program, tmp_path: Path) -> None:
    assert minirun("nvidia-ctk", "--version").stdout.startswith("NVIDIA Container Toolkit CLI ver")
    command = ("runtime", "configure", "--runtime=containerd", f"--config={tmp_path}/c")
    command += ("--dry-run", "--drop-in-config=")
    (tmp_path / "c").write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\na = "b"\n'
    )
    assert "Using options from runtime runc" not in minirun("nvidia-ctk", *command).stderr
    assert "Using options from runtime runc" in minirun("nvidia-ctk", "-d", *command).stderr
    assert minirun("nvidia-ctk", "--quiet", *command).stderr == ""
    done = minirun("nvidia-ctk", "--nosuch")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
