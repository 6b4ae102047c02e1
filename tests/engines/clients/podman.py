"""Scenarios of podman alone."""

import json

from engines.clients.engine import IMAGE, Podman
from engines.clients.limits import inside


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


MAPS = ("--uidmap=0:100000:2000", "--gidmap=0:100000:2000")


def user_namespace_by_itself(engine: Podman) -> None:
    """--userns=auto takes its ids out of the rows for `containers` in /etc/subuid."""
    rows = "echo containers:200000:200000 > /run/subids; mount --bind /run/subids /etc/sub"
    engine.cell.run("sh", "-ec", f"{rows}uid; {rows}gid", check=True)
    try:
        first, at, _ = engine.run("--userns=auto", "cat", "/proc/self/uid_map").split()[:3]
        assert first == "0" and int(at) >= 200000
    finally:
        engine.cell.run("umount", "/etc/subuid", "/etc/subgid")


def user_namespace_and_a_closed_folder(engine: Podman) -> None:
    """What is mounted lies below a folder that only the host's root may enter."""
    place = engine.home / "closed/open"
    place.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    (place / "file").write_text("inside\n")
    assert engine.run(*MAPS, f"--volume={place}:/in", "cat", "/in/file") == "inside"


def user_namespace_privileged(engine: Podman) -> None:
    assert "/dev/fuse" in engine.run(*MAPS, "--privileged", "sh", "-c", "ls -d /dev/*")


def privileged_has_its_own_terminals(engine: Podman) -> None:
    """podman lists the host's /dev/ptmx; the container's is a link into its own devpts."""
    assert engine.run("--privileged", "readlink", "/dev/ptmx") == "pts/ptmx"


def user_namespace_and_systemd(engine: Podman) -> None:
    text = engine.run(*MAPS, "--systemd=always", "sh", "-c", "cut -d' ' -f2-3 /proc/mounts")
    assert "/run tmpfs" in text and "/sys/fs/cgroup" in text


def user_namespace_paused(engine: Podman) -> None:
    name = engine.detached(*MAPS, "sleep", "300")
    assert engine("exec", "--user=5:6", name, "id", "-u") == "5"
    engine("pause", name)
    engine("rm", "--force", "--time=0", name)
    assert engine("ps", "--all", "--quiet") == ""


def user_namespace_and_a_terminal(engine: Podman) -> None:
    assert "/dev/pts/0" in engine.run(*MAPS, "-t", "sh", "-c", "tty; ls -l /dev/console")


def systemd_in_the_container(engine: Podman) -> None:
    script = "echo $container; cut -d' ' -f2-3 /proc/mounts"
    lines = engine.run("--systemd=always", "sh", "-c", script).splitlines()
    assert lines[0] == "podman" and {"/run tmpfs", "/run/lock tmpfs", "/tmp tmpfs"} <= set(lines)
    assert any(line.startswith("/sys/fs/cgroup") for line in lines)


def systemd_and_privileged(engine: Podman) -> None:
    script = "cut -d' ' -f2-3 /proc/mounts"
    assert "/run tmpfs" in engine.run("--systemd=always", "--privileged", "sh", "-c", script)


def init_before_start(engine: Podman) -> None:
    """`podman init` is `create` alone."""
    name = engine("create", "--network=none", f"--cgroup-parent={engine.cell.parent}", IMAGE,
                  "sleep", "300")  # fmt: skip
    engine("init", name)
    assert engine("ps", "-a", "--format={{.Status}}").lower() in ("created", "initialized")
    engine("start", name)
    assert engine("exec", name, "echo", "runs") == "runs"


def root_filesystem_of_the_user(engine: Podman) -> None:
    mounted = engine("image", "mount", IMAGE)
    try:
        assert (
            engine("run", "--rm", "--network=none", "--rootfs", f"{mounted}:O", "cat", "/etc/motd")
            == "from the image"
        )
    finally:
        engine("image", "unmount", IMAGE)


def tmpfs_as_the_root(engine: Podman) -> None:
    """podman asks for the image's files in it (tmpcopyup), and names its place ""."""
    line = engine.run("--tmpfs=/", "sh", "-c", "cat /etc/motd; grep ' / ' /proc/mounts; : > /x")
    assert line.startswith("from the image\ntmpfs / tmpfs rw")


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
    assert engine.run("--pids-limit=-1", "cat", *inside("pids")) == "max"


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
