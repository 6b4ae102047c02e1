"""nvidia-ctk runtime configure: the same configuration as the real nvidia-ctk's."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu.recorded import DATA
from minirun.toolkit.ctk import engines

FLAGS = ("--set-as-default", "--cdi.enabled", "--dry-run")


def golden(engine: str) -> tuple[list[str], str]:
    """The log lines of a case, and the text between them."""
    text = (DATA / "ctk" / f"runtime-configure-{engine}.txt").read_text()
    lines = [line for line in text.splitlines() if line.startswith("level=")]
    return lines, re.sub("(?m)^level=.*\n", "\0", text)


def files(text: str) -> list[dict[str, Any]]:
    """The TOML documents in what was printed."""
    return [tomllib.loads(part) for part in text.split("\0") if part.strip()]


def configure(minirun: Program, *flags: str) -> tuple[list[str], str]:
    done = minirun("nvidia-ctk", "runtime", "configure", *flags)
    assert done.returncode == 0, done.stderr
    return [line.partition(" ")[2] for line in done.stderr.splitlines()], done.stdout


def test_docker_to_the_letter(minirun: Program, tmp_path: Path) -> None:
    flags = ("--runtime=docker", f"--config={tmp_path}/daemon.json", *FLAGS)
    said, text = configure(minirun, *flags)
    lines, expected = golden("docker")
    assert (said, text) == (lines, expected.strip("\0"))
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("engine", ("containerd", "crio"))
def test_toml_means_the_same(minirun: Program, tmp_path: Path, engine: str) -> None:
    """Different on purpose: tables are not indented and keep the order they were made in."""
    said, text = configure(minirun, "--runtime", engine, f"--config={tmp_path}/c", *FLAGS)
    lines, expected = golden(engine)
    assert said == lines
    parts = re.split(r"(?m)^(?=version = 2\nimports)", text)
    found = [tomllib.loads(part) for part in parts if part.strip()]
    assert found == files(expected)


def test_minirun_is_registered_with_docker_and_the_rest_stays(
    minirun: Program, tmp_path: Path
) -> None:
    path = tmp_path / "daemon.json"
    before = {"data-root": "/d", "runtimes": {"x": {"path": "/x"}}, "features": {"buildkit": True}}
    path.write_text(json.dumps(before))
    path.chmod(0o600)
    flags = ("--nvidia-runtime-name=minirun", f"--nvidia-runtime-path={minirun.path}")
    said, _ = configure(minirun, f"--config={path}", "--enable-cdi", *flags)
    after = json.loads(path.read_text())
    entry = {"path": minirun.path, "args": []}
    assert after == before | {
        "runtimes": {"x": {"path": "/x"}, "minirun": entry},
        "features": {"buildkit": True, "cdi": True},
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert said[-1] == 'level=info msg="It is recommended that docker daemon be restarted."'
    configure(minirun, f"--config={path}", "--enable-cdi", *flags)
    assert json.loads(path.read_text()) == after


def test_containerd_copies_runcs_options_and_imports_the_drop_in(
    minirun: Program, tmp_path: Path
) -> None:
    main, drop_in = tmp_path / "config.toml", tmp_path / "conf.d/nv.toml"
    before = (
        '# keep me\nversion = 3\nimports = ["/x/*.toml"]\n'
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
        'runtime_type = "io.containerd.runc.v2"\n'
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"
        "SystemdCgroup = true\n"
    )
    main.write_text(before)
    flags = ("--runtime=containerd", f"--config={main}", f"--drop-in-config={drop_in}")
    for _ in range(2):
        configure(minirun, *flags, "--nvidia-runtime-path=/opt/minirun")
    assert main.read_text() == before.replace(
        '["/x/*.toml"]', f'["/x/*.toml", "{tmp_path}/conf.d/*.toml"]'
    )
    cri = tomllib.loads(drop_in.read_text())["plugins"]["io.containerd.cri.v1.runtime"]
    assert cri["containerd"]["runtimes"]["nvidia"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True, "BinaryName": "/opt/minirun"},
    }
    assert "default_runtime_name" not in cri["containerd"]


def test_containerd_without_a_version_is_version_1(minirun: Program, tmp_path: Path) -> None:
    main = tmp_path / "config.toml"
    main.write_text('[debug]\nlevel = "info"\n')
    configure(minirun, "--runtime=containerd", f"--config={main}")
    found = tomllib.loads(main.read_text())
    options = found["plugins"]["cri"]["containerd"]["runtimes"]["nvidia"]["options"]
    path = "/usr/bin/nvidia-container-runtime"
    assert options == {"BinaryName": path, "Runtime": path}
    assert found["version"] == 1 and found["debug"] == {"level": "info"}


def test_crio_in_its_main_file(minirun: Program, tmp_path: Path) -> None:
    main = tmp_path / "crio.conf"
    main.write_text(
        '[crio.runtime]\ndefault_runtime = "crun"\n'
        '[crio.runtime.runtimes.crun]\nmonitor_path = "/m"\n'
    )
    configure(minirun, "--runtime=crio", f"--config={main}", "--drop-in-config=")
    runtime = tomllib.loads(main.read_text())["crio"]["runtime"]
    assert runtime["default_runtime"] == "crun"
    assert runtime["runtimes"]["nvidia"] == {
        "monitor_path": "/m",
        "runtime_path": "/usr/bin/nvidia-container-runtime",
        "runtime_type": "oci",
    }


def test_crio_has_what_its_drop_ins_say(minirun: Program, tmp_path: Path) -> None:
    """The packages of CRI-O keep runtimes in crio.conf.d; nvidia is the default only if asked."""
    main = tmp_path / "crio.conf"
    main.write_text('[crio.runtime]\ndefault_runtime = "nvidia"\n')
    folder = tmp_path / "crio.conf.d"
    folder.mkdir()
    (folder / "10-crio.conf").write_text('[crio.runtime.runtimes.crun]\nmonitor_path = "/m"\n')
    flags = ("--runtime=crio", f"--config={main}", f"--drop-in-config={folder}/99-nvidia.toml")
    for _ in range(2):
        configure(minirun, *flags)
        found = tomllib.loads((folder / "99-nvidia.toml").read_text())["crio"]["runtime"]
        assert found["default_runtime"] == "crun"
        assert found["runtimes"]["nvidia"]["monitor_path"] == "/m"
    (folder / "10-crio.conf").unlink()
    said, _ = configure(minirun, *flags)
    assert 'level=warning msg="nvidia stays the default runtime' in "".join(said)
    configure(minirun, *flags, "--set-as-default")
    found = tomllib.loads((folder / "99-nvidia.toml").read_text())["crio"]["runtime"]
    assert found["default_runtime"] == "nvidia"


def test_the_drop_in_is_where_crio_looks() -> None:
    """CRI-O reads /etc/crio/crio.conf.d; toolkits before 1.19.1 wrote to /etc/crio/conf.d."""
    assert engines.ENGINES["crio"].drop_in == "/etc/crio/crio.conf.d/99-nvidia.toml"


@pytest.mark.parametrize(
    ("flags", "culprit"),
    (
        ("--runtime=podman", "unrecognized runtime 'podman'"),
        ("--runtime=crio --runtime-path=x", 'the NVIDIA runtime path "x" is not an absolute path'),
        ("--drop-in-config=/x", "runtime docker does not support drop-in configs"),
        ("--runtime=crio --drop-in-config=x", 'drop-in-config path "x" is not an absolute path'),
        ("--nosuch", "unknown flag: --nosuch"),
        ("more", "unexpected argument 'more'"),
    ),
)
def test_wrong_use(minirun: Program, flags: str, culprit: str) -> None:
    done = minirun("nvidia-ctk", "runtime", "configure", "--dry-run", *flags.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert culprit in done.stderr


@pytest.mark.parametrize(
    ("engine", "text"),
    (
        ("docker", "[]"),
        ("docker", "{"),
        ("docker", '{"runtimes": []}'),
        ("containerd", "a = ="),
        ("containerd", 'version = "9"'),
        ("docker", '{"features": []}'),
        ("containerd", 'version = 2\nimports = "x"'),
        ("crio", "crio = 1"),
    ),
)
def test_a_broken_file_is_named_and_stays(
    minirun: Program, tmp_path: Path, engine: str, text: str
) -> None:
    path = tmp_path / "conf"
    path.write_text(text)
    flags = ["--set-as-default", f"--runtime={engine}", f"--config={path}"]
    drop_in = {"docker": [], "crio": ["--drop-in-config="]}
    flags += drop_in.get(engine, [f"--drop-in-config={tmp_path}/d/x"])
    done = minirun("nvidia-ctk", "runtime", "configure", *flags)
    assert done.returncode == 1
    assert str(path) in done.stderr.splitlines()[-1]
    assert path.read_text() == text and not (tmp_path / "d").exists()


def program(path: Path, text: str, status: int = 0) -> str:
    path.write_text(
        f"#!/bin/sh\necho \"$@\" >>{path}.called\ncat <<'E'\n{text}\nE\nexit {status}\n"
    )
    path.chmod(0o755)
    return str(path)


def test_an_engine_says_what_is_in_force(minirun: Program, tmp_path: Path) -> None:
    text = 'version = 3\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\na = "b"'
    containerd = program(tmp_path / "engine", text)
    flags = ("--runtime=containerd", f"--config={tmp_path}/c", "--config-source=command")
    said, text = configure(minirun, *flags, f"--executable-path={containerd}", "--dry-run")
    assert (tmp_path / "engine.called").read_text() == "config dump\n"
    assert 'msg="Using config version 3"' in said[0]
    entry = files(text.partition("version = 3\nimports")[0])[0]
    runtimes = entry["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert runtimes["nvidia"]["a"] == "b"


def test_crio_was_asked_by_another_program_once(minirun: Program, tmp_path: Path) -> None:
    text = '[crio.runtime.runtimes.crun]\nmonitor_path = "/m"'
    program(tmp_path / "crio-status", text)
    program(tmp_path / "crio", "", status=1)
    flags = ("--runtime=crio", f"--config={tmp_path}/c", "--config-source=command", "--dry-run")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = minirun("nvidia-ctk", "runtime", "configure", *flags, env=env)
    assert 'monitor_path = "/m"' in done.stdout
    (tmp_path / "crio-status").unlink()
    done = minirun("nvidia-ctk", "runtime", "configure", *flags, env=env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_docker_is_not_asked(minirun: Program, tmp_path: Path) -> None:
    flags = (f"--config={tmp_path}/c", "--config-source=command", "--executable-path=/x")
    said, _ = configure(minirun, *flags, "--config-mode=other", "--dry-run")
    assert [line for line in said if line.startswith("level=warning")] == [
        'level=warning msg="Ignoring unsupported config mode for docker: \\"other\\""',
        'level=warning msg="Ignoring executable-path=\\"/x\\" flag for docker"',
        'level=warning msg="A command Config Source is not supported for docker; using file"',
    ]


def test_a_hook_for_podman(minirun: Program, tmp_path: Path) -> None:
    flags = ("--config-mode=oci-hook", "--nvidia-runtime-hook-path=/opt/bin/hook")
    said, text = configure(minirun, *flags)
    assert said == ['level=warning msg="The \\"oci-hook\\" config-mode is deprecated"']
    found = json.loads(text)
    assert found["hook"]["args"] == ["hook", "prestart"]
    assert found["hook"]["env"][0].endswith(":/opt/bin")
    assert (found["stages"], found["when"]) == (
        ["prestart"], {"always": True, "commands": [".*"]},
    )  # fmt: skip
    path = tmp_path / "hooks.d/hook.json"
    assert configure(minirun, *flags, f"--oci-hook-path={path}")[1] == ""
    assert path.read_text() == text
    done = minirun("nvidia-ctk", "runtime", "configure", "--config-mode=hook",
                   "--nvidia-runtime-hook-path=hook")  # fmt: skip
    assert done.returncode == 1 and '"hook" is not an absolute path' in done.stderr
