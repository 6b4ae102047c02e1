"""`minirun build` by itself: its cache, its errors, what it leaves, and who it may not reach."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import Program, wait_until
from rootfs_tools.dockerfile.cache import BUILDS
from rootfs_tools.gc import collect
from tests.rootfs_tools.build.conftest import build


def show(program: Program, name: str, script: str) -> str:
    done = program("run", "--rm", name, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(program: Program, folder: Path, text: str, *flags: str) -> str:
    """Return the one line that a build fails with."""
    (folder / "Dockerfile").write_text(text)
    done = program("build", "-t", "x", *flags, str(folder))
    assert done.returncode == 1
    assert program.left() == []
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("minirun: ")
    return lines[-1].removeprefix("minirun: ")


def test_what_was_built_is_not_built_again(builder: Program, context: Path) -> None:
    (context / "file").write_text("1")
    text = "FROM base\nRUN echo ran\nCOPY file /file\nRUN cat /file > /copy\nLABEL a=b\n"
    first = build(builder, context, text, "-t", "x")
    assert first.count("using cache") == 0
    assert "ran\n" in first
    os.utime(context / "file", (1, 1))
    again = build(builder, context, text, "-t", "x")
    assert again.count("using cache") == 3
    assert again.splitlines()[-1] == first.splitlines()[-1], "the same image, to its digest"
    (context / "file").write_text("2")
    assert build(builder, context, text, "-t", "x").count("using cache") == 1
    assert show(builder, "x", "cat /copy") == "2"
    assert build(builder, context, text, "-t", "x", "--no-cache").count("using cache") == 0
    other = text.replace("FROM base", "FROM busybox")
    assert build(builder, context, other, "-t", "x").count("using cache") == 0


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore", "d.dockerignore"])
def test_no_link_of_the_context_leads_out_of_it(
    builder: Program, context: Path, tmp_path: Path, name: str
) -> None:
    """An error quotes a line of what is read: it once was one of the host's /etc/shadow."""
    secret = tmp_path / "secret"
    secret.write_text("root:[secret\n")
    (context / "Dockerfile").write_text("FROM base\n")
    (context / "d").write_text("FROM base\n")
    (context / name).unlink(missing_ok=True)
    (context / name).symlink_to(secret)
    flags = ("-f", str(context / "d")) if name.startswith("d.") else ()
    done = builder("build", "-t", "x", *flags, str(context))
    assert "secret" not in done.stderr
    assert done.returncode == (1 if name == "Dockerfile" else 0), done.stderr
    (context / name).unlink()
    os.mkfifo(context / name)
    done = builder("build", "-t", "x", *flags, str(context), timeout=30)
    assert done.returncode == 1 and "not a regular file" in done.stderr


def test_a_link_inside_of_the_context_is_followed(builder: Program, context: Path) -> None:
    (context / "real").write_text("FROM base\n")
    (context / "Dockerfile").symlink_to("/real")
    assert builder("build", "-t", "x", str(context)).returncode == 0


def test_an_argument_is_part_of_the_cache_of_run(builder: Program, context: Path) -> None:
    text = "FROM base\nARG WHAT=a\nRUN echo $WHAT > /what\n"
    build(builder, context, text, "-t", "x")
    assert show(builder, "x", "cat /what") == "a\n"
    found = build(builder, context, text, "-t", "x", "--build-arg", "WHAT=b")
    assert "using cache" not in found
    assert show(builder, "x", "cat /what") == "b\n"
    history = builder("history", "--no-trunc", "x").stdout
    assert "RUN |1 WHAT=b echo $WHAT > /what" in history


def test_stages_that_are_not_needed_are_left_out(builder: Program, context: Path) -> None:
    text = "FROM base AS a\nRUN echo 1 >/a\nFROM base AS b\nRUN false\nFROM a AS c\nRUN echo c\n"
    assert "RUN false" not in build(builder, context, text, "-t", "x")
    found = build(builder, context, text, "-t", "x", "--target", "a")
    assert "echo c" not in found
    assert "failed to reach build target z" in refused(builder, context, text, "--target", "z")
    early = "FROM base\nCOPY --from=later /x /x\nFROM base AS later\n"
    found = refused(builder, context, early, "--target", "0")
    assert found == "Dockerfile:2: --from=later: that stage is not built before this one"


def test_the_log_of_a_step_is_kept(builder: Program, context: Path) -> None:
    build(builder, context, "FROM base\nRUN true\n", "-t", "x")
    names = {event["name"] for event in builder.events()}
    assert {"clone3", "pivot_root"} <= names
    assert builder.left() == []


