"""Scenarios of podman alone."""

import json

from engines.clients.engine import IMAGE, Podman


def build_with_run(engine: Podman) -> None:
    folder = engine.home / "context"
    folder.mkdir(exist_ok=True)
    text = f"FROM {IMAGE}\nRUN echo built > /made && id -u > /who\nENV A=b\n"
    (folder / "Containerfile").write_text(text)
    flags = (
        "--network=none",
        "--isolation=oci",
        f"--runtime={engine.path}",
        "--tag=test.local/built",
    )
    engine("build", *flags, str(folder))
    words = ("--rm", "--network=none", "test.local/built", "sh", "-c", "cat /made /who; echo $A")
    assert engine("run", *words) == "built\n0\nb"
    engine("rmi", "--force", "test.local/built")


def pod_shares_its_network(engine: Podman) -> None:
    engine("pod", "create", "--name=both", "--infra=false", f"--cgroup-parent={engine.cell.parent}")
    engine("run", "-d", "--pod=both", IMAGE, "sleep", "300")
    assert engine("pod", "ps", "--format={{.NumberOfContainers}}") == "1"


def user_namespace_with_a_map(engine: Podman) -> None:
    flags = ("--uidmap=0:100000:1000", "--gidmap=0:100000:1000")
    assert engine.run(*flags, "cat", "/proc/self/uid_map").split() == ["0", "100000", "1000"]


def user_namespace_has_its_files(engine: Podman) -> None:
    flags = ("--uidmap=0:100000:2000", "--gidmap=0:100000:2000")
    assert engine.run(*flags, "stat", "-c", "%u %g", "/etc/motd") == "0 0"


def root_filesystem_of_the_user(engine: Podman) -> None:
    mounted = engine("image", "mount", IMAGE)
    try:
        assert (
            engine("run", "--rm", "--network=none", "--rootfs", f"{mounted}:O", "cat", "/etc/motd")
            == "from the image"
        )
    finally:
        engine("image", "unmount", IMAGE)


def descriptors_are_kept(engine: Podman) -> None:
    words = (
        "run",
        "--rm",
        "--network=none",
        "--preserve-fds=1",
        IMAGE,
        "sh",
        "-c",
        "echo through >&3",
    )
    argv = engine.cell.argv(*engine.client, *words)
    done = engine.cell.run(
        "sh", "-c", 'exec "$@" 3>&1', "sh", *argv[argv.index("--") + 1 :], env=engine.env
    )
    assert done.stdout == "through\n", done.stderr


def time_zone(engine: Podman) -> None:
    assert engine.run("--tz=local", "true") == ""


def container_ends_in_time(engine: Podman) -> None:
    engine.run("--timeout=1", "sleep", "60", code=255)


def unmasked_kernel_files(engine: Podman) -> None:
    assert engine.run("--security-opt=unmask=all", "cat", "/proc/timer_list") != ""


def masked_file_of_the_user(engine: Podman) -> None:
    assert engine.run("--security-opt=mask=/etc/motd", "cat", "/etc/motd") == ""


def secret(engine: Podman) -> None:
    engine("secret", "create", "word", "-", input="hush")
    assert engine.run("--secret=word", "cat", "/run/secrets/word") == "hush"
    engine("secret", "rm", "word")


def unified_limit_of_processes(engine: Podman) -> None:
    assert engine.run("--pids-limit=-1", "cat", "/sys/fs/cgroup/pids/pids.max") == "max"


def umask(engine: Podman) -> None:
    assert engine.run("--umask=0077", "sh", "-c", "umask") == "0077"


def runtime_is_named(engine: Podman) -> None:
    assert engine.json("inspect", engine.detached())[0]["OCIRuntime"] == engine.path


def checkpoint_without_criu_is_refused(engine: Podman) -> None:
    name = engine.detached()
    with engine.cell.without("criu"):
        assert engine.full("container", "checkpoint", name).returncode != 0


def environment_of_the_client_stays_out(engine: Podman) -> None:
    text = engine.run("env")
    assert "CONTAINERS_CONF" not in text and "_OCI_SYNCPIPE" not in text and "MINIRUN" not in text


def attached_output(engine: Podman) -> None:
    name = engine("create", "--network=none", IMAGE, "sh", "-c", "echo a; echo b >&2")
    done = engine.full("start", "--attach", name)
    assert (done.stdout, done.stderr) == ("a\n", "b\n")


def generated_spec(engine: Podman) -> None:
    name = engine.detached()
    path = engine.json("inspect", name)[0]["OCIConfigPath"]
    assert json.loads(engine.cell.run("cat", path).stdout)["process"]["args"] == ["sleep", "300"]


def mounts_over_proc(engine: Podman) -> None:
    """Refused as by runc, also through a link of the image; what podman itself mounts is not."""
    rows = ("--volume=/srv:/proc/sys", "--tmpfs=/proc/self", "--volume=/srv:/proc/1")
    for row in rows:
        done = engine.error(f"--cgroup-parent={engine.cell.parent}", row, "true")
        assert done.returncode in (125, 126), done
        assert "/proc" in done.stderr
    first = engine.run("--pid=host", "cat", "/proc/1/comm")
    assert first == engine.cell.run("cat", "/proc/1/comm").stdout.strip()
    assert engine.run("--volume=/proc:/proc", "--pid=host", "cat", "/proc/1/comm") == first
    assert engine.run("--volume=/proc/uptime:/proc/uptime:ro", "cat", "/proc/uptime")
