"""Finding the container's command and becoming it."""

import errno
import json
import os
import subprocess
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Program
from minirun.core.errors import CommandError
from minirun.core.process import command


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH of two directories: a has x (not executable) and d/, b has x, y and a broken link."""
    for name in ("a/d", "b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/x").write_text("")
    for name in ("x", "y"):
        (tmp_path / "b" / name).write_text("")
        (tmp_path / "b" / name).chmod(0o755)
    (tmp_path / "a/only").write_text("")
    (tmp_path / "b/broken").symlink_to("/nosuch")
    return f"{tmp_path}/a:{tmp_path}/b"


def refused(name: str, path: str | None) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        command.find(name, {} if path is None else {"PATH": path})
    return caught.value.status, str(caught.value)


def test_a_program_is_looked_up_in_path(path: str, tmp_path: Path) -> None:
    assert command.find("y", {"PATH": path}) == f"{tmp_path}/b/y"


def test_one_that_may_not_be_executed_is_passed_over(path: str, tmp_path: Path) -> None:
    assert command.find("x", {"PATH": path}) == f"{tmp_path}/b/x"


def test_what_is_missing_is_127_and_what_is_refused_126(path: str) -> None:
    """runc's words: docker derives its exit status from them."""
    missing = "executable file not found in $PATH"
    assert refused("nosuch", path) == (127, f'exec: "nosuch": {missing}')
    assert refused("broken", path) == (127, f'exec: "broken": {missing}')
    assert refused("only", path) == (126, 'exec: "only": permission denied')
    assert refused("d", path) == (126, 'exec: "d": permission denied')


def test_a_name_with_a_slash_is_taken_as_it_is(path: str, tmp_path: Path) -> None:
    assert command.find(f"{tmp_path}/b/x", {"PATH": "/nosuch"}) == f"{tmp_path}/b/x"
    name = f"{tmp_path}/nosuch"
    assert refused(name, path) == (127, f'exec: "{name}": stat {name}: no such file or directory')
    name = f"{tmp_path}/a/x"
    assert refused(name, path) == (126, f'exec: "{name}": permission denied')
    name = f"{tmp_path}/a"
    assert refused(name, path) == (126, f'exec: "{name}": permission denied: is a directory')
    name = f"{tmp_path}/b/x/below"
    assert refused(name, path) == (127, f'exec: "{name}": stat {name}: not a directory')


def test_without_path_the_usual_one(path: str) -> None:
    assert command.find("sh", {}) in ("/usr/bin/sh", "/bin/sh")
    assert refused("sh", "/nosuch")[0] == 127


def test_an_empty_part_is_the_working_directory(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "b")
    for text in ("", ":/nosuch", "/nosuch:", "/nosuch::/nosuch"):
        assert command.find("y", {"PATH": text}) == "./y"


def test_permission_is_the_users_and_not_roots(path: str, tmp_path: Path) -> None:
    """It is asked after setuid: a directory that the user may not enter refuses, with 126."""
    (tmp_path / "b").chmod(0o700)
    for parent in [tmp_path, *tmp_path.parents][:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        try:
            command.find(f"{tmp_path}/b/y", {})
        except CommandError as error:
            os._exit(error.status)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 126


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [(2, 127, "no such file or directory"), (13, 126, "permission denied"),
     (8, 126, "exec format error"), (7, 126, "argument list too long")],
)  # fmt: skip
def test_refusals_of_execve(code: int, status: int, text: str) -> None:
    error = command.refusal(code, "/x")
    assert (error.status, str(error)) == (status, f"exec /x: {text}")


@pytest.mark.parametrize(
    "number", [b"", b"\2", b"\2\0\0\0\0", b"\xff" * 4, b"\xff" * 99_999, bytes(4)]
)
def test_a_forged_refusal_is_an_error(number: bytes) -> None:
    """The container may have got hold of the FIFO; strerror takes no int of any length."""
    error = command.failure_from(b"/x\0" + number)
    assert (error.status, str(error)) == (125, "handshake: unexpected '/x'")


def test_the_one_reader_of_a_last_message() -> None:
    refused = command.failure_from(b"/x\0\2\0\0\0")
    assert (refused.status, str(refused)) == (127, "exec /x: no such file or directory")
    sent = command.failure_from(b'ERROR {"text": "a", "hint": "b", "status": 7}')
    assert (sent.status, str(sent), sent.hint) == (7, "a", "b")


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        ("#!/nosuch\n", 127, "exec /x: no such file or directory"),
        ("#!/etc/passwd\n", 126, "exec /x: permission denied"),
        ("neither script nor program\n", 126, "exec /x: exec format error"),
        ("", 126, "exec /x: exec format error"),
    ],
)
def test_what_execve_refuses(
    minirun: Program, tmp_path: Path, content: str, status: int, text: str
) -> None:
    (tmp_path / "x").write_text(content)
    (tmp_path / "x").chmod(0o755)
    done = minirun("run", "--rm", "-v", f"{tmp_path}/x:/x", "busybox", "/x")
    assert done.returncode == status
    assert done.stderr == f"minirun: {text}\n"
    assert minirun("ps", "-aq").stdout == ""


