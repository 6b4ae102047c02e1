"""Recordings that come with minirun, for `minirun replay NAME` and for lessons without root.

Each is the log of containers that really ran, with a snapshot at each boundary of a stage; of other
runtimes' starts it is what `minirun observe` inferred from strace. tutorials/publish/recordings.py
(`make recordings`) made them. Nothing in them was written by hand. Where they have GPUs these are
the simulated driver's, and the events say so: SIMULATED.
"""

from pathlib import Path

RECORDINGS = {
    "plain": "a container without a GPU: stages 4 and 5 have nothing to do",
    "gpus-0-1": "a container with GPUs 0 and 1 (SIMULATED): all seven stages",
    "cdi": "the same GPUs by CDI (SIMULATED): stage 1 makes their nodes, and 4 and 5 are empty",
    "figure-1": "a with GPUs 0,1, b with 0,2,3, c with 3 (SIMULATED), side by side",
    "pod": "a pod of one container, by containerd's CRI and a RuntimeClass (SIMULATED GPUs)",
    "slurm": "a job of Slurm, on a node whose GPU 0 is another job's (SIMULATED)",
    "swarm": "a task of docker's swarm, on a node whose GPU 0 is another task's (SIMULATED)",
    "failing-hook": "a prestart hook that fails: no container comes of it",
    "runc": "runc 1.1, observed: what the real one does in the same stages",
    "crun": "crun 1.8, observed",
    "runc-gpus": "runc 1.1 with NVIDIA's hook, which is minirun's (SIMULATED), observed",
    "cdi-containerd": "containerd 1.7 looks up the CDI name of a pod (SIMULATED)",
    "cdi-podman": "podman looks a CDI name up, runc makes the node (SIMULATED), observed",
    "podman": "podman, conmon and runc, observed: the whole path from the command line",
}
"""Name → what it shows."""
OBSERVED = ("runc", "crun", "runc-gpus", "cdi-podman", "podman")
"""Those of other runtimes: their messages, mounts and actors are not minirun's."""
OWN = tuple(name for name in RECORDINGS if name not in OBSERVED)


def path(name: str) -> Path:
    """Return the file of a shipped recording. Raises KeyError for a name that is none."""
    if name not in RECORDINGS:
        raise KeyError(name)
    return Path(__file__).with_name(f"{name}.jsonl")
