"""A container's record as minirun writes it, for tests that need no container."""

import os
from typing import Any

from minirun.common import docker_record
from minirun.common.docker_record import DockerRecord
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord


def whole(directory: str, **changes: Any) -> ContainerRecord:
    """Return a record for `directory` of a container that this process runs, and is."""
    alive = state.identity(os.getpid())
    record = ContainerRecord(
        ociVersion="1.2.0", id=os.path.basename(directory), status="running",
        pid=os.getpid(), bundle="/b", rootfs="/b/rootfs", annotations={},
        created=state.timestamp(), directory=directory, init=alive, supervisor=alive,
        complete=True,
        cgroup_path=f"/minirun/{os.path.basename(directory)}", systemd_cgroup=False,
        cgroup_version="auto",
    )  # fmt: skip
    docker = {name: changes.pop(name) for name in [*changes] if name in DockerRecord._fields}
    return docker_record.put(record._replace(**changes), DockerRecord(**docker))