@pytest.mark.parametrize("how", ["run", "exec", "start"])
def test_what_execve_refuses_is_named_by_its_path(
    minirun: Program, layer: Path, tmp_path: Path, how: str
) -> None:
    """runc's words: `exec /usr/bin/nvidia-smi: …`, when $PATH had it and its loader is missing."""
    (tmp_path / "x").write_text("#!/nosuch\n")
    (tmp_path / "x").chmod(0o755)
    words = ("-v", f"{tmp_path}/x:/usr/bin/x", "-e", "PATH=/nosuch:/usr/bin:/bin")
    if how == "run":
        done = minirun("run", "--rm", *words, "busybox", "x")
    elif how == "exec":
        minirun("run", "-d", "--name", "c", *words, "busybox", "sleep", "60")
        done = minirun("exec", "c", "x", "-l")
        assert minirun("exec", "c", "echo", "ok").stdout == "ok\n"
    else:
        document = json.loads(minirun("spec", *words, "busybox").stdout)
        document["process"] |= {"args": ["x"], "terminal": False}
        document["root"]["path"] = str(layer)
        (tmp_path / "config.json").write_text(json.dumps(document))
        create = minirun.argv("create", "--bundle", str(tmp_path), "c")
        nothing = subprocess.DEVNULL
        subprocess.run(create, stdin=nothing, stdout=nothing, stderr=nothing, check=True)
        done = minirun("start", "c")
    text = "minirun: exec /usr/bin/x: no such file or directory\n"
    assert (done.returncode, done.stderr) == (1 if how == "start" else 127, text)


def test_arguments_and_environment_arrive_as_they_are(minirun: Program) -> None:
    script = "tr '\\0' '\\n' < /proc/$$/cmdline; echo --; tr '\\0' '\\n' < /proc/$$/environ; true"
    name = f"env-{uuid.uuid4().hex[:8]}"
    given = ["sh", "-c", script, "", "two words", "é", "--rm", "new\nline"]
    own = ("--hostname", name, "-e", "A=x=y", "-e", "A=2")
    done = minirun("run", "--rm", *own, "busybox", *given)
    assert done.stdout == "\n".join(
        [*given, "--", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
         f"HOSTNAME={name}", "A=2", "HOME=/root", ""]
    )  # fmt: skip


def test_the_command_has_three_descriptors_and_is_itself(minirun: Program) -> None:
    """Neither a descriptor of the runtime nor the trampoline is left."""
    script = "readlink /proc/$$/exe; cd /proc/$$/fd; echo *; echo $$"
    leaked = os.open("/etc", os.O_RDONLY)
    done = minirun("run", "--rm", "busybox", "sh", "-c", script, pass_fds=(leaked,))
    os.close(leaked)
    assert done.stdout == "/bin/busybox\n0 1 2 3\n1\n", done.stderr  # 3: what `echo *` reads


def test_preserved_descriptors(minirun: Program, tmp_path: Path, layer: Path) -> None:
    """Descriptors 3 and on, as many as are asked for, and no more."""
    script = "cat <&3; echo through >&4; cd /proc/$$/fd; echo *"
    spec = minirun("spec", "busybox", "sh", "-c", script).stdout
    (tmp_path / "config.json").write_text(spec)
    (tmp_path / "in").write_text("read\n")
    name = f"fds-{uuid.uuid4().hex[:8]}"
    shell = f'exec "$@" 3< {tmp_path}/in 4> {tmp_path}/out 5< /etc/passwd'
    argv = minirun.argv("run", "--bundle", str(tmp_path), "--preserve-fds", "2", name)
    done = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *argv], capture_output=True, text=True, check=False
    )
    assert done.stdout == "read\n0 1 2 3 4 5\n", done.stderr  # 5: what `echo *` reads
    assert (tmp_path / "out").read_text() == "through\n"


@pytest.mark.parametrize("count", ["x", "-1", "1.5", "99999"])
def test_a_count_of_descriptors_that_is_none(
    minirun: Program, tmp_path: Path, layer: Path, count: str
) -> None:
    spec = minirun("spec", "busybox", "true").stdout
    (tmp_path / "config.json").write_text(spec)
    done = minirun("run", "-b", str(tmp_path), "--preserve-fds", count, "c1")
    assert done.returncode == 1
    assert done.stderr.startswith("minirun: invalid --preserve-fds")
    assert done.stderr.count("\n") == 1


def test_every_failure_of_execve_is_reported() -> None:
    """A NUL is no OSError, and once ended init without a word: `start` called that a success."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        config: Any = SimpleNamespace(process={"args": ["a"]}, environment={"HOME": "/a\0b"})
        command.execute(config, os.memfd_create("x"), 0, write_fd, "/a", None)
    os.close(write_fd)
    with open(read_fd, "rb") as file:
        path, _, number = file.read().partition(b"\0")
    assert (path, int.from_bytes(number, "little")) == (b"/a", errno.EINVAL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 126
