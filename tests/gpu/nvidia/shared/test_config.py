"""config.toml: the real default files say what no file at all says; where it is looked for."""

from pathlib import Path

import pytest

from conftest import Program
from gpu.recorded import DATA
from minirun.core.errors import ConfigError
from minirun.gpu.nvidia.hook import config_path, ldconfig_of
from minirun.gpu.nvidia.shared import config
from minirun.gpu.nvidia.shared.environment import DEFAULTS, default_user


@pytest.mark.parametrize("version", ("v1.17.2", "v1.20.0"))
def test_the_real_default_file_is_our_default(version: str) -> None:
    text = (DATA / "ctk" / f"config-default-{version}.toml").read_text()
    found, default = config.parse(text, "x"), config.parse("", "")
    if version == "v1.17.2":
        assert found.runtimes == ("docker-runc", "runc", "crun")  # docker's old name for runc
    else:
        assert found.runtimes == default.runtimes
        assert found.hook.options.cuda_compat_mode == "ldconfig"  # without a file: as 1.17.2
        options = found.hook.options._replace(cuda_compat_mode="")
        found = found._replace(hook=found.hook._replace(options=options))
    assert found._replace(source="", runtimes=()) == default._replace(runtimes=())
    ldconfig = ldconfig_of(DEFAULTS.options.ldconfig)
    options = DEFAULTS.options._replace(ldconfig=ldconfig, user=default_user())
    assert default.hook == DEFAULTS._replace(
        options=options
    )  # what the in-line step takes where there is no file


def test_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("NVIDIA_CTK_CONFIG_FILE_PATH", raising=False)
    assert config_path() == "/etc/nvidia-container-runtime/config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert config_path() == "/x/nvidia-container-runtime/config.toml"
    monkeypatch.setenv("NVIDIA_CTK_CONFIG_FILE_PATH", "/y.toml")
    assert config_path() == "/y.toml"


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        config.load(str(tmp_path / "nosuch"))


CLI = "nvidia-container-cli"
COMPAT = "nvidia-container-runtime.modes.legacy.cuda-compat-mode"


@pytest.mark.parametrize(
    ("text", "user"),
    (
        ('NAME="SLES"\nID_LIKE="suse"\n', "root:video"),
        ('ID_LIKE="suse opensuse"\n', "root:video"),
        ("ID_LIKE=opensuse\n", "root:video"),
        ('ID=suse\nID_LIKE="debian"\n', ""),
        ("ID=suse\n", ""),
        ("", ""),
    ),
)
def test_suse_gives_the_nodes_to_a_group(tmp_path: Path, text: str, user: str) -> None:
    (tmp_path / "os-release").write_text(text)
    assert default_user(str(tmp_path / "os-release")) == user
    assert default_user(str(tmp_path / "nosuch")) == ""


def test_no_user_in_the_file_is_the_hosts_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "default_user", lambda: "root:video")
    assert config.parse("", "").hook.options.user == "root:video"


def test_a_compat_mode_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match=f"x: {COMPAT}: 'off' is none of"):
        config.parse(f'{COMPAT} = "off"', "x")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    (
        ('supported-driver-capabilities = "all"', "supported_capabilities", config.CAPABILITIES),
        ('swarm-resource = "A, B"', "swarm_resources", ("A", "B")),
        ('nvidia-container-cli.ldconfig = "@/nosuch.real"', "ldconfig", "@/nosuch"),
        (f'{CLI}.ldconfig = "/inside.real"', "ldconfig", "/inside.real"),
        (f'{CLI}.user = ""', "user", ""),
        ("features.ignore-imex-channel-requests = true", "ignore_imex_channels", True),
        (f'{COMPAT} = "mount"', "cuda_compat_mode", "mount"),
        (f'{COMPAT} = "hook"', "cuda_compat_mode", "disabled"),
        ('unknown-key = 1\ndisable-require = true', "disable_require", True),
    ),
)  # fmt: skip
def test_what_the_hook_gets(text: str, key: str, value: object) -> None:
    hook = config.parse(text, "x").hook
    assert {**hook.options._asdict(), **hook._asdict()}[key] == value


@pytest.mark.parametrize(
    ("name", "flag", "begin"),
    (
        ("nvidia-container-runtime-hook", "version", "NVIDIA Container Runtime Hook version"),
        ("nvidia-container-runtime", "--help", "Usage: minirun nvidia-container-runtime"),
        ("nvidia-ctk", "--help", "Usage: minirun nvidia-ctk"),
    ),
)
def test_each_program_by_its_own_name(
    minirun: Program, tmp_path: Path, name: str, flag: str, begin: str
) -> None:
    (tmp_path / name).symlink_to(minirun.path)
    linked = Program(str(tmp_path / name), minirun.root)
    linked.argv = lambda *args: [linked.path, *args]  # type: ignore[method-assign]
    assert linked(flag).stdout.startswith(begin)
