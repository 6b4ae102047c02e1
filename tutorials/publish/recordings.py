"""Makes minirun/faces/recordings: runs real containers, with snapshots, and keeps their logs.

    sudo make recordings                           (needs the images busybox and ubuntu)
    sudo .venv/bin/python -m tutorials.publish.recordings plain      (some of them, by name)

Nothing is changed in what was logged. The containers live below /run/minirun-demo and the image
comes from the standard store, so that no path of a checkout or of a home directory occurs; this
program fails where one does. Figure 1's three logs are laid into one file in the order of time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from minirun.common import naming
from minirun.core.keeping import state
from minirun.core.keeping.places import EVENTS, STORE
from minirun.faces.recordings import path
from minirun.faces.show.log import find
from minirun.fast import launcher
from rootfs_tools import catalogue
from tutorials.publish.surroundings import CHECKOUT, plain_surroundings, refuse_private

# The tests have what starts a containerd of its own.
sys.path.append(str(CHECKOUT / "tests"))
from debian_packages import Archive, unpack
from engines.clients.cri_engine import Cri, CriWithCdi
from engines.clients.slurm_cluster import SlurmWithGpus
from engines.clients.swarm_engine import Swarm

ROOT = Path("/run/minirun-demo")
BIN = Path("/run/minirun-demo.bin")
MINIRUN = BIN / "minirun"
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "MINIRUN_ROOT": str(ROOT)}
"""The environment of a program that is observed."""
GPUS = ("--gpu-driver=simulated", "--gpus")
HOOK = {
    "path": str(MINIRUN),
    "args": ["minirun", "nvidia-container-runtime-hook", "prestart"],
    "env": ["MINIRUN_SIM=count=4", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
}
"""minirun's program in the place of NVIDIA's."""
SIMULATED = {"MINIRUN_SIM": "count=4"}
QUIET_HOOK = {"path": "/bin/sh", "args": ["sh", "-c", "cat >/dev/null"]}
FAILING_HOOK = {
    "path": "/bin/sh",
    "args": ["sh", "-c", "echo no licence for this machine >&2; exit 3"],
    "env": ["PATH=/usr/bin:/bin"],
}
ASKED = [{"key": "NVIDIA_VISIBLE_DEVICES", "value": "0,1"}]
BY_PLUGIN = {"cdi.k8s.io/nvidia-device-plugin_train": "nvidia.com/gpu=0"}
TRAIN = {"name": "train", "uid": "train", "namespace": "lessons"}
KUBELETS = {
    "masked_paths": [
        "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
        "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
        "/sys/firmware",
    ],
    "readonly_paths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
}  # fmt: skip
"""What a kubelet asks for with every container that is not privileged."""


def argv(*args: str) -> list[str]:
    """Return the command line of the program, with a state root of its own."""
    return [str(MINIRUN), "--root", str(ROOT), *args]


def minirun(*args: str, status: int = 0) -> str:
    """Run the program; return its standard output."""
    done = subprocess.run(argv(*args), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != status:
        sys.exit(f"minirun {' '.join(args)}: exit status {done.returncode}, not {status}")
    return done.stdout


def keep(name: str, *containers: str) -> None:
    """Write the logs of containers that have gone to the recording `name`."""
    lines = []
    for container in containers:
        log = find.of_container(container, str(ROOT))
        assert log
        lines += named(log.read_text(), container).splitlines(keepends=True)
    if len(containers) > 1:
        lines.sort(key=lambda line: json.loads(line)["t"])
    write(name, lines)


def named(text: str, name: str) -> str:
    """Return a log in which the container's id, 64 digits and their first 12, is its name.

    So a picture that is drawn of it says who is who, and is the same when it is recorded anew.
    """
    container_id = json.loads(text.partition("\n")[0])["id"]
    for each in (container_id, state.short(container_id)):
        text = text.replace(each, name)
    return text


def write(name: str, lines: list[str]) -> None:
    """Write a recording, unless it names what is this machine's alone."""
    text = "".join(lines)
    refuse_private(name, text)
    path(name).write_text(text)
    print(f"{path(name)}: {len(lines)} events, {len(text)} bytes")


