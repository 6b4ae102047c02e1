"""Every flag of `minirun run`, by what it does inside the container."""

import json
import os
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

CPUS = len(os.sched_getaffinity(0))
SHELL = ("busybox", "sh", "-c")


def output(minirun: Program, *args: str, **options: Any) -> str:
    """What a container's command prints; it must end well."""
    done = minirun("run", "--rm", *args, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def name() -> str:
    return f"flags-{uuid.uuid4().hex[:10]}"


# --- environment, directories, names -----------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-e", "A=1"), "1"),
        (("-e", "A=1", "--env", "A=2"), "2"),
        (("-eA=x y=z",), "x y=z"),
        (("-e", "A="), ""),
        (("-e", "FROM_THE_CALLER"), "unset"),
        (("-e", "NOT_SET_AT_ALL"), "unset"),
    ],
)
def test_env(minirun: Program, flags: tuple[str, ...], expected: str) -> None:
    script = 'echo "${A-unset}"'
    found = output(minirun, *flags, *SHELL, script, env={"A": "the caller's"})
    assert found == f"{expected}\n"


def test_env_of_the_caller_is_taken_by_name_only(minirun: Program) -> None:
    caller = {"WANTED": "taken", "SECRET": "left outside"}
    found = output(minirun, "-e", "WANTED", "busybox", "env", env=caller)
    assert "WANTED=taken\n" in found
    assert "SECRET" not in found


def test_env_file(minirun: Program, tmp_path: Path) -> None:
    """docker's rules: a value is all that follows, and -e replaces what a file says."""
    lines = (
        "\ufeff# a comment",
        "A=1",
        "",
        '  B="x  y" ',
        "WANTED",
        "SECRET_NOT_SET",
        "C=\r",
        "A=2=3",
    )
    (tmp_path / "one").write_text("\n".join(lines))
    (tmp_path / "two").write_text("D=of the file\nE=of the file\n")
    flags = ("--env-file", f"{tmp_path}/one", "-e", "D=of -e", "--env-file", f"{tmp_path}/two")
    found = output(minirun, *flags, "busybox", "env", env={"WANTED": "taken"}).splitlines()
    expected = {"A=2=3", 'B="x  y" ', "WANTED=taken", "C=", "D=of -e", "E=of the file"}
    assert expected <= set(found)
    assert not [line for line in found if line.startswith(("SECRET", "#", "A=1"))]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"A B=1\n", "line 1: no name of a variable: 'A B'"),
        (b"A=1\n=2", "line 2: no name of a variable: ''"), (b"A=\xff\n", "it is not UTF-8"),
        (b"A=\0\n", "line 1"), (None, "no such file or directory"),
    ],
)  # fmt: skip
def test_an_env_file_that_is_none(
    minirun: Program, tmp_path: Path, content: bytes | None, text: str
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    done = minirun("run", "--rm", "--env-file", str(file), "busybox", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert done.stderr.startswith(f"minirun: --env-file {file}: {text}")


def test_volume(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in").write_text("from the host\n")
    script = "cat /data/in; echo from the container > /data/out; echo x > /file"
    flags = ("-v", f"{tmp_path}/data:/data", "--volume", f"{tmp_path}/data/in:/file")
    assert output(minirun, *flags, *SHELL, script) == "from the host\n"
    assert (tmp_path / "data/out").read_text() == "from the container\n"
    assert (tmp_path / "data/in").read_text() == "x\n", "a file may be a volume as well"


def test_volume_read_only(minirun: Program, tmp_path: Path) -> None:
    done = minirun(
        "run", "--rm", "-v", f"{tmp_path}:/data:ro", *SHELL, "ls /data && touch /data/new"
    )
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert not (tmp_path / "new").exists()


def test_volume_without_setuid_and_exec(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "x").chmod(0o755)
    assert output(minirun, "-v", f"{tmp_path}:/data", "busybox", "/data/x") == "ran\n"
    done = minirun("run", "--rm", "-v", f"{tmp_path}:/data:noexec,nosuid", "busybox", "/data/x")
    assert done.returncode == 126


def test_two_volumes_at_one_place(minirun: Program) -> None:
    """The second would hide the first: docker refuses them."""
    done = minirun("run", "--rm", "-v", "/etc:/x", "-v", "/usr:/x/", *SHELL, "ls /x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
    assert "duplicate mount point: /x (" in done.stderr
    assert minirun.left() == []


@pytest.mark.parametrize("path", ["./here", "../x/here", "."])
def test_volume_from_the_working_directory(minirun: Program, tmp_path: Path, path: str) -> None:
    folder = tmp_path / "x/here"
    folder.mkdir(parents=True)
    (folder / "file").write_text("found\n")
    where = folder if path == "." else folder.parent
    for words in (("-v", f"{path}:/data"), ("--mount", f"type=bind,src={path},dst=/data")):
        assert output(minirun, *words, "busybox", "cat", "/data/file", cwd=where) == "found\n"


@pytest.mark.parametrize("name", ["data/below", "~", "~root"])
@pytest.mark.parametrize("flag", ["-v", "--mount"])
def test_what_is_no_path_is_no_folder(
    minirun: Program, tmp_path: Path, name: str, flag: str
) -> None:
    """No volume has such a name; the folder of that name is another thing."""
    (tmp_path / name).mkdir(parents=True)
    text = f"{name}:/x" if flag == "-v" else f"type=bind,source={name},target=/x"
    done = minirun("run", "--rm", flag, text, "busybox", "true", cwd=tmp_path)
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    words = "invalid characters for a local volume name" if flag == "-v" else "is no path of the"
    assert words in done.stderr
    assert f"the folder {tmp_path}/{name}" in done.stderr and f"./{name})" in done.stderr


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ("etc", "invalid volume"), ("/etc:relative", "invalid volume"), (":/x", "invalid volume"),
        ("/etc:/", "the destination cannot be /"), ("/etc:/x:magic", "unknown option 'magic'"),
        ("/etc/passwd/x:/x", "not a directory"), ("/etc:/x:ro:rw", "invalid volume"),
    ],
)  # fmt: skip
def test_volumes_that_are_none(minirun: Program, volume: str, text: str) -> None:
    done = minirun("run", "--rm", "-v", volume, "busybox", "true")
    assert done.returncode == 125
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_workdir(minirun: Program) -> None:
    assert output(minirun, "-w", "/tmp", "busybox", "pwd") == "/tmp\n"
    assert output(minirun, "--workdir", "/made/for/it", "busybox", "pwd") == "/made/for/it\n"
    done = minirun("run", "--rm", "-w", "relative", "busybox", "pwd")
    assert done.returncode == 125
    assert "needs to be an absolute path" in done.stderr


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("1000", "1000 0 0"), ("1000:1001", "1000 1001 1001"), ("nobody", "65534 65534 65534"),
        ("0", "0 0 0"), ("65534:0", "65534 0 0"), ("root", "0 0 0"),
    ],
)  # fmt: skip
def test_user(minirun: Program, user: str, expected: str) -> None:
    found = output(minirun, "-u", user, *SHELL, "echo $(id -u) $(id -g) $(id -G)")
    assert found == f"{expected}\n"