def test_a_step_leaves_nothing_of_the_runtimes(builder: Program, context: Path) -> None:
    (context / "Dockerfile").write_text(
        "FROM scratch\nCOPY --from=busybox /bin/busybox /bin/sh\n"
        'RUN ["/bin/sh", "-c", "echo $HOSTNAME > /made"]\n'
        "RUN --mount=type=cache,target=/deep/cache --mount=type=tmpfs,target=/t "
        '["/bin/sh", "-c", ":"]'
    )
    done = builder("build", "--network", "host", "-t", "x", str(context))
    assert done.returncode == 0, done.stderr
    saved = builder("save", "-o", str(context / "x.tar"), "x")
    assert saved.returncode == 0, saved.stderr
    found = set()
    with tarfile.open(context / "x.tar") as archive:
        for row in archive.getmembers():
            if row.name.endswith("/layer.tar"):
                content = archive.extractfile(row)
                assert content
                with tarfile.open(fileobj=io.BytesIO(content.read())) as layer:
                    found |= {member.name for member in layer.getmembers()}
    assert found == {"bin", "bin/sh", "made"}


def test_an_image_for_another_machine(builder: Program, context: Path) -> None:
    text = "FROM --platform=arm64 scratch\nARG TARGETARCH\nLABEL of=$TARGETARCH\nCOPY . /\n"
    build(builder, context, text, "-t", "x")
    found = json.loads(builder("image", "inspect", "x").stdout)[0]
    assert (found["Architecture"], found["Config"]["Labels"]) == ("arm64", {"of": "arm64"})


def test_a_pattern_beside_others_may_fit_nothing(builder: Program, context: Path) -> None:
    (context / "package.json").write_text("x")
    text = "FROM base\nCOPY --link package.json package-lock.json* /app/\n"
    text += "COPY none* also-none? /none/\nCOPY none* <<EOF /text/\nx\nEOF\n"
    build(builder, context, text, "-t", "x")
    assert show(builder, "x", "ls /app /text") == "/app:\npackage.json\n\n/text:\nEOF\n"


