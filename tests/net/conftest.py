"""A host of its own for each test of networks: see hosts.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from net.hosts import Host, host
from required import installed


@pytest.fixture
def network_host(command: str, tmp_path: Path) -> Iterator[Host]:
    """A host with an address, and another one outside; what is left afterwards fails the test."""
    for program in ("ip", "nft"):
        installed(program)
    with host(command, tmp_path) as made:
        before = made.state()
        yield made
        made.clean()
        after = made.state()
        assert {key: after[key] for key in before if after[key] != before[key]} == {}
