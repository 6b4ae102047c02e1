"""containerd's CRI plugin in a cell: what a kubelet drives, with a runtime handler per runtime.

The handler is what a RuntimeClass names (tutorials/reference/engines/runtime-class.yaml).
"""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import yaml

from conftest import wait_until
from engines.clients import images, limits
from engines.clients.containerd_engine import REFERENCE, Containerd, link
from engines.clients.cri_client import Calls, Refused, Stream
from engines.clients.engine import IMAGE, program

PAUSE = "test.local/pause:1"
CRI = "io.containerd.grpc.v1.cri"
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "cell",
    "plugins": [
        {
            "type": "bridge", "bridge": "cell0", "isGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/16"}]]},
        },
    ],
}  # fmt: skip
NVIDIA = """
nvidia-container-runtime = {{mode = "legacy", runtimes = ["{runtime}"]}}
nvidia-container-runtime-hook.path = "{hook}"
"""
"""/etc/nvidia-container-runtime/config.toml: no CDI, but a prestart hook."""
HOOK = """#!/bin/sh
export MINIRUN_SIM=count=4
exec {minirun} nvidia-container-runtime-hook "$@"
"""
"""The hook: the GPUs are SIMULATED ones."""
Fields = dict[str, Any]


class Cri(Containerd):
    """Pods and containers, as a kubelet asks for them. Most scenarios share one pod."""

    off = ()

    def set_up(self) -> None:
        self.handler = self.runtime
        self.numbers = itertools.count()
        self.shared = ""
        self.streams: list[Stream] = []
        self.pods: dict[str, Fields] = {}
        super().set_up()

    def begin(self) -> None:
        folder = self.home / "nvidia-container-runtime"
        folder.mkdir(exist_ok=True)
        link(folder / "nvidia-container-runtime", self.minirun)
        (folder / "hook").write_text(HOOK.format(minirun=self.minirun))
        (folder / "hook").chmod(0o755)
        text = NVIDIA.format(runtime=self.path, hook=folder / "hook")
        (folder / "config.toml").write_text(text)
        self.env["XDG_CONFIG_HOME"] = str(self.home)
        super().begin()
        if hasattr(self, "calls"):
            self.calls.close()
        self.calls = Calls(self.socket)
        self.cell.wait_for(self.ready, "containerd")

    def ready(self) -> bool:
        """Whether the node is: the runtime and the network."""
        try:
            conditions = self.calls.Status().status.conditions
        except Refused:
            return False
        return {c.type for c in conditions if c.status} >= {"RuntimeReady", "NetworkReady"}

    def configuration(self) -> dict[str, Any]:
        """The users' config.toml, with what a cell needs and a third handler, for GPUs."""
        config = super().configuration()
        network = self.home / "net.d"
        network.mkdir(exist_ok=True)
        (network / "10-cell.conflist").write_text(json.dumps(NETWORK))
        plugin = program("bridge", "/usr/lib/cni")
        cri = config["plugins"][CRI]
        cri |= {
            "sandbox_image": PAUSE, "stream_server_port": "0",
            "restrict_oom_score_adj": True,  # raising it needs CAP_SYS_RESOURCE
            "cni": {"bin_dir": os.path.dirname(plugin), "conf_dir": str(network)},
        }  # fmt: skip
        runtimes = cri["containerd"]["runtimes"]
        runtimes["runc"]["options"] = {"BinaryName": program("runc")}
        runtimes["minirun"]["options"] = {"BinaryName": self.minirun}
        path = self.home / "nvidia-container-runtime/nvidia-container-runtime"
        runtimes["nvidia"] = runtimes["runc"] | {"options": {"BinaryName": str(path)}}
        return config

    def load(self, archive: Path) -> None:
        self.import_(archive)
        pause = ("sleep", "2147483647")
        self.import_(images.archive(self.home / "pause.tar", PAUSE, cmd=pause))

    def import_(self, archive: Path) -> None:
        self.cell.run(*self.ctr, "--namespace=k8s.io", "images", "import", str(archive), check=True)

    # --- pods ---

    def sandbox(self, linux: Fields | None = None, **more: Any) -> Fields:
        """The PodSandboxConfig of a new pod; `namespaces` are its namespace_options.

        The id of each pod is kept with it in `pods`: CreateContainer is given the config again.
        """
        name = f"p{next(self.numbers)}"
        options = more.pop("namespaces", {})
        security = {"namespace_options": options, "privileged": more.pop("privileged", False)}
        own = {"cgroup_parent": self.cell.parent, "security_context": security}
        return {
            "metadata": {"name": name, "uid": name, "namespace": "test", "attempt": 0},
            "hostname": name, "log_directory": str(self.home / "logs" / name),
            "linux": own | (linux or {}),
        } | more  # fmt: skip

    def pod(self, linux: Fields | None = None, *, handler: str = "", **more: Any) -> str:
        """Run a pod of its own; return its id."""
        config = self.sandbox(linux, **more)
        answer = self.calls.RunPodSandbox(config=config, runtime_handler=handler or self.handler)
        self.pods[answer.pod_sandbox_id] = config
        return str(answer.pod_sandbox_id)

    def common(self) -> str:
        """The pod that scenarios share."""
        if not self.shared:
            self.shared = self.pod()
        return self.shared

    # --- containers ---

    def config(self, args: tuple[str, ...], more: Fields) -> Fields:
        """A ContainerConfig; `security` and `resources` are written beside its other fields."""
        name = f"c{next(self.numbers)}"
        linux = {
            "resources": more.pop("resources", {}),
            "security_context": more.pop("security", {}),
        }
        return {
            "metadata": {"name": name, "attempt": 0}, "image": {"image": IMAGE},
            "command": list(args or ("sleep", "300")), "log_path": f"{name}.log", "linux": linux,
        } | more  # fmt: skip

    def create(self, *args: str, pod: str = "", **more: Any) -> str:
        """Create a container in a pod; return its id."""
        pod = pod or self.common()
        config = self.config(args, more)
        answer = self.calls.CreateContainer(
            pod_sandbox_id=pod, config=config, sandbox_config=self.pods[pod]
        )
        return str(answer.container_id)

    def start(self, *args: str, pod: str = "", **more: Any) -> str:
        """Create and start a container; return its id."""
        name = self.create(*args, pod=pod, **more)
        self.calls.StartContainer(container_id=name)
        return name

    def run(self, *args: str, pod: str = "", code: int = 0, **more: Any) -> str:
        """Run a container to its end, check its exit status, and return its output."""
        name = self.start(*args, pod=pod, **more)
        found = self.ended(name)
        said = self.log(name)
        assert found.exit_code == code, f"{args}: {found.exit_code}, not {code}: {said}"
        return "".join(text for stream, text in said if stream == "stdout").strip()

    def fails(self, *args: str, **more: Any) -> str:
        """Run a container that is to fail; return what it wrote to standard error."""
        name = self.start(*args, **more)
        assert self.ended(name).exit_code != 0
        return "".join(text for stream, text in self.log(name) if stream == "stderr")

    def refused(self, *args: str, **more: Any) -> str:
        """Start a container that cannot be; return the error's text."""
        try:
            self.start(*args, **more)
        except Refused as error:
            return str(error)
        raise AssertionError(f"{args} was started")

    def status(self, name: str) -> Any:
        return self.calls.ContainerStatus(container_id=name).status

    def ended(self, name: str) -> Any:
        """Wait for a container's end; return its ContainerStatus."""
        wait_until(lambda: self.status(name).finished_at, 20)
        return self.status(name)

    def log(self, name: str) -> list[tuple[str, str]]:
        """A container's log file: (stream, text) of each line. The format is CRI's."""
        found = []
        for line in Path(self.status(name).log_path).read_text().splitlines():
            _, stream, tag, text = line.split(" ", 3)
            found.append((stream, text + "\n" * (tag == "F")))
        return found

    def exec(self, name: str, *cmd: str, code: int = 0) -> str:
        """ExecSync; check the exit status, and return the output."""
        done = self.calls.ExecSync(container_id=name, cmd=cmd, timeout=20)
        assert done.exit_code == code, f"{cmd}: {done.exit_code}, not {code}: {done.stderr!r}"
        return str(done.stdout.decode()).strip()

    def stream(self, answer: Any) -> Stream:
        """Open the stream of an answer to Exec or Attach; it ends with the try at the latest."""
        self.streams.append(Stream(answer.url, self.cell.pid))
        return self.streams[-1]

    def limit(self, name: str, limit: str) -> list[str]:
        """What the files of a limit hold, in a container's cgroup."""
        return limits.outside(limit, f"{self.cell.parent.lstrip('/')}/{name}")

    def close(self) -> None:
        if hasattr(self, "calls"):
            self.calls.close()
        super().close()

    def clean(self) -> None:
        """End all streams; remove all containers, and all pods but the shared one."""
        while self.streams:
            self.streams.pop().close()
        for container in self.calls.ListContainers().containers:
            self.calls.RemoveContainer(container_id=container.id)
        for pod in self.calls.ListPodSandbox().items:
            if pod.id != self.shared or pod.state:
                self.calls.StopPodSandbox(pod_sandbox_id=pod.id)
                self.calls.RemovePodSandbox(pod_sandbox_id=pod.id)
        if self.shared and not self.calls.ListPodSandbox(filter={"id": self.shared}).items:
            self.shared = ""


def runtime_class() -> Fields:
    """The manifest that users are given."""
    return dict(yaml.safe_load((REFERENCE / "runtime-class.yaml").read_text()))


class CriWithCdi(Cri):
    """A containerd that looks CDI names up, in `cdi` below its home: 1.7 and later."""

    def configuration(self) -> dict[str, Any]:
        config = super().configuration()
        config["plugins"][CRI] |= {"enable_cdi": True, "cdi_spec_dirs": [str(self.home / "cdi")]}
        return config
