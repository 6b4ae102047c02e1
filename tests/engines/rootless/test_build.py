"""`minirun build` without root: every file is the user's own, and root's in the image."""

import io
import os
import tarfile

from engines.rootless.conftest import UID, User

DOCKERFILE = """FROM busybox AS one
RUN echo made > /made && rm /bin/vi && mkdir /folder && id -u > /folder/id
COPY --chown=7:8 file /copied
WORKDIR /work
RUN --mount=type=cache,target=/cache echo x > /cache/x
FROM busybox
COPY --from=one /made /copied /folder/id /of/
"""


def test_build(user: User) -> None:
    context = user.home / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(DOCKERFILE)
    (context / "file").write_text("file")
    for path in (context, *context.iterdir()):
        os.chown(path, UID, UID)
    done = user("build", "-t", "x", str(context))
    assert done.returncode == 0, done.stderr
    found = user("run", "--rm", "x", "cat", "/of/made", "/of/id", "/of/copied")
    assert found.stdout == "made\n0\nfile", found.stderr
    again = user("build", "-t", "x", str(context))
    assert again.stdout.count("using cache") == 5
    whole = user("build", "-q", "--target", "one", "-t", "one", str(context))
    assert whole.returncode == 0, whole.stderr
    assert user("run", "--rm", "one", "ls", "/bin/vi").returncode != 0
    saved = user("save", "-o", str(user.home / "one.tar"), "one")
    assert saved.returncode == 0, saved.stderr
    owners = {}
    with tarfile.open(user.home / "one.tar") as archive:
        for row in archive.getmembers():
            if row.name.endswith("/layer.tar"):
                content = archive.extractfile(row)
                assert content
                with tarfile.open(fileobj=io.BytesIO(content.read())) as layer:
                    owners |= {each.name: (each.uid, each.gid) for each in layer.getmembers()}
    assert owners["made"] == owners["folder/id"] == (0, 0)
    assert owners["copied"] == (7, 8)
    assert {owner for name, owner in owners.items() if name != "copied"} == {(0, 0)}
