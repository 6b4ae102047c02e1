"""Scenarios of buildah: RUN in a Dockerfile, and `buildah run` by hand."""

import json

from engines.clients.buildah_engine import Buildah
from engines.clients.screen import Screen


def run_prints_what_the_command_prints(buildah: Buildah) -> None:
    assert buildah.run(buildah.working(), "echo", "hello") == "hello"


def run_has_the_commands_status(buildah: Buildah) -> None:
    buildah.run(buildah.working(), "sh", "-c", "exit 7", code=7)


def run_of_nothing(buildah: Buildah) -> None:
    name = buildah.working()
    done = buildah.full("run", *buildah.oci, "--network=none", name, "--", "nosuch")
    assert done.returncode != 0 and "executable file not found in $PATH" in done.stderr


def run_with_input(buildah: Buildah) -> None:
    assert buildah.run(buildah.working(), "cat", input="through\n") == "through"


def run_with_flags(buildah: Buildah) -> None:
    flags = ("--user=maria", "--workingdir=/tmp", "--env=A=b", "--hostname=deep")
    text = buildah.run(buildah.working(), *flags, "sh", "-c", "id -u; pwd; echo $A; hostname")
    assert text.split() == ["1000", "/tmp", "b", "deep"]


def run_with_a_volume(buildah: Buildah) -> None:
    (buildah.home / "given").write_text("word\n")
    flag = f"--volume={buildah.home}/given:/given:ro"
    assert buildah.run(buildah.working(), flag, "cat", "/given") == "word"


def run_with_fewer_capabilities(buildah: Buildah) -> None:
    name = buildah.working()
    buildah.run(name, "chown", "1", "/etc/motd")
    buildah.run(name, "--cap-drop=CAP_CHOWN", "chown", "0", "/etc/motd", code=1)


def run_with_a_terminal(buildah: Buildah) -> None:
    words = ("run", "--terminal", *buildah.oci, "--network=none", buildah.working(), "sh")
    screen = Screen(buildah.cell.argv(*buildah.client, *words), buildah.env)
    screen.expect("# ")
    screen.type("tty; exit 3\r")
    assert "/dev/pts/" in screen.rest() and screen.wait() == 3


def run_and_commit(buildah: Buildah) -> None:
    name = buildah.working()
    buildah.run(name, "sh", "-c", "echo kept > /made")
    buildah("config", "--env=A=b", name)
    buildah("commit", "--quiet", name, "test.local/committed")
    other = buildah("from", "--isolation=oci", "test.local/committed")
    assert buildah.run(other, "sh", "-c", "cat /made; echo $A") == "kept\nb"


def runs_one_after_the_other(buildah: Buildah) -> None:
    """Each run is a container of its own; what it writes stays."""
    name = buildah.working()
    for word in ("a", "b", "c"):
        buildah.run(name, "sh", "-c", f"echo {word} >> /words")
    assert buildah.run(name, "cat", "/words") == "a\nb\nc"


def build_with_run(buildah: Buildah) -> None:
    lines = ("ENV A=b", "WORKDIR /work", "RUN echo $A > made", "USER maria", "RUN id -u > /tmp/who")
    image = buildah.bud(*lines)
    found = json.loads(buildah("inspect", image))["OCIv1"]["config"]
    assert (found["WorkingDir"], found["User"]) == ("/work", "maria")
    name = buildah("from", "--isolation=oci", image)
    assert buildah.run(name, "cat", "/work/made", "/tmp/who") == "b\n1000"


def build_with_a_mount(buildah: Buildah) -> None:
    image = buildah.bud("RUN --mount=type=tmpfs,target=/scratch touch /scratch/x && mkdir /ok")
    name = buildah("from", "--isolation=oci", image)
    assert buildah.run(name, "sh", "-c", "ls -d /ok; ls -A /scratch 2>/dev/null; true") == "/ok"


def build_that_fails(buildah: Buildah) -> None:
    try:
        buildah.bud("RUN exit 9")
    except AssertionError as error:
        assert "exit status 9" in str(error)
    else:
        raise AssertionError("it was built")
