"""linux.rootfsPropagation: what spreads, from where, and how far."""

import os
from pathlib import Path
from typing import Any

import pytest

from containers import container
from minirun.core.errors import ConfigError
from minirun.core.kernel import mounts as m
from minirun.core.kernel import namespaces
from minirun.core.stages import s1_clone

OWN: dict[str, Any] = {"namespaces": [{"type": "mount"}]}


@pytest.mark.parametrize(
    ("word", "shared"),
    [
        ("", "master:"), ("rslave", "master:"), ("rprivate", ""),
        ("runbindable", ""), ("slave", "master:"), ("private", ""),
    ],
)  # fmt: skip
def test_propagation_of_the_root(
    tmp_path: Path, isolated: Any, mount_at: Any, word: str, shared: str
) -> None:
    def body() -> None:
        m.mount(None, "/", None, m.MS_REC | m.MS_SHARED)
        m.mount("tmpfs", str(tmp_path), "tmpfs")
        host = os.open("/proc/self/ns/mnt", os.O_RDONLY)  # stays alive, and is a peer from now on
        namespaces.unshare(namespaces.CLONE_NEWNS)
        assert "shared:" in mount_at(tmp_path)["shared"]
        s1_clone.isolate_mounts(container(tmp_path, linux={**OWN, "rootfsPropagation": word}))
        found = mount_at(tmp_path)["shared"]
        assert found.startswith(shared) if shared else not found
        os.close(host)

    isolated(body)


def test_an_unknown_propagation(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"linux\.rootfsPropagation: unknown value 'x'"):
        container(tmp_path, linux={"rootfsPropagation": "x"})


def test_a_shared_namespace_keeps_the_root_filesystem_to_itself(
    tmp_path: Path, tree: Path, isolated: Any, mount_at: Any
) -> None:
    """pivot_root(2) refuses a new root whose parent is shared; and the host would see mounts."""

    def body() -> None:
        m.mount("tmpfs", str(tree), "tmpfs")
        m.mount(None, "/", None, m.MS_REC | m.MS_SHARED)
        s1_clone.isolate_mounts(container(tmp_path, linux={**OWN, "rootfsPropagation": "shared"}))
        assert not mount_at(tree)["shared"]
        assert "shared:" in mount_at("/")["shared"]

    isolated(body)