def observe(name: str, *command: str, spec: Path | None = None) -> None:
    """Observe another program that starts a container, and keep what was seen.

    `spec`: it becomes the one file of /etc/cdi, for this program alone.
    """
    log = ROOT / "seen.jsonl"
    words = [str(MINIRUN), "observe", "-o", str(log), "--", *command]
    if "crun" in command:  # it refuses a cgroup2 beside version 1's hierarchies
        words = _apart('umount --all --types cgroup2; exec "$@"', *words)
    if spec:
        etc = f"lowerdir=/etc,upperdir={ROOT}/etc,workdir={ROOT}/work"
        mount = f"mount -t overlay overlay -o {etc} /etc; mkdir /etc/cdi; cp {spec} /etc/cdi"
        words = _apart(f'mkdir {ROOT}/etc {ROOT}/work; {mount}; exec "$@"', *words)
    done = subprocess.run(words, env=PLAIN, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    write(name, log.read_text().splitlines(keepends=True))


def _apart(script: str, *words: str) -> list[str]:
    """Return words that run a script of sh in a mount namespace of its own; "$@" is `words`."""
    return ["unshare", "--mount", "sh", "-c", script, "sh", *words]


def bundle(name: str, hook: dict[str, Any] | None, *words: str) -> Path:
    """Make a bundle of the configuration that minirun makes for itself, in a tree of busybox's."""
    config = json.loads(minirun("spec", "--name", name, *words))
    config["ociVersion"] = "1.0.2"  # crun 1.8 knows no later one
    config["hooks"] = {"prestart": [hook]} if hook else {}
    place = ROOT / f".{name}"
    layer = catalogue.resolve(STORE, "busybox").layers[0]
    shutil.copytree(layer, place / "rootfs", symlinks=True)
    (place / "config.json").write_text(json.dumps(config))
    return place


def plain() -> None:
    """One container, without GPUs."""
    minirun("run", "--rm", "--snapshots", "--name", "plain", "busybox", "echo", "hello")
    keep("plain", "plain")


def gpus() -> None:
    """One container with two GPUs."""
    command = ("busybox", "sh", "-c", "ls -l /dev; nvidia-smi -L")
    minirun("run", "--rm", "--snapshots", "--name", "gpus-0-1", *GPUS, "0,1", *command)
    keep("gpus-0-1", "gpus-0-1")


def cdi() -> None:
    """The same by CDI: what config.json says stage 1 does, and hooks before pivot_root."""
    command = ("busybox", "sh", "-c", "ls -l /dev; nvidia-smi -L")
    words = ("--gpu-mode", "cdi", *GPUS, "0,1", *command)
    minirun("run", "--rm", "--snapshots", "--name", "cdi", *words)
    keep("cdi", "cdi")


def figure_1() -> None:
    """Three containers that live at the same time and share GPUs 0 and 3."""
    wishes = {"a": "0,1", "b": "0,2,3", "c": "3"}
    flags = ("run", "-d", "--snapshots", *GPUS)
    started = []
    for name, gpus in wishes.items():
        started.append(
            subprocess.Popen(argv(*flags, gpus, "--name", name, "busybox", "sleep", "60"))
        )
        while not has_begun(name):
            time.sleep(0.001)  # one after the other, and yet at the same time
    assert not any(process.wait() for process in started)
    assert set(minirun("ps", "--format", "{{.Names}}").split()) == set(wishes), "all three live"
    for name in wishes:
        minirun("delete", "--force", name)
    keep("figure-1", *wishes)


def has_begun(name: str) -> bool:
    """Return True if the log of a container has events."""
    log = ROOT / (naming.id_of(str(ROOT), name) or name) / EVENTS
    return log.exists() and log.stat().st_size > 0


def failing_hook() -> None:
    """A container whose prestart hook fails."""
    config = json.loads(minirun("spec", "--name", "failing-hook", "busybox", "true"))
    config["hooks"] = {"prestart": [FAILING_HOOK]}
    bundle = ROOT / ".bundle"
    (bundle / "rootfs").mkdir(mode=0o700, parents=True)
    (bundle / "config.json").write_text(json.dumps(config))
    minirun("run", "--bundle", str(bundle), "failing-hook", status=1)
    keep("failing-hook", "failing-hook")


def runc() -> None:
    """A bundle that runc runs."""
    place = bundle("runc", QUIET_HOOK, "busybox", "echo", "hello")
    observe("runc", "runc", "--root", str(ROOT / ".runc"), "run", "--bundle", str(place), "runc")


def crun() -> None:
    """The same, by crun."""
    place = bundle("crun", QUIET_HOOK, "busybox", "echo", "hello")
    observe("crun", "crun", "--root", str(ROOT / ".crun"), "run", "--bundle", str(place), "crun")


def runc_gpus() -> None:
    """A bundle whose hook puts two GPUs in, run by runc."""
    command = ("busybox", "sh", "-c", "ls -l /dev; nvidia-smi -L")
    place = bundle("runc-gpus", HOOK, *GPUS, "0,1", *command)
    words = ("runc", "--root", str(ROOT / ".runc"), "run", "--bundle", str(place), "runc-gpus")
    observe("runc-gpus", *words)


def podman() -> None:
    """From podman's own execve on, with a storage of its own; the container has its name."""
    by_podman("podman", "echo", "hello")


def cdi_podman() -> None:
    """podman looks a CDI name up, and puts its edits into config.json; runc knows of no GPU.

    podman reads /etc/cdi, which is another one there.
    """
    spec = ROOT / "nvidia.json"
    words = argv("nvidia-ctk", "cdi", "generate", "--device", "0", "--output", str(spec))
    subprocess.run(words, env=PLAIN | SIMULATED, check=True)
    by_podman("cdi-podman", "ls", "/dev", flags=("--device", "nvidia.com/gpu=0"), spec=spec)


def by_podman(
    name: str, *command: str, flags: tuple[str, ...] = (), spec: Path | None = None
) -> None:
    """Observe a podman that runs a command; `spec`: the one file of /etc/cdi."""
    place = bundle(name, None, "busybox", "true")
    own = ROOT / f".{name}"
    words = ["podman", "--root", str(own / "root"), "--runroot", str(own / "run")]
    words += ["--tmpdir", str(own / "tmp"), "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
    words += ["--events-backend", "none", "run", "--rm", "--network", "none", "--hostname", name]
    words += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", *flags]
    observe(name, *words, "--rootfs", str(place / "rootfs"), *command, spec=spec)


def pod() -> None:
    """A pod of one container, by a RuntimeClass: what a kubelet asks of containerd.

    The handler is nvidia-container-runtime, which is minirun, and so is the runtime below it.
    """
    with tempfile.TemporaryDirectory(prefix="minirun-demo-", dir="/tmp") as folder:
        launcher.install(f"{folder}/minirun")  # /run is another one there
        cri = Cri("minirun", f"{folder}/minirun")
        try:
            sandbox = cri.pod(handler="nvidia", hostname="train", metadata=TRAIN)
            cuda = cri.start("sleep", "60", pod=sandbox, metadata={"name": "cuda"}, envs=ASKED,
                             security=KUBELETS)  # fmt: skip
            logs = [f"/run/containerd/runc/k8s.io/{each}/{EVENTS}" for each in (sandbox, cuda)]
            lines = cri.cell.run("cat", *logs, check=True).stdout.splitlines(keepends=True)
            assert cri.exec(cuda, "nvidia-smi", "-L").count("SIMULATED") == 2
        finally:
            cri.close()
    write("pod", sorted(lines, key=lambda line: float(json.loads(line)["t"])))


def cdi_containerd() -> None:
    """A pod whose container asks by an annotation, as a device plugin lets it."""
    with tempfile.TemporaryDirectory(prefix="minirun-demo-", dir="/tmp") as name:
        folder = Path(name)
        launcher.install(f"{folder}/minirun")
        unpack(Archive(folder, release="trixie").fetch("containerd"), folder)
        CriWithCdi.other = f"{folder}/usr/bin/containerd"
        cri = CriWithCdi("minirun", f"{folder}/minirun")
        try:
            words = [f"{folder}/minirun", "nvidia-ctk", "cdi", "generate"]
            words += ["--output", f"{cri.home}/cdi/nvidia.yaml"]
            subprocess.run(words, env=PLAIN | SIMULATED, check=True)
            sandbox = cri.pod(handler="minirun", hostname="train", metadata=TRAIN)
            cuda = cri.start("sleep", "60", pod=sandbox, metadata={"name": "cuda"},
                             annotations=BY_PLUGIN, security=KUBELETS)  # fmt: skip
            log = f"/run/containerd/runc/k8s.io/{cuda}/{EVENTS}"
            lines = cri.cell.run("cat", log, check=True).stdout.splitlines(keepends=True)
            assert cri.exec(cuda, "nvidia-smi", "-L").count("SIMULATED") == 1
        finally:
            cri.close()
    write("cdi-containerd", lines)


def slurm() -> None:
    """A job that Slurm gives GPU 1 of a node, since another one has GPU 0."""
    with tempfile.TemporaryDirectory(prefix="minirun-demo-", dir="/tmp") as folder:
        launcher.install(f"{folder}/minirun")
        cluster = SlurmWithGpus("minirun", f"{folder}/minirun")
        try:
            cluster.hold("--gres=gpu:1", "--nodelist=node1")
            cluster.cell.wait_for(lambda: bool(cluster.held()), "held")
            words = ("--gres=gpu:1", "--nodelist=node1", cluster.container())
            assert cluster(*words, "nvidia-smi", "-L").count("SIMULATED") == 1
            log = f"{cluster.ROOT}/root/.history/*.node1.root.2.0.0.jsonl"
            done = cluster.nodes["node1"].run("sh", "-c", f"cat {log}", check=True)
        finally:
            cluster.close()
    write("slurm", named(done.stdout, "slurm").splitlines(keepends=True))


def swarm() -> None:
    """A task that docker's swarm gives GPU 1 of a node, since another one has GPU 0."""
    with tempfile.TemporaryDirectory(prefix="minirun-demo-", dir="/tmp") as folder:
        launcher.install(f"{folder}/minirun")
        cluster = Swarm(f"{folder}/minirun")
        try:
            for name in ("first", "train"):
                cluster.service(name, 1, "--constraint=node.hostname==node2")
                cluster.manager.cell.wait_for(
                    lambda name=name: cluster.tasks(name)[0].state == "running", "dockerd"
                )
            (task,) = cluster.tasks("train")
            log = f"/run/docker/runtime-runc/moby/{task.container}/{EVENTS}"
            done = cluster.node(task.node).cell.run("cat", log, check=True)
        finally:
            cluster.close()
    write("swarm", named(done.stdout, "swarm").splitlines(keepends=True))


RECORDS = {
    "plain": plain, "gpus-0-1": gpus, "cdi": cdi, "figure-1": figure_1, "pod": pod,
    "failing-hook": failing_hook, "runc": runc, "crun": crun, "runc-gpus": runc_gpus,
    "podman": podman, "cdi-podman": cdi_podman, "cdi-containerd": cdi_containerd,
    "slurm": slurm, "swarm": swarm,
}  # fmt: skip


def main() -> None:
    """Make the recordings that the command line names, or all."""
    plain_surroundings()
    for directory in (ROOT, BIN):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o711)
    launcher.install(str(MINIRUN))  # the file that holds its code is open while it runs
    wanted = sys.argv[1:] or RECORDS
    for name in wanted:
        RECORDS[name]()
    shutil.rmtree(ROOT)
    shutil.rmtree(BIN)


if __name__ == "__main__":
    main()