def test_no_network_unless_asked_for(builder: Program, context: Path) -> None:
    text = "FROM base\nRUN ls /sys/class/net > /net\n"
    build(builder, context, text, "-t", "x")
    assert show(builder, "x", "cat /net") == "lo\n"
    asked = "FROM base\nRUN --network=host true\n"
    assert "RUN --network=host: not allowed" in refused(builder, context, asked)
    failing = refused(builder, context, "FROM base\nRUN wget -q http://192.0.2.1/ || exit 4\n")
    assert failing.startswith('Dockerfile:2: process "/bin/sh -c wget')
    assert "exit code: 4 (this step has no network: --network bridge)" in failing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM base\n\nCOPY missing /x\n", "Dockerfile:3: missing: not found"),
        ("FROM base\nCOPY ../../etc/passwd /x\n", "2: forbidden path outside the build context"),
        ("FROM base\nRUN --mount=target=/x,src=../x true\n", "2: forbidden path outside the build"),
        ("FROM base\nRUN --mount=target=/x,src=none true\n", "2: none: not found"),
        ("FROM base\nRUN --mount=target=/x,src=f* true\n", "source=f*: a pattern, and not one"),
        ("FROM base\nRUN --mount=type=secret,id=x,required true\n", "2: secret x: not found"),
        ("FROM base\nRUN --mount=type=ssh,required true\n", "2: ssh agent default: not forwarded"),
        ("FROM base\nCOPY --parents none/x /y/\n", "2: none/x: not found"),
        ("FROM base\nCOPY --exclude=[ file /y/\n", "2: '[' is no pattern: syntax error"),
        ("FROM base\nCOPY --chmod=u+q file /y/\n", "--chmod=u+q: not a number from 0 to 7777, nor"),
        ("FROM base\nRUN touch /etc/.wh.passwd\n", "2: /etc/.wh.passwd: a layer holds no file"),
        ("FROM base\nRUN mkdir -p /a/.wh..wh..opq\n", "2: /a/.wh..wh..opq: a layer holds no file"),
        ("FROM base\nWORKDIR /etc/.wh.passwd\n", "2: /etc/.wh.passwd: a layer holds no file whose"),
        ("FROM base\nUSER no-such-user\nRUN true\n", "3: unable to find user no-such-user"),
        ("FROM base\nCOPY --chown=who . /x\n", "Dockerfile:2: unable to find user who"),
        ("FROM base\nRUN --mount=type=tmpfs,target=../.. true\n", "line 2: RUN --mount: invalid"),
        ("FROM base\nRUN --mount=type=cache,target=/proc true\n", "2: config.json: mounts["),
        ("FROM base\nRUN /none\n", "Dockerfile:2: process"),
        ("FROM base\nRUN --mount=type=cache,target=/c,uid=9999999999 true\n", "2: uid=9999999999"),
        ("FROM base\nCOPY --chmod=77777 file /\n", "2: --chmod=77777: not a number"),
        (f"FROM base\nCOPY --from={'9' * 5000} file /\n", "Dockerfile:2: "),
        ('FROM base\nCOPY ["\\ud800", "/x"]\n', "line 2: a NUL byte, or half of"),
        ("FROM base\nWORKDIR a\0b\n", "dockerfile parse error on line 2: a NUL byte"),
        ('FROM base\nRUN ["/none"]\n', "Dockerfile:2: exec: \"/none\": stat /none: no such file"),
        ("FROM base\nFOO bar\n", "dockerfile parse error on line 2: unknown instruction: FOO"),
        ("FROM scratch\nRUN true\n", "Dockerfile:2: RUN: there is nothing in the image yet"),
        ("FROM base\nCOPY file /usr\nCOPY folder /usr/file\n", "Dockerfile:3: /usr/file is a file"),
        ("FROM base\nCOPY file /usr\nCOPY over /usr\n", "cannot copy a directory over /usr/file"),
        ("FROM base\nCOPY none* /usr/\n", "Dockerfile:2: none*: not found"),
        ("FROM base\nCOPY none* missing /usr/\n", "Dockerfile:2: missing: not found"),
        ("FROM base\nCOPY file missing /usr/\n", "Dockerfile:2: missing: not found"),
        ("FROM base\nCOPY file /usr/share/deep/file/x\n", "/usr/share/deep/file is a file"),
        ("FROM base\nCOPY whiteout /\n", "Dockerfile:2: /.wh.x: a layer holds no file whose name"),
        ("FROM base\nADD hostile.tar /x\n", "Dockerfile:2: archive: '../../escaped'"),
    ],
)  # fmt: skip
def test_errors_name_the_line(builder: Program, context: Path, text: str, words: str) -> None:
    (context / "file").write_text("x")
    (context / "folder").mkdir()
    (context / "over/file").mkdir(parents=True)
    (context / "whiteout").mkdir()
    (context / "whiteout/.wh.x").touch()
    with tarfile.open(context / "hostile.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../../escaped"))
    assert words in refused(builder, context, text)
    assert [path.name for path in (builder_store(builder) / BUILDS).glob(".draft-*")] == []
    assert list((builder_store(builder) / "blobs/partial").iterdir()) == []


def builder_store(program: Program) -> Path:
    return Path(program.store)


EXCLUDE = """FROM base AS other
COPY . /src
FROM base
COPY --exclude=*.md --exclude=lib/two app /1/
COPY --exclude=**/*.md --exclude=!keep.md . /2/
COPY --exclude=*.md read.md keep.md app/m* /3/
ADD --exclude=* app /4/
COPY --from=other --exclude=lib /src/app /5/
COPY --parents app/lib/one app/main.md /6/
COPY --parents ./app/./lib app/**/one /7/
COPY --parents --exclude=app/lib/t* --from=other /src/./app/l*/* none* /8/
COPY --parents=false --exclude="a b" app /9/
"""