@pytest.mark.parametrize("flag", ["--hostname", "-h"])
def test_hostname_has_dockers_short_name(minirun: Program, flag: str) -> None:
    assert output(minirun, flag, "box", "busybox", "hostname") == "box\n"
    assert json.loads(minirun("spec", flag, "box", "busybox").stdout)["hostname"] == "box"
    for words in ("run", "--help"), ("run", "-h"), ("run", "-d", "-h"):  # -h alone is runc's
        assert minirun(*words).stdout.startswith("Usage: minirun run ")
    assert minirun("run", "--hostname").stderr.startswith("minirun: flag needs an argument: --h")


def test_the_hosts_network_has_the_hosts_name(minirun: Program) -> None:
    script = "hostname; echo $HOSTNAME"
    assert output(minirun, "--net=host", *SHELL, script) == f"{os.uname().nodename}\n" * 2
    assert output(minirun, "--net=host", "-h", "box", *SHELL, script) == "box\nbox\n"


@pytest.mark.parametrize("name", ["-x", "--rm", ".x", ".history", "_x", "+x", "a/b", "é"])
def test_names_that_are_none(minirun: Program, name: str) -> None:
    """docker's rule: with - at its beginning no later command could name it."""
    done = minirun("run", "--name", name, "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"minirun: invalid container name {name!r} (")
    assert minirun.left() == []


def test_hostname(minirun: Program) -> None:
    found = output(minirun, "--hostname", "box", *SHELL, "hostname; echo $HOSTNAME; uname -n")
    assert found == "box\nbox\nbox\n"
    assert os.uname().nodename != "box"
    done = minirun("run", "--rm", "--hostname", "x" * 65, "busybox", "true")
    assert done.returncode == 125
    assert "at most 64 bytes" in done.stderr


def test_entrypoint(minirun: Program) -> None:
    assert output(minirun, "--entrypoint", "echo", "busybox", "one", "two") == "one two\n"
    assert output(minirun, "--entrypoint", "/bin/pwd", "-w", "/tmp", "busybox") == "/tmp\n"
    assert output(minirun, "--entrypoint=", "busybox", "echo", "one") == "one\n"
    done = minirun("run", "--rm", "--entrypoint", "", "busybox")
    assert done.returncode == 125 and "no command specified" in done.stderr, "as docker has it"


def test_name_and_rm(minirun: Program) -> None:
    kept, removed = name(), name()
    assert minirun("run", "--name", kept, "busybox", "true").returncode == 0
    assert minirun("run", "--name", removed, "--rm", "busybox", "true").returncode == 0
    assert minirun("ps", "-a", "--format", "{{.Names}}").stdout == f"{kept}\n"
    assert (minirun.directory(kept) / "upper").is_dir(), "what it wrote is kept"
    assert not minirun.directory(removed).exists()
    assert minirun("ps", "-q").stdout == ""
    assert json.loads(minirun("state", kept).stdout)["status"] == "stopped"
    assert minirun("delete", kept).returncode == 0


def test_what_a_container_writes_is_its_own(minirun: Program) -> None:
    assert minirun("run", "busybox", "touch", "/mine").returncode == 0
    assert "mine" not in output(minirun, "busybox", "ls", "/")
    (upper,) = minirun.root.glob("[!.]*/upper")
    assert [p.name for p in upper.iterdir() if p.name == "mine"] == ["mine"]


def test_annotation(minirun: Program) -> None:
    box = name()
    flags = ("--annotation", "com.example.key=a=b", "--annotation", "empty=")
    minirun("run", "-d", "--name", box, *flags, "busybox", "sleep", "100")
    annotations = json.loads(minirun("state", box).stdout)["annotations"]
    assert annotations["com.example.key"] == "a=b"
    assert annotations["empty"] == ""
    done = minirun("run", "--rm", "--annotation", "novalue", "busybox", "true")
    assert done.returncode == 125
    assert "invalid --annotation 'novalue'" in done.stderr


def test_pid_file(minirun: Program, tmp_path: Path) -> None:
    box = name()
    minirun("run", "-d", "--name", box, "--pid-file", f"{tmp_path}/pid", "busybox", "sleep", "100")
    pid = int((tmp_path / "pid").read_text())
    assert pid == json.loads(minirun("state", box).stdout)["pid"]
    assert Path(f"/proc/{pid}/cmdline").read_text() == "sleep\x00100\x00"
    done = minirun("run", "--pid-file", "/nosuch/pid", "busybox", "true")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    listed = minirun("ps", "-a", "--format", "{{.Names}}").stdout
    assert listed == f"{box}\n", "the one that failed is gone"


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [("-i",), ("--rm", "-i"), ("--rm", "--interactive")])
def test_interactive(minirun: Program, flags: tuple[str, ...]) -> None:
    text = "line\n" * 50_000
    done = minirun("run", *flags, "busybox", "cat", input=text)
    assert done.stdout == text


def test_not_interactive(minirun: Program) -> None:
    assert output(minirun, "busybox", "cat", input="nobody reads this") == ""


def stages(text: str) -> list[tuple[int, str]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return [(row["stage"], row["kind"]) for row in rows if row["kind"] in ("begin", "end")]


def test_log_json(minirun: Program, tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ("--log", str(log), "--log-format", "json")
    output(minirun, *flags, "busybox", "true")
    expected = [(stage, edge) for stage in (1, 2, 3, 6, 7) for edge in ("begin", "end")]
    assert stages(log.read_text()) == expected
    output(minirun, *flags, "busybox", "true")
    assert stages(log.read_text()) == expected * 2, "a second run is appended"
    assert {json.loads(line)["actor"] for line in log.read_text().splitlines()} >= {
        "runtime", "init",
    }  # fmt: skip


def test_log_text(minirun: Program, tmp_path: Path) -> None:
    log = tmp_path / "log"
    output(minirun, "--log", str(log), "busybox", "true")
    text = log.read_text()
    for word in ("clone3", "pivot_root", "overlay", "runtime", "init"):
        assert word in text
    assert "\033" not in text, "no colours in a file"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_of_an_error(minirun: Program, tmp_path: Path, log_format: str) -> None:
    """The line that engines look for; of `run IMAGE`, as of any command."""
    log = tmp_path / "log"
    done = subprocess.run(
        minirun.argv("--log", str(log), "--log-format", log_format, "state", "nosuch"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = log.read_text().splitlines()
    if log_format == "json":
        row = json.loads(line)
        assert row["level"] == "error"
        assert "container 'nosuch' does not exist" in row["msg"]
    else:
        assert re.match(r"time=\S+ level=error msg=\"container 'nosuch' does not exist", line)


def test_log_that_cannot_be_written(minirun: Program) -> None:
    for log_format in ("text", "json"):
        flags = ("--log", "/nosuch/log", "--log-format", log_format)
        done = minirun("run", *flags, "busybox", "true")
        assert done.returncode == 125
        assert done.stderr.count("\n") == 1
        assert "/nosuch/log" in done.stderr
    for command in (("list",), ("run", "busybox", "true")):
        argv = [minirun.path, "--log", "/nosuch/log", *command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr == "minirun: --log /nosuch/log: no such file or directory\n"
    assert minirun("ps", "-aq").stdout == ""


def test_progress_and_quiet(minirun: Program) -> None:
    done = minirun("run", "--rm", "--progress", "plain", "busybox", "echo", "output")
    assert done.stdout == "output\n"
    assert "\033" not in done.stderr
    for stage in (1, 2, 3, 6, 7):
        assert re.search(rf"^Stage {stage}, (runtime|init): .*\.$", done.stderr, re.MULTILINE)
    lanes = minirun("run", "--rm", "--progress", "lanes", "busybox", "true", env={"LC_ALL": "C"})
    assert "ms |<------- RUN_HOOKS -------+" in lanes.stderr
    for flags in (("--progress", "plain", "-q"), ("--progress", "quiet"), ()):
        assert minirun("run", "--rm", *flags, "busybox", "true").stderr == ""


# --- limits ------------------------------------------------------------------------------------


def limit(minirun: Program, flags: tuple[str, ...], v1: str, v2: str) -> str:
    """A file of the container's own cgroup, as it sees it: version 1's or version 2's."""
    script = f"cat /sys/fs/cgroup/{v1} 2>/dev/null || cat /sys/fs/cgroup/{v2}"
    return output(minirun, *flags, *SHELL, script).strip()


@pytest.mark.parametrize(
    ("text", "size"),
    [("64m", 64 << 20), ("65536k", 64 << 20), ("67108864", 64 << 20), ("1g", 1 << 30),
     ("64MiB", 64 << 20), ("67108864b", 64 << 20), ("1.5g", 3 << 29), ("62.5 MB", 125 << 19),
     ("0.0625g", 1 << 26), (".125G", 1 << 27)],
)  # fmt: skip
def test_memory(minirun: Program, text: str, size: int) -> None:
    for flag in ("-m", "--memory"):
        found = limit(minirun, (flag, text), "memory/memory.limit_in_bytes", "memory.max")
        assert int(found) == size


def test_above_the_memory_limit(minirun: Program) -> None:
    """The out-of-memory killer takes the command, and the status is docker's for SIGKILL."""
    done = minirun("run", "--rm", "-m", "24m", "busybox", "tail", "/dev/zero")
    assert done.returncode == 137


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("-m", "6291455"), "6m or more"),
        (("--memory-reservation", "5m"), "6m or more"),
        (("--cpus", f"{CPUS}.01"), f"from 0.01 to {CPUS}"),
        (("-u", "2147483648"), "0-2147483647"),
        (("-u", "0:2147483648"), "0-2147483647"),
        (("--group-add", "2147483648"), "0-2147483647"),
    ],
)
def test_what_docker_refuses(minirun: Program, flags: tuple[str, ...], hint: str) -> None:
    done = minirun("run", "--rm", *flags, "busybox", "true")
    assert done.returncode == 125
    assert hint in done.stderr and done.stderr.count("\n") == 1
    assert minirun("ps", "-aq").stdout == ""


def test_what_docker_still_takes(minirun: Program) -> None:
    flags = ("-m", "6m", "--cpus", str(CPUS), "-u", "2147483647:2147483647")
    assert minirun("run", "--rm", *flags, "busybox", "id", "-u").stdout == "2147483647\n"


@pytest.mark.parametrize(("text", "quota"), [("1", 100_000), ("0.5", 50_000), ("1.25", 125_000)])
def test_cpus(minirun: Program, text: str, quota: int) -> None:
    found = limit(minirun, ("--cpus", text), "cpu/cpu.cfs_quota_us", "cpu.max")
    assert int(found.split()[0]) == quota


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--ulimit", "nofile=100:200"), "100 200"), (("--ulimit", "nofile=50"), "50 50"),
        (("--ulimit", "nofile=9", "--ulimit", "nofile=7:8"), "7 8"),
    ],
)  # fmt: skip
def test_ulimit(minirun: Program, flags: tuple[str, ...], expected: str) -> None:
    assert output(minirun, *flags, *SHELL, "echo $(ulimit -Sn) $(ulimit -Hn)") == f"{expected}\n"


def test_ulimit_of_none(minirun: Program) -> None:
    rows = json.loads(minirun("spec", "--ulimit", "core=-1", "busybox").stdout)["process"][
        "rlimits"
    ]
    assert rows == [{"type": "RLIMIT_CORE", "soft": 2**64 - 1, "hard": 2**64 - 1}]
    script = "ulimit -c"
    assert output(minirun, "--ulimit", "core=-1", *SHELL, script) == "unlimited\n"


def test_pids_limit(minirun: Program) -> None:
    assert limit(minirun, ("--pids-limit", "7"), "pids/pids.max", "pids.max") == "7"
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; echo all"
    done = minirun("run", "--rm", "--pids-limit", "5", *SHELL, script)
    assert "all" not in done.stdout
    assert "fork" in done.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--memory", "much"), "invalid --memory 'much'"),
        (("--memory", "1x"), "invalid --memory '1x'"),
        (("--memory", "-1"), "invalid --memory '-1'"),
        (("--memory", "1.5.2g"), "invalid --memory '1.5.2g'"),
        (("--memory", "."), "invalid --memory '.'"),
        (("--memory", "1  g"), "invalid --memory '1  g'"),
        (("--memory", "9" * 5000), "invalid --memory '999"),
        (("--memory", "1e3"), "invalid --memory '1e3'"),
        (("--memory", "١m"), "invalid --memory"),
        (("--cpus", "many"), "invalid --cpus 'many'"),
        (("--cpus", "0.001"), "invalid --cpus '0.001'"),
        (("--cpus", "1e3"), "invalid --cpus '1e3'"),
        (("--pids-limit", "1.5"), "invalid --pids-limit '1.5'"),
        (("--pids-limit", "x"), "invalid --pids-limit 'x'"),
        (("--network", "bridg"), "network bridg not found"),
        (("--uidmap", "0:1"), "invalid --uidmap '0:1'"),
        (("--uidmap", "0:0:0"), "invalid --uidmap '0:0:0'"),
        (("--uidmap", "0:4294967295:2"), "invalid --uidmap"),
        (("--gidmap", "a:b:c"), "invalid --gidmap"),
        (("--device", "/nosuch"), 'error gathering device information: "/nosuch"'),
        (("--device", "/etc/apt"), "/etc/apt has no device node"),
        (("--device", "/dev/null:/dev/x:z"), "invalid --device"),
        (("--cap-drop", "MAGIC"), "unknown capability 'MAGIC'"),
        (("-e", "=x"), "invalid environment variable"),
        (("--ulimit", "files=1"), "invalid --ulimit type: 'files'"),
        (("--ulimit", "nofile"), "invalid --ulimit 'nofile'"),
        (("--ulimit", "nofile=many"), "invalid --ulimit 'nofile=many'"),
        (("--ulimit", "nofile=1:2:3"), "invalid --ulimit 'nofile=1:2:3'"),
        (("--ulimit", "nofile=-1:9"), "the soft limit is above the hard limit"),
        (("--ulimit", "nofile=9:8"), "the soft limit is above the hard limit"),
        (("--ulimit", f"nofile={1 << 64}"), f"each at most {(1 << 64) - 1}"),
        (("--log-format", "xml"), "invalid --log-format 'xml'"),
        (("--keep",), "--keep: no effect without --bundle (run --bundle DIR ID)"),
        (("--no-pivot", "--preserve-fds", "1"), "--no-pivot, --preserve-fds: no effect without"),
    ],
)
def test_values_that_are_none(minirun: Program, flags: tuple[str, ...], text: str) -> None:
    done = minirun("run", "--rm", *flags, "busybox", "true")
    assert done.returncode == 125
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert minirun("ps", "-aq").stdout == ""
