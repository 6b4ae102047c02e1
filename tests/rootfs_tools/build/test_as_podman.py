"""`minirun build` makes of a Dockerfile what `podman build` makes: tree and configuration."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from required import installed
from tests.rootfs_tools.layouts import listing

Podman = Callable[..., str]

FILES = {
    "app/main.sh": "echo main", "app/lib/one": "1", "app/lib/two": "2", "app/.hidden": "h",
    "a b/with blanks": "x", "log1.txt": "1", "log2.txt": "2", "notes.md": "n", "keep.md": "k",
    "deep/er/y": "y", "secret/key": "s", "secret/public": "p",
}  # fmt: skip

STAGES = """ARG TAG=latest
FROM base:$TAG AS build
ARG VERSION=1
RUN mkdir -p /opt/app && echo "version $VERSION" > /opt/app/version && chmod 750 /opt/app
FROM base AS unused
RUN false
FROM build AS middle
WORKDIR made/here
RUN pwd > where
FROM base
COPY --from=middle /opt/app /app
COPY --from=2 /made/here/where /
COPY --from=build --chown=games /opt/app/version /as-games/
RUN cat /app/version /where > /both
CMD cat /both "$HOME"
"""
COPIES = """FROM base
WORKDIR /srv
COPY app .
COPY app/main.sh renamed.sh
COPY log?.txt keep.md logs/
COPY ["a b/with blanks", "spaced name"]
COPY --chown=games app/lib /lib-of-games
COPY --chown=games:staff app/lib/one /of/games/and/staff
COPY --chown=3 app/lib/one /of/three
COPY --chown=3:4 --chmod=601 app /mode
COPY deep /usr/share/deep
COPY app/lib /link/
COPY secret /secret
COPY *.md /docs/
COPY linked linked-folder /followed/
COPY folder /whole
"""
CHANGES = """FROM base
RUN rm /usr/share/deep/file && rm -rf /usr/share/deep/er && mkdir /usr/share/deep/er && \\
    echo new > /usr/share/deep/er/new
RUN echo a > /hard1 && chmod 4755 /hard1 && ln /hard1 /hard2 && mkfifo /pipe
RUN ln -s /nowhere /dangling && chown 5:60 /dangling -h && mkdir -m 1777 /sticky
RUN rmdir /sticky && echo file > /sticky && rm /link && mkdir /link && touch /link/in
RUN rm -rf /real; true
USER games
RUN id -u > /tmp/id || true
USER 0
RUN chown -R games:staff /usr/share/deep
"""
SETTINGS = """FROM base
RUN mkdir /data /more
ARG NAME=world
ARG GREETING="hello ${NAME:-you}"
ENV ONE=1 TWO="two words" THREE=three\\ more
ENV PATH=$PATH:/opt/${ONE}/bin
ENV FOUR ${TWO:+set} and more
LABEL maintainer="A B" version=$ONE \\
      text='single $quoted'
