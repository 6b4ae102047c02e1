"""The log against strace where config.json asks for what few containers ask for."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from conftest import Program
from truth.conftest import Check, matched, with_command


def test_namespaces_by_path_clocks_ids_and_propagation(
    minirun: Program, check: Check, bundle: Path
) -> None:
    with_command(bundle, "true")
    document: dict[str, Any] = json.loads((bundle / "config.json").read_text())
    rows = [r for r in document["linux"]["namespaces"] if r["type"] not in ("network", "time")]
    ids = [{"containerID": 0, "hostID": 1000, "size": 10}]
    (bundle / "host").mkdir()
    document["mounts"] += [
        {"destination": "/mnt", "source": str(bundle / "host"), "options": ["bind", "idmap"],
         "uidMappings": ids, "gidMappings": ids},
        {"destination": "/etc", "type": "tmpfs", "options": ["tmpcopyup", "ro"]},
    ]  # fmt: skip
    document["linux"]["rootfsPropagation"] = "shared"
    document["process"]["scheduler"] = {"policy": "SCHED_BATCH"}
    other = subprocess.Popen(["unshare", "--net", "sleep", "100"])
    try:
        path = f"/proc/{other.pid}/ns/net"
        document["linux"]["namespaces"] = [
            *rows,
            {"type": "network", "path": path},
            {"type": "time"},
        ]
        (bundle / "config.json").write_text(json.dumps(document))
        report = check(minirun, "run", "--bundle", str(bundle), f"{bundle.name}-{os.getpid()}")
    finally:
        other.kill()
        other.wait()
    assert matched(report)["setns"] == 1
    assert matched(report)["unshare"] == 2
