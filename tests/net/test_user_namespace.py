"""Bridges and ports by root of a user namespace that has a network namespace of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import STORE
from net.test_scenarios import SERVER
from required import installed

_STEPS = """
set -e
ip link set lo up
run() { env -u MINIRUN_NETWORK "$MINIRUN" --root "$PLACE/c" --store "$PLACE/s" "$@"; }
run run -d -q --name web -p 8080:80 busybox sh -c "$SERVER" >/dev/null
"$PYTHON" - <<'END'
import time, urllib.request
for at in ("127.0.0.1", "[::1]"):
    for _ in range(50):
        try:
            page = urllib.request.urlopen(f"http://{at}:8080/", timeout=2)
            print(at, page.read().decode().strip())
            break
        except OSError:
            time.sleep(0.1)
END
holder=$(pgrep -x minirun:ports -u 0 --ns $$ --nslist net)
grep -E '^(Name|Uid|CapEff|CapPrm):' /proc/$holder/status
shop=$(run network create shop)
run network inspect --format '{{.Name}} {{.Id}}' shop | grep -cx "shop $shop"
run run --rm -q --network shop busybox ip address show eth0 | grep -c 'inet 10.89.'
run network rm shop
run port web
run rm -f web
ip -o link | wc -l
nft list ruleset
"""


def test_bridge_and_port(command: str, tmp_path: Path) -> None:
    installed("nft")
    place = tmp_path / "place"
    (place / "s").mkdir(parents=True)
    for each in ("images", "layers", "blobs"):
        (place / "s" / each).symlink_to(f"{STORE}/{each}")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", _STEPS],
        env={
            "PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "MINIRUN": command,
            "PLACE": str(place), "SERVER": SERVER, "PYTHON": sys.executable,
        },
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "127.0.0.1 hello", "[::1] hello",
        "Name:\tminirun:ports", "Uid:\t0\t0\t0\t0",
        "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
        "1", "1", "shop", "80/tcp -> 0.0.0.0:8080", "80/tcp -> [::]:8080",
        "web", "1",
    ]  # fmt: skip
