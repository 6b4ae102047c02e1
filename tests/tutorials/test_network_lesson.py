"""Lesson 12 says that nothing of the learner's network is touched: the kernel's own words of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import minirun as package
from conftest import Program
from required import machine_has
from tutorials.publish.runner import blocks

ROOT = Path(package.__file__).parents[1]
WATCHED = """
ip link set lo up
stdbuf -oL ip -oneline monitor all >> "$notes/ip" & by_ip=$!
nft monitor >> "$notes/nft" & by_nft=$!
until [ -e "$notes/watched" ]; do
    ip address add 192.0.2.77/32 dev lo; ip address del 192.0.2.77/32 dev lo
    nft add table ip begin; nft delete table ip begin
    sleep 0.1
    if grep -q 192.0.2.77 "$notes/ip" && grep -q begin "$notes/nft"; then touch "$notes/watched"; fi
done
sleep 0.5
: > "$notes/ip"; : > "$notes/nft"
bash -eEuo pipefail "$notes/lesson" > "$notes/said" 2>&1
status=$?
ip address add 192.0.2.88/32 dev lo
nft add table ip end
sleep 0.5
kill $by_ip $by_nft
exit $status
"""
"""The lesson in a network namespace of its own, while ip(8) and nft(8) write down what changes."""


def test_no_link_address_route_rule_or_setting_of_the_host_changes(
    reachable: Program, tmp_path: Path
) -> None:
    text = (ROOT / "tutorials" / "12-network.en.md").read_text()
    machine_has(text)
    (tmp_path / "lesson").write_text("".join(block.commands for block in blocks(text)))
    env = os.environ | {
        **reachable.environment(), "LC_ALL": "C.UTF-8",
        "notes": str(tmp_path),
    }  # fmt: skip
    argv = ["unshare", "--net", "bash", "-c", WATCHED]
    done = subprocess.run(argv, cwd=ROOT, env=env, check=False, timeout=100)
    assert done.returncode == 0, (tmp_path / "said").read_text()
    for name, mark in (("ip", "192.0.2.88"), ("nft", "table ip end")):
        lines = (tmp_path / name).read_text().splitlines()
        assert [one for one in lines if mark not in one and "new generation" not in one] == []
        assert any(mark in one for one in lines), "it watched to the end"