def test_exclude_and_parents(builder: Program, context: Path) -> None:
    """As docs.docker.com/reference/dockerfile has them; a file's own name counts too."""
    for name in ("app/main.md", "app/lib/one", "app/lib/two", "read.md", "keep.md", "app/a b"):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(name)
    (context / "app/lib").chmod(0o750)
    (context / "app/out").symlink_to("/etc")
    (context / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    build(builder, context, EXCLUDE, "-t", "x")
    script = (
        "for n in 1 2 3 4 5 6 7 8 9; do [ -d /$n ] && cd /$n && find . | tr '\\n' ' '; echo; done"
    )
    said = show(builder, "x", script)
    rows = [sorted(line.replace("./", "").split()) for line in said.splitlines()]
    assert rows == [
        sorted(words.split()) for words in (
            ". a b lib lib/one out",
            ". app app/a b app/lib app/lib/one app/lib/two app/out keep.md",
            "", ".", ". a b main.md out", ". app app/lib app/lib/one app/main.md",
            ". app app/lib app/lib/one lib lib/one lib/two", ". app app/lib app/lib/one",
            ". lib lib/one lib/two main.md out",
        )
    ]  # fmt: skip
    assert show(builder, "x", "stat -c %a /6/app/lib /7/lib /8/app/lib").split() == ["750"] * 3


def _archive(folder: Path, compress: Callable[[bytes], bytes], *, end: bool = True) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(folder, ".")
    data = stream.getvalue()
    used = len(data.rstrip(b"\0"))
    return compress(data if end else data[: used + -used % 512])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_an_archive_on_standard_input(
    builder: Program, context: Path, compress: Callable[[bytes], bytes]
) -> None:
    """`tar c . | docker build -`, as CI lines have it, with flags that have no effect here."""
    (context / "in").mkdir()
    (context / "in/file").write_text("here")
    (context / "left").write_text("out")
    (context / "link").symlink_to("/etc/shadow")
    (context / ".dockerignore").write_text("left\n")
    (context / "Dockerfile").write_text("FROM base\nCOPY . /x\n")
    (context / "in/Other").write_text("FROM base\nCOPY in/file /y\n")
    data = _archive(context, compress, end=compress is not bytes)
    flags = ("--rm", "--force-rm=false", "--load", "--progress", "plain", "--provenance=false")
    done = _with_input(
        builder, data, *flags, "--cache-from", "a", "--sbom", "false", "-t", "x", "-"
    )
    assert done.returncode == 0, done.stderr
    assert b"STEP 2/2: COPY . /x" in done.stdout
    assert show(builder, "x", "cd /x; ls; cat in/file; readlink link").split() == [
        "Dockerfile", "in", "link", "here/etc/shadow",
    ]  # fmt: skip
    done = _with_input(builder, data, "-q", "-t", "y", "-f", "in/Other", "-")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    assert show(builder, "y", "cat /y") == "here"
    assert [path.name for path in (builder_store(builder) / BUILDS).glob(".draft-*")] == []


def _with_input(builder: Program, data: bytes, *args: str) -> subprocess.CompletedProcess[bytes]:
    argv = builder.argv("build", *args)
    return subprocess.run(argv, input=data, capture_output=True, check=False, timeout=120)


def test_what_is_wrong_on_standard_input(builder: Program, context: Path) -> None:
    (context / "in").mkdir()
    (context / "Dockerfile").symlink_to("/etc/shadow")
    hostile = _archive(context, bytes)
    (context / "Dockerfile").unlink()
    empty = _archive(context, bytes)
    for data, flags, words in (
        (hostile, (), b"standard input: there is no Dockerfile"),
        (empty, (), b"standard input: there is no Dockerfile"),
        (empty, ("-f", "x/y"), b"standard input: there is no x/y"),
        (empty, ("-f", "-"), b"-f -: standard input is the context"),
        (gzip.compress(empty)[:60], (), b"standard input is damaged"),
        (b"", (), b"no build stage"),
        (b"FROM base", ("-f", "x"), b"-f: there is no file beside a Dockerfile on standard input"),
        (b"FROM base\nCOPY x /\n", (), b"Dockerfile:2: x: not found"),
        (b"FROM base\n" * 10**6, (), b"more than 1048576 bytes"),
        (b"FROM base", ("--progress=loud",), b"invalid --progress 'loud'"),
        (b"FROM base", ("--provenance=mode=max",), b"invalid --provenance 'mode=max'"),
    ):
        done = _with_input(builder, data, *flags, "-t", "x", "-")
        assert done.returncode == 1, words
        assert words in done.stderr, done.stderr
    assert [path.name for path in (builder_store(builder) / BUILDS).glob(".draft-*")] == []


def test_a_link_of_the_context_leads_nowhere_else(builder: Program, context: Path) -> None:
    outside = context.parent / "outside"
    outside.write_text("secret")
    os.symlink("../outside", context / "up")
    os.symlink(str(outside), context / "absolute")
    os.symlink("/", context / "root")
    for source in ("up", "absolute", f"root{outside}"):
        assert "not found" in refused(builder, context, f"FROM base\nCOPY {source} /x\n")
    (context / "kept").mkdir()
    os.symlink(str(outside), context / "kept/link")
    build(builder, context, "FROM base\nCOPY kept /x\n", "-t", "x")
    assert show(builder, "x", "readlink /x/link").strip() == str(outside)


def test_standard_input_and_a_file_elsewhere(builder: Program, context: Path) -> None:
    done = builder("build", "-q", "-t", "x", "-", input="FROM base\nRUN echo loud\n")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("sha256:")
    (context / "inner").mkdir()
    (context / "inner/file").write_text("here")
    (context / "Other").write_text("FROM base\nCOPY file /\n")
    (context / "Other.dockerignore").write_text("file")
    argv = ("build", "-q", "-f", str(context / "Other"), str(context / "inner"))
    assert "file: not found" in builder(*argv).stderr
    (context / "Other.dockerignore").unlink()
    identity = context / "id"
    done = builder(*argv, "--iidfile", str(identity), "--label", "by=me")
    assert done.returncode == 0, done.stderr
    assert identity.read_text() == done.stdout.strip()
    assert "localhost/build" in builder("images", "--format", "{{.Repository}}").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), '"minirun build" requires exactly 1 argument'),
        (("ubuntu",), "minirun images build ubuntu makes it by its recipe"),
        (("/nowhere",), "unable to prepare context: path '/nowhere' not found"),
        (("/proc/self/fdinfo",), "there is no Dockerfile"),
        (("-f", "/nowhere", "/tmp"), "failed to read dockerfile: /nowhere: no such file"),
        (("--network", "nosuch", "/tmp"), "network nosuch not found"),
        (("--network", "container:x", "/tmp"), "--network container:x: not for a build"),
        (("--allow", "security.insecure", "/tmp"), "--allow security.insecure: not known"),
    ],
)
def test_wrong_words(builder: Program, args: tuple[str, ...], words: str) -> None:
    done = builder("build", *args)
    assert done.returncode == 1
    assert words in done.stderr


