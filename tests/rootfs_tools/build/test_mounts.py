"""RUN --mount=type=bind|cache|secret|ssh and here-documents: what a step sees, what is left."""

import hashlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import STORE, Program, wait_until
from required import installed
from rootfs_tools.archives.saving import SavedSource, collected
from rootfs_tools.dockerfile.cache import BUILDS
from rootfs_tools.draft import MEMORY
from rootfs_tools.take import take
from tests.rootfs_tools.build.conftest import build
from tests.rootfs_tools.build.test_build import refused, show

SECRET = "s3cr3t-" + hashlib.sha256(os.urandom(8)).hexdigest()
BIND = """FROM base AS other
RUN mkdir -p /t/in && echo tool > /t/in/tool && ln -s in/tool /t/link && ln -s /etc /t/host && \\
    chown -R 5:6 /t && chmod 750 /t
FROM base
RUN --mount=type=bind,target=/c ls -A /c > /context; echo 2>/dev/null >/c/x || echo ro >> /context
RUN --mount=source=app,target=app,rw echo mine > /app/new && cat /app/one /app/new > /written
RUN --mount=type=bind,from=other,src=/t,dst=/o ls -ldn /o | cut -c1-10 > /o1; cat /o/link >> /o1
RUN --mount=from=other,source=t/link,target=/bin/tool cat /bin/tool > /o2
RUN --mount=from=busybox,source=/bin/busybox,target=/bin/busybox2 busybox2 echo bb > /o3
"""
HEREDOCS = """FROM base
ENV NAME=world
ARG V=v1.2.3
RUN <<EOF
set -e
echo "$NAME ${V#v}" > /one
# a comment of the shell's
EOF
RUN <<two
#!/bin/sh
echo "$0" > /two
two
RUN cat <<-a > /three && cat <<'b' >> /three
\thello $NAME
\ta
hello $NAME
b
COPY --chmod=u=rwx,go= --chown=5:6 <<four <<"five" /texts/
hello $NAME 'q' \\$NAME
four
hello $NAME
five
USER 5
RUN <<EOF
id -u > /tmp/six
EOF
"""


@pytest.fixture
def filled(context: Path) -> Path:
    (context / "app/in").mkdir(parents=True)
    (context / "app/one").write_text("1\n")
    (context / "app/in/two.md").write_text("2\n")
    (context / "out").symlink_to("/etc/shadow")
    (context / "up").symlink_to("..")
    (context / "hidden").write_text("h")
    (context / ".dockerignore").write_text("hidden\nDockerfile\n.dockerignore\n")
    return context


def left(program: Program) -> list[str]:
    """Return what a build has left of its own."""
    store = Path(program.store)
    drafts = [path.name for path in (store / BUILDS).glob(".draft-*")]
    return [*program.left(), *drafts, *everywhere(Path(MEMORY))]


def test_binds(builder: Program, filled: Path) -> None:
    build(builder, filled, BIND, "-t", "x")
    script = (
        "cat /context /written /o1 /o2 /o3; ls -d /c /app /o /bin/tool /bin/busybox2 2>/dev/null"
    )
    said = show(builder, "x", f"{script}; true").splitlines()
    assert said == ["app", "out", "up", "ro", "1", "mine", "drwxr-x---", "tool", "tool", "bb"]
    assert sorted(os.listdir(filled / "app")) == ["in", "one"], "what a step writes is gone"
    assert left(builder) == []


@pytest.mark.parametrize("source", ["out", "up/etc", "up", "app/../../x", "/proc/self"])
@pytest.mark.parametrize("origin", ["", ",from=hostile"])
def test_a_bind_leads_nowhere_else(
    builder: Program, filled: Path, source: str, origin: str
) -> None:
    """Links of the context, and of a stage, are followed inside of it."""
    text = "FROM base AS hostile\nRUN ln -s /proc/1/root/etc/shadow /out; ln -s ../../.. /up\n"
    text += f"FROM base\nRUN --mount=source={source}{origin},target=/m "
    shown = "ls -lL /m > /seen; cat /m/shadow /m >> /seen 2>/dev/null; true"
    (filled / "Dockerfile").write_text(text + shown)
    done = builder("build", "-t", "x", str(filled))
    shadow = Path("/etc/shadow").read_text().splitlines()[0]
    assert shadow not in done.stdout + done.stderr
    if done.returncode == 0:
        assert shadow not in show(builder, "x", "cat /seen")
    else:
        assert "not found" in done.stderr or "forbidden path" in done.stderr, done.stderr
    assert left(builder) == []


