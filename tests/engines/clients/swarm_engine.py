"""docker's swarm of three nodes with SIMULATED GPUs; minirun is the runtime of each.

A node is a cell, as it were a machine of its own: a dockerd with its containerd, its /run, /etc and
store, its hostname. Node 1 is the manager, and has the bridge to which the others are linked. All
nodes have the same UUIDs: a GPU is told from another by its node and its UUID.
"""

import json
from typing import Any, ClassVar, NamedTuple

from conftest import STORE
from engines.clients import images, machines
from engines.clients.containerd_engine import REFERENCE
from engines.clients.engine import IMAGE, Engine, program

KIND = "NVIDIA-GPU"
FOLDERS = """
mount -t tmpfs none {store}
for folder in /etc /usr/local/bin; do
    mkdir -p /run/own$folder /run/work$folder
    options=lowerdir=$folder,upperdir=/run/own$folder,workdir=/run/work$folder
    mount -t overlay -o $options none $folder
done
mkdir -p /etc/docker /etc/nvidia-container-runtime
cd /usr/local/bin
ln -sf {minirun} nvidia-container-runtime
ln -sf {minirun} nvidia-container-runtime-hook
cp --remove-destination {home}/minirun minirun
"""
"""What a node has of its own: the files that users write lie where users put them."""
SIMULATED = """#!/bin/sh
exec {minirun} --gpu-driver=simulated "$@"
"""
"""The program under the name minirun: only root's configuration gives SIMULATED GPUs."""


class Task(NamedTuple):
    """A task that swarm wants to run: what the manager has written down of it."""

    node: str
    """The name of the node; "" for a task that waits."""
    gpus: tuple[str, ...]
    """The UUIDs that the scheduler has chosen."""
    state: str
    error: str
    container: str


class Node(Engine):
    """One dockerd, told of minirun and of its GPUs by the files that users are given."""

    daemon_json: ClassVar[dict[str, Any]] = {}
    """What it has in daemon.json besides."""

    def __init__(self, number: int, minirun: str, gpus: int) -> None:
        self.name = f"node{number}"
        self.uuids = [f"GPU-aaaaaaaa-0000-4000-8000-{at:012x}" for at in range(gpus)]
        super().__init__("minirun", minirun)

    def set_up(self) -> None:
        """Start the daemon; `load` waits for it."""
        words = {"minirun": self.minirun, "home": self.home, "store": STORE}
        (self.home / "minirun").write_text(SIMULATED.format(**words))
        (self.home / "minirun").chmod(0o755)
        self.cell.run("sh", "-ec", FOLDERS.format(**words), check=True)
        self.write("/etc/nvidia-container-runtime/config.toml", self.config_toml())
        rows = {"node-generic-resources": [f"{KIND}={uuid}" for uuid in self.uuids]}
        theirs = json.loads((REFERENCE / "swarm-daemon.json").read_text())
        self.write("/etc/docker/daemon.json", json.dumps(theirs | rows | self.daemon_json))
        self.env = {"MINIRUN_SIM": f"count={len(self.uuids)}"}
        flags = ("--data-root", f"{self.home}/data", "--cgroup-parent", self.cell.parent)
        self.cell.start(program("dockerd"), *flags, log="dockerd", env=self.env)
        self.client = (program("docker"),)

    def config_toml(self) -> str:
        return (REFERENCE / "swarm-config.toml").read_text()

    def write(self, path: str, text: str) -> None:
        self.cell.run("tee", path, input=text, check=True)

    def load(self) -> None:
        self.cell.wait_for(lambda: self.full("version").returncode == 0, "dockerd")
        self("load", "--input", str(images.archive(self.home / "image.tar", IMAGE)))

    def says(self, *args: str) -> str:
        """What minirun prints to a user at this node's shell."""
        done = self.cell.run(self.minirun, *args, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Swarm:
    """Three nodes. Calling it runs docker on the manager.

    The manager takes a node for down after three `heartbeat`s, each half a second more or less.
    """

    def __init__(
        self,
        minirun: str,
        gpus: int = 4,
        kinds: tuple[type[Node], ...] = (Node, Node, Node),
        heartbeat: str = "5s",
    ) -> None:
        self.heartbeat = heartbeat
        self.nodes: list[Node] = []
        try:
            for number, kind in enumerate(kinds, 1):
                self.nodes.append(kind(number, minirun, gpus))
            self.join()
        except BaseException:
            self.close()
            raise
        words = ("info", "--format={{.Swarm.NodeID}}")
        self.names = {node(*words): node.name for node in self.nodes}

    def join(self) -> None:
        """Make a swarm of the nodes, which are linked."""
        self.manager, *workers = self.nodes
        addresses = machines.connect({node.name: node.cell for node in self.nodes})
        address = addresses[self.manager.name]
        for node in self.nodes:
            node.load()
        flags = (f"--advertise-addr={address}", f"--dispatcher-heartbeat={self.heartbeat}")
        self("swarm", "init", *flags)
        token = self("swarm", "join-token", "--quiet", "worker")
        for node in workers:
            node("swarm", "join", "--token", token, f"{address}:2377")

    def __call__(self, *args: str) -> str:
        return self.manager(*args)

    def service(self, name: str, gpus: int, *flags: str) -> None:
        """Create a service whose tasks sleep, each with `gpus` GPUs.

        It publishes no port: swarm's load balancer needs IP_VS, which not every kernel has. Nor
        has it an overlay network: docker before 23.0.2 ends a task with GPUs if its node is updated
        (moby/moby #44378), as the first overlay network there does.
        """
        resource = (f"--generic-resource={KIND}={gpus}",) if gpus else ()
        quick = ("--stop-signal=KILL", "--restart-delay=100ms", "--detach", "--no-resolve-image")
        self("service", "create", "--name", name, *resource, *quick, *flags, IMAGE, "sleep", "1000")

    def typed(self, machine: str, command: str) -> str:
        """What a command prints on a machine, in words of a user. No registry is asked here."""
        node = self.node(machine)
        line = command.replace("service create", "service create --no-resolve-image")
        done = node.cell.run("sh", "-c", line, env=node.env)
        return done.stdout + done.stderr

    def tasks(self, *services: str) -> list[Task]:
        """Return the tasks of services that are to run, whether they do or wait."""
        wanted = ("--quiet", "--no-trunc", "--filter=desired-state=running")
        names = self("service", "ps", *wanted, *services).split()
        rows = self.manager.json("inspect", "--type=task", *names) if names else []
        return [self.task(row) for row in rows]

    def task(self, row: dict[str, Any]) -> Task:
        """Read a task as `docker inspect` shows it."""
        status = row["Status"]
        chosen = [each["NamedResourceSpec"] for each in row.get("GenericResources") or []]
        return Task(
            self.names.get(row.get("NodeID", ""), ""),
            tuple(each["Value"] for each in chosen if each["Kind"] == KIND),
            status["State"],
            status.get("Err", ""),
            status.get("ContainerStatus", {}).get("ContainerID", ""),
        )

    def node(self, name: str) -> Node:
        (found,) = [node for node in self.nodes if node.name == name]
        return found

    def end(self, node: Node) -> None:
        """End a node at once, with all its processes, as by a power cut."""
        self.nodes.remove(node)
        node.close()

    def close(self) -> None:
        while self.nodes:
            self.nodes.pop().close()
