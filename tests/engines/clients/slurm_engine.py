"""Slurm in a cell: a controller and its nodes, which run containers by oci.conf.

Its daemons trust each other by munge in real life: it is started here too.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from engines.clients import machines
from engines.clients.cell import Cell
from engines.clients.containerd_engine import REFERENCE
from engines.clients.engine import Engine, program
from layers import layer_of
from minirun.oci import run_config

CONF = """
ClusterName=cell
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/munge/socket
StateSaveLocation={home}/ctld
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=1
{more}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
ONE = "NodeName=node CPUs=2 State=UNKNOWN"
PATH = "PATH=/bin:/usr/bin"


class Slurm(Engine):
    """slurmctld, slurmd and munged; calling it runs srun."""

    ROOT = "/run/minirun-slurm"
    """The state root that oci.conf names."""

    def set_up(self) -> None:
        machines.connect({"node": self.cell})
        self.configure("slurm-oci.conf", CONF.format(home=self.home, host="node", more=ONE))
        self.bundle = self.home / "bundle"
        make_bundle(self.bundle, f"{self.cell.parent}/job")
        munge(self.cell, os.urandom(64))
        for name in ("slurmctld", "slurmd"):
            self.cell.start(program(name), "-D", log=name, env=self.env)
        self.cell.wait_for(self.ready, "slurmd")

    def configure(self, oci: str, conf: str) -> None:
        """Write slurm.conf, and oci.conf as the users have it: the file `oci`."""
        for folder in ("ctld", "spool", "etc"):
            (self.home / folder).mkdir()
        (self.home / "etc/slurm.conf").write_text(conf)
        text = (REFERENCE / oci).read_text().replace("/usr/local/bin/minirun", self.path)
        (self.home / "etc/oci.conf").write_text(text)
        self.env["SLURM_CONF"] = str(self.home / "etc/slurm.conf")
        self.client = (program("srun"), "--quiet")

    def ready(self) -> bool:
        """Whether the node waits for work."""
        said = self.cell.run("sinfo", "--noheader", "--format=%T", env=self.env)
        return said.stdout.strip() == "idle"

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


def make_bundle(bundle: Path, cgroup: str, **more: Any) -> None:
    """Make a bundle of busybox, as `spec` does. Slurm changes its process, and runs that.

    `more` are further variables of its config.json.
    """
    bundle.mkdir()
    shutil.copytree(layer_of("busybox"), bundle / "rootfs", symlinks=True)
    env = [PATH, *(f"{name}={value}" for name, value in more.items())]
    config = run_config.example()
    config["root"]["readonly"] = False
    config["process"] |= {"terminal": False, "env": env, "rlimits": []}
    config["linux"]["cgroupsPath"] = cgroup
    config.pop("hostname", None)  # a job sees the name of its node
    (bundle / "config.json").write_text(json.dumps(config))


def munge(cell: Cell, key: bytes) -> None:
    """Start the daemon that makes and checks credentials, with the key of the cluster."""
    file = cell.home / "munge.key"
    file.write_bytes(key)
    file.chmod(0o400)
    cell.run("mkdir", "-m", "755", "/run/munge", check=True)
    places = [
        f"--{name}=/run/munge/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")
    ]
    flags = (f"--key-file={file}", "--num-threads=1", "--force", *places)
    cell.run(program("munged"), *flags, check=True)
