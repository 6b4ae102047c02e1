"""One fuzzed configuration: a bundle, `minirun run`, and what was wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from fuzz import seeds
from fuzz.cage import Cage, Outcome, remove, small_root
from fuzz.mutate import TEXTS, mutated
from minirun.core.keeping.record import Record

_KEYS = (
    *(f"io.minirun.{key}" for key in (
        "layers", "volatile", "gpu-driver", "gpus", "driver-root", "load-kmods", "gpu-mode",
        "gpu-exclusive", "log", "", "unknown")),
    "cdi.k8s.io/x", "cdi.k8s.io/", "io.container.manager", "io.podman.annotations.cid-file",
    "io.kubernetes.cri-o.Devices", "io.kubernetes.cri.container-type",
    "run.oci.keep_original_groups",
    "run.oci.hooks.stderr", "run.oci.hooks.stdout", "run.oci.handler", "run.oci.mount_context_type",
    "run.oci.pidfd_receiver", "run.oci.seccomp_bpf_data", "run.oci.systemd.subgroup",
    "org.systemd.property.ExecStop", "org.criu.config", "run.oci.criu.path", "RESERVED",
)  # fmt: skip
_VALUES = (
    "all",
    "nvidia",
    "amd",
    "intel",
    "gaudi",
    "simulated",
    "true",
    "hook",
    "nvidia.com/gpu=all",
    "nvidia.com/gpu=../../x",
    "AMD_VISIBLE_DEVICES=all",
    "exec",
    "stages",
    "0,1",
    "count=4",
)
_SPECS: dict[str, Any] = {}


class Case(Record):
    """What was changed, how it ended, and what was wrong with that."""

    said: str
    outcome: Outcome
    faults: list[str]


def spec(cage: Cage) -> dict[str, Any]:
    """`minirun spec`'s configuration."""
    if "" not in _SPECS:
        _SPECS[""] = json.loads(cage.run("spec", "busybox", "true").stdout)
    return dict(_SPECS[""])


def run(cage: Cage, seed: int) -> Case:
    """Run the configuration of one seed, in a bundle that is made for it and removed."""
    bundle = cage.folder / "bundle"
    seeds.bundle(bundle)
    small_root(bundle / "rootfs")
    make = seeds.SEEDS[seed % len(seeds.SEEDS)]
    if make is seeds.podman:
        seeds.give_away(bundle / "rootfs")
    config = make(spec(cage), f"/{cage.name}/c")
    if seed % 7 == 0:
        config["annotations"] |= annotations(seed, cage.decoy.path)
    said, data = mutated(seed, config, cage.decoy.path)
    (bundle / "config.json").write_bytes(data)
    return Case(said, *judge(cage, bundle))


def annotations(seed: int, decoy: Path) -> dict[str, str]:
    """Hostile annotations, as an image's manifest brings them: some of the known names."""
    dice = random.Random(seed)
    texts = [text.replace("DECOY", str(decoy)) for text in TEXTS]
    return {dice.choice(_KEYS): dice.choice((*texts, *_VALUES)) for _ in range(4)}


def judge(cage: Cage, bundle: Path) -> tuple[Outcome, list[str]]:
    """Run a bundle; return how it ended and what was wrong, and remove it."""
    outcome = cage.run("run", "--bundle", str(bundle), "c", cwd=bundle)
    faults = cage.faults(outcome)
    state = cage.folder / "state"
    if state.is_dir() and [path for path in state.iterdir() if path.name[0] != "."]:
        faults.append("a record left")
        cage.run("delete", "--force", "c")
    remove(bundle)
    return outcome, faults
