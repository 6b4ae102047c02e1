"""GPU containers over three machines: docker's swarm starts them, and one machine dies.

The peer is runc as each node's runtime, with as many containers and no GPU. The two take turns;
every container is a busybox that sleeps. The GPUs are SIMULATED, and so many on each machine.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from engines.clients.swarm_engine import Node, Swarm
from minirun.fast import launcher


class ByRunc(Node):
    """A node whose default runtime is runc."""

    daemon_json: ClassVar[dict[str, Any]] = {"default-runtime": "runc"}


def main() -> int:
    """Measure, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=20, help="on each machine, at most 32")
    args = parser.parse_args()
    took: dict[str, list[float]] = {"minirun": [], "runc": []}
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        path = f"{place}/minirun"
        launcher.install(path)
        for _ in range(args.runs):
            took["minirun"].append(with_gpus(path, args.gpus))
            took["runc"].append(without(path, args.gpus))
    one, other = (statistics.median(took[name]) for name in ("minirun", "runc"))
    print(f"minirun with a GPU each {one:.1f} s, runc without {other:.1f} s: {one / other:.2f} ×")
    return 0


def with_gpus(path: str, count: int) -> float:
    """Start a container for each GPU, and end a machine; return the seconds until all run."""
    swarm = Swarm(path, count, heartbeat="1s")
    try:
        took = started(swarm, 3 * count, 1)
        given = [(task.node, uuid) for task in swarm.tasks("all") for uuid in task.gpus]
        print(f"{len(given)} containers run after {took:.1f} s, {len(set(given))} GPUs given")
        begin = time.monotonic()
        swarm.end(swarm.node("node3"))
        status = ("node", "ls", "--filter=name=node3", "--format={{.Status}}")
        down = waited(lambda: swarm(*status) == "Down", begin)
        refused = "insufficient resources on 2 nodes"
        late = waited(
            lambda: [refused in t.error for t in swarm.tasks("all")].count(True) == count, begin
        )
        print(f"node3 dies: Down after {down:.1f} s; its {count} tasks wait after {late:.1f} s")
    finally:
        swarm.close()
    return took


def without(path: str, count: int) -> float:
    """Start as many by runc, without GPUs; return the seconds until all run."""
    swarm = Swarm(path, kinds=(ByRunc,) * 3, heartbeat="1s")
    try:
        return started(swarm, 3 * count, 0)
    finally:
        swarm.close()


def started(swarm: Swarm, count: int, gpus: int) -> float:
    """Start a service of so many tasks; return the seconds until all run."""
    begin = time.monotonic()
    swarm.service("all", gpus, f"--replicas={count}")
    return waited(lambda: [t.state for t in swarm.tasks("all")].count("running") == count, begin)


def waited(condition: Callable[[], bool], begin: float) -> float:
    """Wait for a condition; return the seconds since `begin`."""
    while not condition():
        if time.monotonic() - begin > 300:
            raise SystemExit("waited in vain for 300 s")
        time.sleep(0.1)
    return time.monotonic() - begin


if __name__ == "__main__":
    raise SystemExit(main())
