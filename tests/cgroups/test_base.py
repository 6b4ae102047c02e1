"""What every version of cgroups has to bring: one that forgot a part would deny nothing, unseen."""

import pytest

from minirun.cgroups.base import Cgroup
from minirun.cgroups.delegated import NoCgroup
from minirun.cgroups.v1 import CgroupV1
from minirun.cgroups.v2 import CgroupV2


@pytest.mark.parametrize("version", [CgroupV1, CgroupV2, NoCgroup])
@pytest.mark.parametrize("name", sorted(Cgroup.__abstractmethods__))
def test_a_version_without_a_part_cannot_be_made(version: type[Cgroup], name: str) -> None:
    forgetful = type("Forgetful", (version,), {name: getattr(Cgroup, name)})
    with pytest.raises(TypeError, match=name):
        forgetful("/x")


def test_the_device_rules_are_such_a_part() -> None:
    assert {"set_device_rules", "allow_devices", "set_resources"} <= Cgroup.__abstractmethods__
