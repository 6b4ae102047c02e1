"""Slurm with a controller and two nodes of four SIMULATED GPUs each: three cells.

The nodes are told of minirun, and of their GPUs, by the files that users are given. Nodes in the
controller's home stand for /dev/nvidia0 and so on: Slurm wants them to be there.
"""

import os
import re
import shutil
import subprocess
import uuid
from typing import Any

from conftest import wait_until
from engines.clients import machines
from engines.clients.cell import Cell
from engines.clients.containerd_engine import REFERENCE, link
from engines.clients.engine import program
from engines.clients.slurm_engine import CONF, Slurm, make_bundle, munge
from minirun.fast import launcher

GPUS = 4
"""Of each node."""
FAST = """
SlurmdTimeout=5
MessageTimeout=3
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
"""
"""A node that is dead is found soon; and its processors are taken for those that it says it has."""
LIST = ("sh", "-c", "echo $(hostname) $(ls /dev | grep 'nvidia[0-9]')")
BUNDLES = "/run/bundles"
"""Where each node has its bundles: two containers of one bundle would be in one cgroup."""


class SlurmWithGpus(Slurm):
    """`cell` is the controller's; a call runs srun there."""

    def set_up(self) -> None:
        self.path = str(self.home / "minirun")  # an ordinary user's jobs execute it, too
        launcher.install(self.path)
        self.nodes = {name: Cell() for name in ("node1", "node2")}
        machines.connect({"head": self.cell, **self.nodes})
        home = self.home
        more = FAST + (REFERENCE / "slurm-gpus.conf").read_text().replace("/etc/", f"{home}/etc/")
        self.configure("slurm-gpus-oci.conf", CONF.format(home=home, host="head", more=more))
        oci = home / "etc/oci.conf"
        oci.write_text(self.simulated(oci.read_text()))
        (home / "etc/slurm").mkdir()
        shutil.copy(REFERENCE / "slurm-prolog.sh", home / "etc/slurm/prolog.sh")
        gres = (REFERENCE / "slurm-gres.conf").read_text().replace("/dev/", f"{home}/")
        (home / "etc/gres.conf").write_text(gres)
        for number in range(GPUS):
            os.mknod(home / f"nvidia{number}", 0o20666, os.makedev(195, number))
        key = os.urandom(64)
        munge(self.cell, key)
        self.cell.start(program("slurmctld"), "-D", log="slurmctld", env=self.env)
        for name, cell in self.nodes.items():
            munge(cell, key)
            script = f"mkdir {cell.home}{BUNDLES} -p; mkdir {BUNDLES}; mount --bind"
            cell.run("sh", "-ec", f"{script} {cell.home}{BUNDLES} {BUNDLES}", check=True)
            # as a service of systemd has it: without $HOME
            words = ("env", "--unset=HOME", program("slurmd"), "-D", "-N", name)
            cell.start(*words, log="slurmd", env=self.env)
        self.cell.wait_for(self.ready, "slurmctld")

    def simulated(self, oci: str) -> str:
        """oci.conf with simulated GPUs."""
        return oci.replace("--gpus=", "--gpu-driver=simulated --gpus=")

    def states(self) -> list[str]:
        """The state of each node, in Slurm's words."""
        words = ("sinfo", "--noheader", "--Node", "--format=%T")
        return self.cell.run(*words, env=self.env).stdout.split()

    def ready(self) -> bool:
        return self.states() == ["idle", "idle"]

    def container(self, **more: Any) -> str:
        """The flag for a new bundle, which each node has; `more` are variables in it."""
        name = uuid.uuid4().hex[:8]
        for cell in self.nodes.values():
            path = cell.home / BUNDLES.lstrip("/") / name
            make_bundle(path, f"{cell.parent}/{name}", **more)
        return f"--container={BUNDLES}/{name}"

    def hold(self, *flags: str) -> subprocess.Popen[str]:
        """Start a job that keeps its GPUs until it is cancelled; it prints a line of `held`."""
        wait = "trap exit TERM; sleep 1000 & wait"
        words = (*flags, self.container(), *LIST[:2], f"{LIST[2]}; {wait}")
        return self.cell.start(*self.client, *words, log="held", env=self.env)

    def held(self) -> list[list[str]]:
        """The node and the GPUs of each job that `hold` has started, and that runs."""
        path = self.home / "held"
        rows = path.read_text().splitlines() if path.exists() else []
        return [row.split() for row in rows if row.startswith("node")]

    def typed(self, machine: str, command: str) -> str:
        """What a command prints on a machine, in words of a user; with & its first line."""
        cell = self.nodes.get(machine, self.cell)
        bundle = self.container() if "=/srv/bundle" in command else ""
        line = command.replace("--container=/srv/bundle", bundle)
        line = re.sub("^minirun ", f"{self.path} ", line)
        if not line.endswith(" &"):
            done = cell.run("sh", "-c", line, env=self.env)
            return done.stdout + done.stderr
        cell.start("sh", "-c", f"exec {line[:-2]}", log="typed", env=self.env)
        file = cell.home / "typed"
        wait_until(lambda: file.read_text().endswith("\n"))
        return file.read_text()

    def queue(self, form: str) -> list[str]:
        """What squeue says of all jobs, by its `--format`: a line for each."""
        done = self.cell.run("squeue", "--noheader", f"--format={form}", env=self.env)
        return done.stdout.splitlines()

    def clean(self) -> None:
        self.cell.run("scancel", "--user=root", env=self.env)
        wait_until(self.ready)
        (self.home / "held").unlink(missing_ok=True)

    def close(self) -> None:
        for cell in self.nodes.values():
            cell.close()
        super().close()


class SlurmWithNvidiasRuntime(SlurmWithGpus):
    """The line that Slurm's documentation has: NVIDIA's runtime, which is minirun here."""

    def simulated(self, oci: str) -> str:
        folder = self.home / "nvidia-container-runtime"
        folder.mkdir()
        link(folder / "nvidia-container-runtime", self.path)
        runtimes = f'nvidia-container-runtime.runtimes = ["{self.path}"]\n'
        (folder / "config.toml").write_text(runtimes)
        runtime = (
            f"MINIRUN_SIM=count={GPUS} XDG_CONFIG_HOME={self.home} exec {folder}/{folder.name}"
        )
        head, _, run = oci.partition("RunTimeRun=")
        assert run.startswith(f'"exec {self.path} ')
        line = run.replace(f"exec {self.path}", runtime)
        return f"{head}RunTimeRun={re.sub('--gpus=`.*`', '', line)}"
