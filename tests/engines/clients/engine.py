"""The engines, each in a cell of its own, with one of the two runtimes below it."""

import json
import subprocess
from typing import Any, ClassVar

from engines.clients import images
from engines.clients.cell import Cell
from required import installed

IMAGE = "test.local/busybox:1"


def program(name: str, folder: str = "/usr/bin:/usr/sbin:/bin:/sbin") -> str:
    """The path of a client as Debian installs it; skips where it is not installed."""
    return installed(name, folder)


class Engine:
    """One engine; calling it runs its client and checks the exit status."""

    client: tuple[str, ...] = ()

    def __init__(self, runtime: str, minirun: str) -> None:
        self.runtime = runtime
        self.minirun = minirun
        self.path = program("runc") if runtime == "runc" else minirun
        self.cell = Cell()
        self.home = self.cell.home
        self.env = {"MINIRUN_ROOT": "/run/minirun"}
        try:
            self.set_up()
        except BaseException:
            self.close()
            raise

    def set_up(self) -> None:
        """Configure it, start its daemon and load the image."""
        raise NotImplementedError

    def clean(self) -> None:
        """Remove what a scenario left."""
        raise NotImplementedError

    def close(self) -> None:
        self.cell.close()

    def full(
        self, *args: str, input: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the client to its end and return all of it."""
        return self.cell.run(*self.client, *args, input=input, env=self.env, timeout=timeout)

    def __call__(self, *args: str, code: int = 0, input: str = "") -> str:
        """Run the client, check its exit status, and return what it printed."""
        done = self.full(*args, input=input)
        said = f"{' '.join(args)}: {done.returncode}, not {code}: {done.stderr.strip()[-600:]}"
        assert done.returncode == code, said
        return done.stdout.strip()

    def json(self, *args: str) -> Any:
        """What the client printed, as JSON."""
        return json.loads(self(*args))


class Dockerlike(Engine):
    """podman and docker: the same command line."""

    network = "none"

    def run(self, *args: str, code: int = 0, input: str = "") -> str:
        """`run --rm` of the image, without a network."""
        return self("run", "--rm", "--network=none", *_command(args), code=code, input=input)

    def detached(self, *args: str) -> str:
        """Start a container in the background; its id."""
        return self("run", "-d", "--network=none", *_command(args or ("sleep", "300")))

    def error(self, *args: str) -> subprocess.CompletedProcess[str]:
        """`run --rm` that is to fail."""
        return self.full("run", "--rm", "--network=none", *_command(args))


def _command(args: tuple[str, ...]) -> list[str]:
    """Put the image between the flags and the command: the first word without a dash begins it."""
    for at, word in enumerate(args):
        if not word.startswith("-"):
            return [*args[:at], IMAGE, *args[at:]]
    return [*args, IMAGE]


class Podman(Dockerlike):
    """podman: no daemon; conmon watches each container."""

    ULIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
    """Lower than podman's own: raising them needs CAP_SYS_RESOURCE, which this machine lacks."""

    SUBNET = '[network]\ndefault_subnet = "10.77.0.0/16"\n'
    """minirun's default network, which some tests use beside it, has podman's own subnet."""

    def set_up(self) -> None:
        home = self.home
        (home / "containers.conf").write_text(self.ULIMITS + self.SUBNET)
        # conmon calls `create` and `delete` without the variable; podman 5 calls `start` with it
        del self.env["MINIRUN_ROOT"]
        self.env["CONTAINERS_CONF"] = str(home / "containers.conf")
        self.env["PODMAN_IGNORE_CGROUPSV1_WARNING"] = "1"
        self.client = (
            program("podman"), "--root", f"{home}/root", "--runroot", "/run/podman",
            "--tmpdir", "/run/podman-tmp", "--storage-driver", "overlay",
            "--events-backend", "file", "--cgroup-manager", "cgroupfs", "--runtime", self.path,
        )  # fmt: skip
        self("load", "-i", str(images.archive(home / "image.tar", IMAGE)))

    def detached(self, *args: str) -> str:
        return super().detached(f"--cgroup-parent={self.cell.parent}", *(args or ("sleep", "300")))

    def run(self, *args: str, code: int = 0, input: str = "") -> str:
        return super().run(f"--cgroup-parent={self.cell.parent}", *args, code=code, input=input)

    def clean(self) -> None:
        self.full("pod", "rm", "--all", "--force")
        self.full("rm", "--all", "--force", "--time=0", "--volumes")


class Docker(Dockerlike):
    """dockerd with containerd below it; the runtime under test is its default one."""

    daemon_json: ClassVar[dict[str, Any]] = {}
    flags: tuple[str, ...] = ()

    def set_up(self) -> None:
        home = self.home
        folder = home / "bin"
        folder.mkdir()
        (folder / "nvidia-container-runtime-hook").symlink_to(self.minirun)
        (home / "daemon.json").write_text(json.dumps(self.daemon_json))
        # docker has --gpus only where this hook is in its PATH; it gives the hook all of its own
        # environment, which is where the GPUs become SIMULATED ones, explicitly.
        path = f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"
        env = self.env | {
            "PATH": path,
            "MINIRUN_SIM": "count=4",
        }
        self.daemon = self.cell.start(
            program("dockerd"), "--config-file", f"{home}/daemon.json",
            "--data-root", f"{home}/data",
            "--exec-root", "/run/docker", "--pidfile", "/run/dockerd.pid",
            "--host", "unix:///run/docker.sock", "--cgroup-parent", self.cell.parent,
            "--add-runtime", f"under-test={self.path}", "--default-runtime", "under-test",
            *self.flags,
            log="dockerd", env=env,
        )  # fmt: skip
        self.client = (program("docker"), "--host", "unix:///run/docker.sock")
        self.cell.wait_for(lambda: self.full("version").returncode == 0, "dockerd")
        self("load", "--input", str(images.archive(home / "image.tar", IMAGE)))

    def clean(self) -> None:
        names = self.full("ps", "--all", "--quiet").stdout.split()
        if names:
            self.full("rm", "--force", "--volumes", *names)


class RemappedDocker(Docker):
    """dockerd whose containers have a user namespace: --userns-remap."""

    flags = ("--userns-remap=nobody:nogroup",)

    def set_up(self) -> None:
        rows = "printf 'nobody:300000:65536\\nnogroup:300000:65536\\n' > /run/subids"
        mounts = " && ".join(f"mount --bind /run/subids /etc/sub{kind}" for kind in ("uid", "gid"))
        self.cell.run("sh", "-ec", f"{rows}; {mounts}", check=True)
        super().set_up()