def test_a_step_is_done_again_if_what_it_binds_has_changed(builder: Program, filled: Path) -> None:
    text = (
        "FROM base AS other\nCOPY app/one /t/one\nFROM base\n"
        "RUN --mount=source=app,target=/m cat /m/one > /1\n"
        "RUN --mount=from=other,source=/t,target=/m cat /m/one > /2\n"
    )
    assert build(builder, filled, text, "-t", "x").count("using cache") == 0
    (filled / "hidden").write_text("it is left out")
    os.utime(filled / "app/one", (1, 1))
    assert build(builder, filled, text, "-t", "x").count("using cache") == 3
    (filled / "app/one").write_text("new\n")
    assert build(builder, filled, text, "-t", "x").count("using cache") == 0
    assert show(builder, "x", "cat /1 /2") == "new\nnew\n"


def test_a_cache_that_begins_with_something(builder: Program, filled: Path) -> None:
    text = (
        "FROM base AS other\nRUN mkdir -m 750 /t && echo 1 > /t/n && chown -R 5:6 /t\nFROM base\n"
        "RUN --mount=type=cache,from=other,source=/t,target=/m,id=c \\\n"
        "  ls -ldn /m | cut -c1-10 > /1; cat /m/n >> /1; echo 2 >> /m/n\n"
        "RUN --mount=type=cache,from=other,source=/t,target=/else,id=c cat /else/n > /2\n"
        "RUN --mount=type=cache,target=/m,id=c ls -A /m > /3\n"
    )
    build(builder, filled, text, "-t", "x")
    assert show(builder, "x", "cat /1 /2 /3") == "drwxr-x---\n1\n1\n2\n"
    again = text.replace("cat /m/n >> /1", "cat /m/n >> /1;:")
    build(builder, filled, again, "-t", "x")
    assert show(builder, "x", "cat /1") == "drwxr-x---\n1\n2\n", "it stays from build to build"
    assert left(builder) == []


