"""One fuzzed configuration: a bundle, `minirun run`, and what was wrong."""

import json
from pathlib import Path
from typing import Any

from fuzz import seeds
from fuzz.cage import Cage, Outcome, remove, small_root
from fuzz.mutate import mutated
from minirun.record import Record

_SPECS: dict[str, Any] = {}


class Case(Record):
    """What was changed, how it ended, and what was wrong with that."""

    said: str
    outcome: Outcome
    faults: "list[str]"


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
    said, data = mutated(seed, make(spec(cage), f"/{cage.name}/c"), cage.decoy.path)
    (bundle / "config.json").write_bytes(data)
    return Case(said, *judge(cage, bundle))


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
