"""What is done with each hostile image: the flags and configurations that touch its files."""

import json
from pathlib import Path

from fuzz import configurations, seeds
from fuzz.cage import Cage, Outcome, remove, small_root
from fuzz.images import IMAGES

_DETAILS = {
    "name": "evil", "tag": "latest", "origin": "a test", "digest": "sha256:" + "0" * 64, "size": 1,
    "architecture": "amd64", "created": "2026-01-01T00:00:00+00:00", "layers": ["layers/0"],
    "env": ["PATH=/bin"], "entrypoint": [], "cmd": ["true"], "workdir": "/", "user": "",
    "recipe": {},
}  # fmt: skip
RUNS = {
    "plain": (),
    "a user": ("-u", "ann", "-w", "/work"),
    "a user and group": ("-u", "ann:wheel", "--read-only", "-w", "/srv/x"),
    "volumes": ("-v", "SRV:/srv/x", "-v", "SRV/file:/etc/hosts", "-v", "SRV:/usr/lib/x",
                "-v", "SRV/file:/etc/passwd"),
    "a user namespace": ("--uidmap", "0:100000:65536",),
    "the host's network": ("--net", "host"),
    "devices": ("--device", "/dev/fuse:/dev/fuse", "--device", "/dev/full:/srv/full"),
    "gpus": ("--gpus", "0", "--gpu-driver", "simulated"),
    "gpus by CDI": ("--gpus", "0", "--gpu-driver", "simulated", "--gpu-mode", "cdi"),
}  # fmt: skip
SEEDS = ("plain", "rich", "podman")
_KNOWN_STATUS = (0, 1, 125, 126, 127)


def store(cage: Cage) -> Path:
    """A store with one image, evil."""
    folder = cage.folder / "store/images/evil"
    (folder / "layers").mkdir(parents=True)
    folder.parent.chmod(0o711)
    (folder / "image.json").write_text(json.dumps(_DETAILS))
    return folder / "layers/0"


def by_flags(cage: Cage, image: str, how: str) -> tuple[Outcome, list[str]]:
    """`minirun run FLAGS evil true`, on a new copy of the image."""
    folder = cage.folder / "store"
    layer = store(cage)
    small_root(layer)
    IMAGES[image](layer, cage.decoy.path)
    seeds.bundle(cage.folder / "bundle")
    flags = [word.replace("SRV", str(cage.folder / "bundle/srv")) for word in RUNS[how]]
    outcome = cage.run("--store", str(folder), "run", "--rm", "--name", "c", *flags, "evil",
                       "/bin/true", seconds=30)  # fmt: skip
    return outcome, _judge(cage, outcome, folder)


def by_bundle(cage: Cage, image: str, seed: str) -> tuple[Outcome, list[str]]:
    """`minirun run --bundle` with one of the seeds' configurations."""
    bundle = cage.folder / "bundle"
    seeds.bundle(bundle)
    layer = small_root(bundle / "rootfs")
    make = getattr(seeds, seed)
    if make is seeds.podman:
        seeds.give_away(layer)
    IMAGES[image](layer, cage.decoy.path)
    config = make(configurations.spec(cage), f"/{cage.name}/c")
    (bundle / "config.json").write_text(json.dumps(config))
    outcome = cage.run("run", "--bundle", str(bundle), "c", cwd=bundle, seconds=30)
    return outcome, _judge(cage, outcome, bundle)


def _judge(cage: Cage, outcome: Outcome, folder: Path) -> list[str]:
    faults = cage.faults(outcome)
    if outcome.status not in _KNOWN_STATUS:
        faults.append(f"status {outcome.status}")
    state = cage.folder / "state"
    if state.is_dir() and [path for path in state.iterdir() if path.name[0] != "."]:
        faults.append("a record left")
        cage.run("delete", "--force", "c")
    for path in (folder, cage.folder / "bundle"):
        if path.exists():
            remove(path)
    return faults