def test_a_mount_behind_a_link_of_the_image_leaves_nothing(
    builder: Program, filled: Path, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text(SECRET)
    text = (
        "FROM base\nRUN mkdir -p /var && ln -s /new/place /var/link\n"
        "RUN --mount=type=secret,id=s,target=/var/link/key wc -c < /new/place/key > /n\n"
    )
    build(builder, filled, text, "-t", "x", "--secret", f"id=s,src={tmp_path}/s")
    assert show(builder, "x", "cat /n; ls -d /new || true") == f"{len(SECRET)}\n"


def test_here_documents(builder: Program, filled: Path) -> None:
    build(builder, filled, HEREDOCS, "-t", "x")
    said = show(builder, "x", "cat /one /two /three /texts/four /texts/five /tmp/six")
    assert said.splitlines() == [
        "world 1.2.3", "/dev/pipes/two", "hello world", "hello $NAME", "hello world 'q' $NAME",
        "hello $NAME", "5",
    ]  # fmt: skip
    script = "stat -c '%a %u %g' /texts/four; stat -c '%a' /texts/five"
    assert show(builder, "x", script) == "700 5 6\n700\n"
    assert 'echo "$NAME ${V#v}" > /one' in builder("history", "--no-trunc", "x").stdout
    changed = HEREDOCS.replace("set -e", "set -eu")
    assert build(builder, filled, changed, "-t", "x").count("using cache") == 0


SECRETS = """FROM base
RUN --mount=type=secret,id=file cd /run/secrets; stat -c '%a %u' file > /1; wc -c < file >> /1
RUN --mount=type=secret,id=file,target=/root/.key,mode=0440,uid=5,gid=6 \\
    stat -c '%a %u %g' /root/.key > /2
RUN --mount=type=secret,id=var,env=TOKEN echo ${#TOKEN} > /3; ls /run/secrets 2>&- >> /3; true
RUN --mount=type=secret,id=named wc -c < /run/secrets/named > /4
RUN --mount=type=secret,id=missing test ! -e /run/secrets/missing
RUN --mount=type=secret,id=file grep ' /run/secrets/file ' /proc/self/mounts | grep -q 'tmpfs ro,'
RUN --mount=type=secret,id=file echo x 2>/dev/null > /run/secrets/file || echo ro > /5
"""


def everywhere(*folders: Path) -> list[str]:
    """Return the files that have the secret in them, plain."""
    argv = ["grep", "-rlaF", SECRET, *map(str, folders)]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.splitlines()


def test_secrets_are_seen_by_the_step_and_land_nowhere(
    builder: Program, filled: Path, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "secret").write_text(SECRET)
    (filled / "Dockerfile").write_text(SECRETS)
    flags = ("--secret", f"id=file,src={given}/secret", "--secret", "id=var,env=A_TOKEN")
    argv = ("build", "-t", "x", *flags, "--secret", "id=named", "--no-cache", str(filled))
    done = builder(*argv, env={"A_TOKEN": SECRET, "named": SECRET})
    assert done.returncode == 0, done.stderr
    length = str(len(SECRET))
    said = show(builder, "x", "cat /1 /2 /3 /4 /5; ls -A /run /root").split()
    assert said[:9] == ["400", "0", length, "440", "5", "6", length, length, "ro"]
    assert not {"secrets", ".key"} & set(said)
    saved = builder("save", "-o", str(tmp_path / "x.tar"), "x")
    assert saved.returncode == 0
    (tmp_path / "said").write_text(done.stdout + done.stderr + str(builder.events()))
    for number, name in enumerate(sorted({event["id"] for event in builder.events()})):
        picture = str(tmp_path / f"{number}.svg")
        assert builder("timeline", name, "--svg", picture).returncode == 0
        page = str(tmp_path / f"{number}.html")
        assert builder("timeline", name, "--html", page).returncode == 0
    assert list(tmp_path.glob("*.svg"))
    assert everywhere(tmp_path) == [str(given / "secret")], "no layer, history, log or picture"
    assert left(builder) == []


def test_a_secret_is_not_on_a_disk_while_a_step_runs(
    builder: Program, filled: Path, tmp_path: Path
) -> None:
    """And a build that is killed leaves none: the next one, or `image gc`, takes it away."""
    (tmp_path / "given").write_text(SECRET)
    text = "FROM base\nRUN --mount=type=secret,id=s echo started; sleep 60\n"
    (filled / "Dockerfile").write_text(text)
    argv = ("build", "-t", "x", "--secret", f"id=s,src={tmp_path}/given", str(filled))
    process = builder.start(*argv, start_new_session=True)
    assert process.stdout
    wait_until(lambda: "started" in process.stdout.readline())
    assert everywhere(tmp_path) == [str(tmp_path / "given")]
    assert len(everywhere(Path("/dev/shm"))) == 1
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until(lambda: builder("gc").returncode == 0 and builder.left() == [])
    assert builder("image", "gc").returncode == 0
    assert left(builder) == []


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("id=x,src=/none", "--secret: /none: no such file"),
        ("id=x,env=NOT_SET", "--secret: the variable NOT_SET is not set"),
        ("src=/none", "--secret src=/none: not understood (id=ID,src=FILE or id=ID,env=NAME)"),
        ("id=x,src=/a,env=B", "not understood"),
        ("id=x,type=foo", "not understood"),
        ("id=x,src=/dev/zero", "--secret: /dev/zero: more than 512000 bytes"),
    ],
)
def test_secrets_that_cannot_be_read(builder: Program, filled: Path, flag: str, words: str) -> None:
    text = "FROM base\nRUN --mount=type=secret,id=x true\n"
    assert words in refused(builder, filled, text, "--secret", flag)
    assert left(builder) == []


@contextmanager
def short_folder() -> Iterator[Path]:
    """Yield a folder whose path leaves room for a socket's name: unix(7), 108 bytes."""
    folder = Path("/tmp") / f"mra-{os.urandom(4).hex()}"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.fixture
def agent() -> Iterator[tuple[str, list[bytes]]]:
    """A socket that answers with what it is sent, backwards; and what that was."""
    got: list[bytes] = []
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "agent"))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                with one:
                    got.append(one.recv(100))
                    one.sendall(got[-1][::-1])

        threading.Thread(target=serve, daemon=True).start()
        yield str(folder / "agent"), got
        listening.shutdown(socket.SHUT_RDWR)