EXPOSE 80 53/udp
HEALTHCHECK --interval=1m30s --retries=2 CMD ["true"]
STOPSIGNAL SIGTERM
SHELL ["/bin/sh", "-ec"]
USER games:staff
WORKDIR /one
WORKDIR two
RUN echo "$GREETING $THREE $HOME" > /tmp/greeting; id -u > /tmp/id; id -g >> /tmp/id
ENTRYPOINT ["echo", "$ONE"]
CMD ["last", "of all"]
VOLUME /data /more
"""
ARCHIVES = """FROM base
ADD files.tar.gz /gz/
ADD files.tar.xz /xz
ADD --chown=games files.tar /owned/
ADD plain.txt /plain/
ADD files.tar plain.txt /both/
COPY files.tar /not-unpacked/
"""
SCRATCH = """FROM busybox AS tools
RUN --mount=type=cache,target=/cache,id=c echo cached > /cache/file && cp /cache/file /found
RUN --mount=type=cache,target=/else,id=c cat /else/file > /again
RUN --mount=type=tmpfs,target=/mem touch /mem/x && ls /mem > /seen
FROM scratch
COPY --from=tools /found /again /seen /out/
COPY --from=busybox /bin/busybox /bin/sh
ENV PATH=/bin
CMD ["/bin/sh"]
"""
TEXTS = """FROM base
ENV NAME=world
ARG V=v1.2.3
RUN <<END
set -e
echo "$NAME ${V#v} ${V%.*}" > /one
END
RUN <<-END
\techo two > /two
\tEND
RUN cat <<A >/three && cat <<'B' >/four
$NAME
A
$NAME
B
COPY <<five log1.txt <<"six" /texts/
hello $NAME 'q'
five
hello $NAME
six
COPY --chmod=755 --chown=games <<END /bin/tool
#!/bin/sh
END
LABEL short=${V%.*} shorter=${V%%.*} other=${V/2/x} all=${V//./-}
COPY none* log1.txt /none/
"""
BINDS = """FROM base AS other
RUN mkdir -m 750 /t && echo t > /t/f && chown -R 5:6 /t
FROM base
RUN --mount=type=bind,source=app,target=/a cp /a/main.sh /copied && ls /a > /ls
RUN --mount=source=app/lib/one,target=/one cat /one > /number
RUN --mount=source=app,target=/a,rw echo new > /a/new && cat /a/new > /written
RUN --mount=type=bind,from=other,source=/t,target=/m cp /m/f /f
RUN --mount=type=cache,from=other,source=/t,target=/m,id=with-base cat /m/f > /g
RUN --mount=type=secret,id=none test ! -e /run/secrets/none && echo ok > /ok
COPY --exclude=**/o* app /without/
"""
DOCKERFILES = {
    "stages": STAGES, "copies": COPIES, "changes": CHANGES, "settings": SETTINGS,
    "archives": ARCHIVES, "scratch": SCRATCH, "texts": TEXTS, "binds": BINDS,
}  # fmt: skip


@pytest.fixture
def filled(context: Path) -> Path:
    """The context's files."""
    for name, text in FILES.items():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(text)
    (context / "app/main.sh").chmod(0o4711)
    (context / "app/lib").chmod(0o2750)
    os.symlink("main.sh", context / "app/link")
    os.symlink("app/lib/one", context / "linked")
    os.symlink("app/lib", context / "linked-folder")
    os.link(context / "app/lib/one", context / "app/lib/hard")
    os.chown(context / "app/lib/two", 1000, 1000)
    (context / "folder/empty").mkdir(parents=True)
    (context / ".dockerignore").write_text(
        "# comment\n**/*.md\n!keep.md\nsecret/*\n!secret/public\n"
    )
    (context / "plain.txt").write_text("no archive")
    _archives(context)
    for path in context.rglob("*"):
        os.utime(path, (10**9, 10**9), follow_symlinks=False)
    return context


def _archives(context: Path) -> None:
    for mode, suffix in (("w", ""), ("w:gz", ".gz"), ("w:xz", ".xz")):
        with tarfile.open(context / f"files.tar{suffix}", mode) as archive:  # type: ignore[call-overload]
            folder = tarfile.TarInfo("inside")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o750
            archive.addfile(folder)
            info = archive.gettarinfo(context / "app/lib/two", "inside/two")
            info.uid, info.gid, info.mode = 12, 34, 0o640
            with open(context / "app/lib/two", "rb") as content:
                archive.addfile(info, content)
            link = tarfile.TarInfo("inside/link")
            link.type, link.linkname = tarfile.SYMTYPE, "two"
            archive.addfile(link)


@pytest.fixture(scope="module")
def podman(
    base_store: Path, command: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Podman]:
    """podman with storage of its own, and the same base images."""
    home = tempfile.mkdtemp(prefix="mrb-")  # runroot has at most 50 characters
    argv = [
        installed("podman"), "--root", f"{home}/root", "--runroot", f"{home}/run",
        "--tmpdir", f"{home}/tmp", "--storage-driver", "vfs", "--events-backend", "none",
        "--cgroup-manager", "cgroupfs", "--runtime", installed("runc"),
    ]  # fmt: skip

    def run(*args: str) -> str:
        done = subprocess.run(
            [*argv, *args], check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    archive = str(tmp_path_factory.mktemp("saved") / "base.tar")
    save = [command, "--store", str(base_store), "save", "-o", archive, "busybox", "base"]
    subprocess.run(save, check=True)
    run("load", "-i", archive)
    yield run
    run("rm", "--all", "--force")
    shutil.rmtree(home)


def _tree(layout: Path) -> dict[str, Any]:
    """Return the tree of a layout's image, as umoci unpacks it."""
    bundle = layout.with_suffix(".bundle")
    argv = [installed("umoci"), "unpack", "--image", f"{layout}:latest", str(bundle)]
    subprocess.run(argv, check=True, capture_output=True)
    return _without_new_dates(listing(bundle / "rootfs"))


def _config(archive: Path) -> dict[str, Any]:
    """Return the configuration of docker-archive's image; the order of variables says nothing."""
    argv = [installed("skopeo"), "inspect", "--config", "--raw", f"docker-archive:{archive}"]
    config = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["config"]
    config["Env"].sort()
    config.get("Labels", {}).pop("io.buildah.version", None)
    config.pop("Hostname", None)  # of the container that podman has built in
    return {key: value for key, value in config.items() if value}


def _without_new_dates(tree: dict[str, Any]) -> dict[str, Any]:
    """Leave out when a directory, or a file of RUN's, was made: the two builds ran at two times."""
    return {path: (*row[:-1], row[-1] if row[-1] == 10**18 else 0) for path, row in tree.items()}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_same_image(
    name: str, builder: Program, podman: Podman, filled: Path, tmp_path: Path
) -> None:
    (filled / "Dockerfile").write_text(DOCKERFILES[name])
    limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")  # no CAP_SYS_RESOURCE
    how = ("--network=none", "--layers=false", "--format=docker", *limits)
    podman("build", *how, "-t", name, str(filled))
    podman("push", "-q", name, f"oci:{tmp_path}/podman:latest")
    podman("push", "-q", name, f"docker-archive:{tmp_path}/podman.tar")
    done = builder("build", "-t", name, str(filled))
    assert done.returncode == 0, done.stderr
    for form, output in (("oci-dir", "minirun"), ("docker-archive", "minirun.tar")):
        saved = builder("save", "--format", form, "-o", str(tmp_path / output), name)
        assert saved.returncode == 0, saved.stderr
    assert _differences(_tree(tmp_path / "minirun"), _tree(tmp_path / "podman")) == []
    assert _config(tmp_path / "minirun.tar") == _config(tmp_path / "podman.tar")


def _differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return what differs, a line each: path, minirun's, podman's."""
    paths = sorted(found.keys() | expected)
    rows = [(path, found.get(path), expected.get(path)) for path in paths]
    return [f"{path}: {mine} and not {theirs}" for path, mine, theirs in rows if mine != theirs]