def test_dockers_other_word_for_it(builder: Program, context: Path) -> None:
    (context / "Dockerfile").write_text("FROM base\nLABEL a=b\n")
    done = builder("image", "build", "-q", "-t", "x", str(context))
    assert done.returncode == 0, done.stderr
    assert builder("image", "build", "ubuntu-none").returncode != 0


def test_two_at_once(builder: Program, context: Path) -> None:
    text = "FROM base\nRUN sleep 0.3; echo $RANDOM > /r\nCOPY . /x\n"
    (context / "Dockerfile").write_text(text)
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda n: builder("build", "-t", f"x{n}", str(context)), range(3)))
    assert [run.returncode for run in runs] == [0, 0, 0], [run.stderr for run in runs]
    assert show(builder, "x0", "cat /r").strip().isdecimal()


def test_interrupted(builder: Program, context: Path) -> None:
    (context / "Dockerfile").write_text("FROM base\nRUN echo started; sleep 60\n")
    process = builder.start("build", "-t", "x", str(context), start_new_session=True)
    assert process.stdout
    wait_until(lambda: "started" in process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode != 0
    wait_until(lambda: builder.left() == [])


def test_killed_at_any_moment(builder: Program, context: Path) -> None:
    (context / "files").mkdir()
    for number in range(20):
        (context / f"files/{number}").write_bytes(os.urandom(20_000))
    text = "FROM base\nRUN cp -a /bin /bin2\nCOPY files /files\nRUN rm -r /files && echo 1 > /one\n"
    start = time.monotonic()
    whole = build(builder, context, text, "-t", "whole").splitlines()[-1]
    seconds = time.monotonic() - start
    chance = random.Random(16)
    for _ in range(50):
        process = builder.start("build", "--no-cache", "-t", "x", str(context))
        time.sleep(chance.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_until(lambda: builder("gc").returncode == 0 and builder.left() == [])
    wait_until(lambda: not _processes(str(context)))
    env = {"SOURCE_DATE_EPOCH": "1000000000"}
    done = builder("build", "-q", "--no-cache", "-t", "x", str(context), env=env)
    assert done.returncode == 0, done.stderr
    assert whole.startswith("sha256:")
    assert show(builder, "x", "cat /one; ls / | grep -c files || true") == "1\n0\n"
    store = builder_store(builder)
    collect(str(store), list)
    assert list((store / "blobs/partial").iterdir()) == []
    assert collect(str(store), list) == []
    assert builder("images", "--verify").returncode == 0


def _processes(word: str) -> str:
    """Return the processes that have a word in their command line."""
    found = subprocess.run(["pgrep", "-af", word], check=False, capture_output=True, text=True)
    return found.stdout
