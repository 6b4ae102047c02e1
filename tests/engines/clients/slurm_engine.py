"""Slurm in a cell: a controller and one node, which runs containers by oci.conf.

Its daemons trust each other by munge in real life: it is started here too.
"""

import json
import os
import shutil
import subprocess

from engines.clients.containerd_engine import REFERENCE
from engines.clients.engine import Engine, program
from layers import layer_of

CONF = """
ClusterName=cell
SlurmctldHost=node
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/munge/socket
StateSaveLocation={home}/ctld
SlurmdSpoolDir={home}/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=1
NodeName=node CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


NODE = """
hostname node
mount --bind {home}/hosts /etc/hosts
ip link add node0 type bridge
ip address add 10.98.0.1/24 dev node0
ip link set node0 up
"""
"""A name and an address: slurmd wants another one than 127.0.0.1."""
PATH = "PATH=/bin:/usr/bin"


class Slurm(Engine):
    """slurmctld, slurmd and munged; calling it runs srun."""

    ROOT = "/run/minirun-slurm"
    """The state root that oci.conf names."""

    def set_up(self) -> None:
        home = self.home
        for folder in ("ctld", "spool", "etc"):
            (home / folder).mkdir()
        (home / "hosts").write_text("127.0.0.1 localhost\n10.98.0.1 node\n")
        self.cell.run("sh", "-ec", NODE.format(home=home), check=True)
        (home / "etc/slurm.conf").write_text(CONF.format(home=home))
        text = (REFERENCE / "slurm-oci.conf").read_text()
        (home / "etc/oci.conf").write_text(text.replace("/usr/local/bin/minirun", self.path))
        self.env["SLURM_CONF"] = str(home / "etc/slurm.conf")
        self.client = (program("srun"), "--quiet")
        self.make_bundle()
        self.munge()
        for name in ("slurmctld", "slurmd"):
            self.cell.start(program(name), "-D", log=name, env=self.env)
        self.cell.wait_for(self.ready, "slurmd")

    def munge(self) -> None:
        """The daemon that makes and checks credentials, with a key of its own."""
        key = self.home / "etc/munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        self.cell.run("mkdir", "-m", "755", "/run/munge", check=True)
        places = [
            f"--{name}=/run/munge/{name}"
            for name in ("socket", "pid-file", "log-file", "seed-file")
        ]
        flags = (f"--key-file={key}", "--num-threads=1", "--force", *places)
        self.cell.run(program("munged"), *flags, check=True)

    def ready(self) -> bool:
        """Whether the node waits for work."""
        said = self.cell.run("sinfo", "--noheader", "--format=%T", env=self.env)
        return said.stdout.strip() == "idle"

    def make_bundle(self) -> None:
        """A bundle of busybox. Slurm changes its process and its mounts, and runs that."""
        self.bundle = self.home / "bundle"
        self.bundle.mkdir()
        source = layer_of("busybox")
        shutil.copytree(source, self.bundle / "rootfs", symlinks=True)
        kinds = ("pid", "mount", "ipc", "uts")
        config = {
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": False},
            "process": {"cwd": "/", "args": ["sh"], "user": {"uid": 0, "gid": 0}, "env": [PATH]},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {
                "cgroupsPath": f"{self.cell.parent}/job",
                "namespaces": [{"type": kind} for kind in kinds],
                "resources": {"devices": [{"allow": True, "access": "rwm"}]},
            },
        }
        (self.bundle / "config.json").write_text(json.dumps(config))

    def job(self, *args: str, code: int = 0) -> str:
        """`srun --container` of a command; check its exit status, return its output."""
        return self(f"--container={self.bundle}", *args, code=code)

    def begin(self) -> subprocess.Popen[str]:
        """Start a job that runs until it is told to end, and then has the status 3."""
        script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done"
        words = (f"--container={self.bundle}", "sh", "-c", script)
        log = self.home / "srun"
        log.unlink(missing_ok=True)
        job = self.cell.start(*self.client, *words, log=log.name, env=self.env)
        self.cell.wait_for(lambda: "ready" in log.read_text(), log.name)
        return job

    def containers(self) -> str:
        """The name of the container that runs: node.user.job.step.task."""
        return self.cell.run("ls", self.ROOT).stdout.strip()

    def clean(self) -> None:
        self.cell.run("scancel", "--user=root", "--state=running", env=self.env)
        self.cell.wait_for(self.ready, "slurmd")