SSH = """FROM debian
COPY <<'EOF' /say
use Socket;
socket(my $one, PF_UNIX, SOCK_STREAM, 0) or die;
connect($one, sockaddr_un($ARGV[0])) or die "$ARGV[0]: $!";
syswrite($one, pack("H*", $ARGV[1]));
sysread($one, my $answer, 100);
print unpack("H*", $answer), "\\n";
EOF
RUN --mount=type=ssh echo $SSH_AUTH_SOCK > /1; perl /say $SSH_AUTH_SOCK 010203 >> /1
USER 5
RUN --mount=type=ssh,id=other,uid=5,mode=0600,target=/tmp/s perl /say /tmp/s 0a0b > /tmp/2
RUN --mount=type=ssh,id=real,uid=5,required perl /say $SSH_AUTH_SOCK 000000010b > /tmp/3
RUN --mount=type=ssh,id=none echo "[$SSH_AUTH_SOCK]" > /tmp/4
"""
"""To the real agent SSH_AGENTC_REQUEST_IDENTITIES (11) is said: draft-ietf-sshm-ssh-agent."""


def test_ssh_reaches_the_agents_that_are_named(
    builder: Program, filled: Path, agent: tuple[str, list[bytes]]
) -> None:
    """ssh-agent refuses other users: behind the build's own socket it is its owner that asks."""
    path, got = agent
    with collected(STORE, ["debian"]) as (image,):
        take(builder.store, "debian", SavedSource(image, "debian"))
    (filled / "Dockerfile").write_text(SSH)
    with short_folder() as folder:
        real = [installed("ssh-agent"), "-D", "-a", str(folder / "a")]
        with subprocess.Popen(real, stdout=subprocess.DEVNULL) as one:
            try:
                wait_until((folder / "a").exists)
                flags = ("--ssh", "default", "--ssh", f"other={path}", "--ssh", f"real={folder}/a")
                argv = ("build", "-t", "x", *flags, str(filled))
                done = builder(*argv, env={"SSH_AUTH_SOCK": path})
            finally:
                one.kill()
    assert done.returncode == 0, done.stderr
    said = show(builder, "x", "cat /1 /tmp/2 /tmp/3 /tmp/4; ls /run/buildkit 2>/dev/null; true")
    answer = "000000050c00000000"  # SSH_AGENT_IDENTITIES_ANSWER (12): no keys
    assert said.split() == ["/run/buildkit/ssh_agent.0", "030201", "0b0a", answer, "[]"]
    assert got == [b"\1\2\3", b"\x0a\x0b"]
    assert left(builder) == []


def test_without_the_flag_no_agent_is_reached(
    builder: Program, filled: Path, agent: tuple[str, list[bytes]]
) -> None:
    """The caller's own $SSH_AUTH_SOCK is not enough."""
    (filled / "Dockerfile").write_text("FROM base\nRUN --mount=type=ssh env > /env\n")
    done = builder("build", "-t", "x", str(filled), env={"SSH_AUTH_SOCK": agent[0]})
    assert done.returncode == 0, done.stderr
    assert "SSH_AUTH_SOCK" not in show(builder, "x", "cat /env")


def test_what_is_no_agent(builder: Program, filled: Path) -> None:
    text = "FROM base\nRUN --mount=type=ssh true\n"
    said = refused(builder, filled, text, "--ssh", f"default={filled}/Dockerfile")
    assert said.endswith("not the socket of an agent (keys are not read: ssh-add them)")


def test_killed_at_any_moment(builder: Program, filled: Path, tmp_path: Path) -> None:
    (tmp_path / "given").write_text(SECRET)
    (filled / "Dockerfile").write_text(BIND + "RUN --mount=type=secret,id=s sleep 0.1\n")
    argv = ("build", "--no-cache", "-t", "x", "--secret", f"id=s,src={tmp_path}/given", str(filled))
    start = time.monotonic()
    assert builder(*argv).returncode == 0
    seconds, chance = time.monotonic() - start, random.Random(4)
    for _ in range(10):
        process = builder.start(*argv)
        time.sleep(chance.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_until(lambda: builder("gc").returncode == 0 and builder.left() == [])
    assert builder("image", "gc").returncode == 0
    assert left(builder) == []
