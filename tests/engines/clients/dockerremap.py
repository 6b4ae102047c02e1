"""Scenarios of a docker whose containers have a user namespace (--userns-remap)."""

from engines.clients.engine import RemappedDocker


def user_namespace(engine: RemappedDocker) -> None:
    assert engine.run("cat", "/proc/self/uid_map").split() == ["0", "300000", "65536"]


def volume_below_a_closed_folder(engine: RemappedDocker) -> None:
    """The folder above it is one that only the host's root may enter."""
    place = engine.home / "closed/open"
    place.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    (place / "file").write_text("inside\n")
    assert engine.run(f"--volume={place}:/in", "cat", "/in/file") == "inside"
    done = engine.error(f"--volume={place}:/in:ro", "touch", "/in/x")
    assert done.returncode == 1, done


def named_volume(engine: RemappedDocker) -> None:
    flag = "--volume=mapped:/data"
    engine.run(flag, "touch", "/data/made")
    assert engine.run(flag, "stat", "-c", "%u", "/data/made") == "0"
    engine("volume", "rm", "mapped")


def life(engine: RemappedDocker) -> None:
    name = engine.detached("--memory=64m", "--tmpfs=/run", "--user=1000", "sleep", "300")
    assert engine("exec", name, "id", "-u") == "1000"
    assert engine("exec", "--user=0", name, "id", "-u") == "0"
    assert engine("exec", "-t", name, "sh", "-c", "tty").startswith("/dev/pts/")
    engine("pause", name)
    engine("rm", "--force", name)


def of_the_host_and_privileged(engine: RemappedDocker) -> None:
    text = engine.run("--userns=host", "--privileged", "cat", "/proc/self/uid_map").split()
    assert text == ["0", "0", "4294967295"]


def device(engine: RemappedDocker) -> None:
    engine.run("--device=/dev/null:/dev/mine", "sh", "-c", "echo x > /dev/mine")


def copy_in_and_out(engine: RemappedDocker) -> None:
    name = engine.detached()
    (engine.home / "sent").write_text("sent\n")
    engine("cp", f"{engine.home}/sent", f"{name}:/sent")
    assert engine("exec", name, "cat", "/sent") == "sent"
