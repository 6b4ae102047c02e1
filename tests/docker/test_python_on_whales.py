"""python-on-whales drives docker's command line from Python; it is told that its name is minirun.

It reads what inspect, ps, events and the like print into typed records, and tells one refusal from
another by docker's words.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from python_on_whales import Container, DockerClient
from python_on_whales.exceptions import (
    DockerException,
    NoSuchContainer,
    NoSuchImage,
    NoSuchNetwork,
    NoSuchVolume,
)

from minirun.image import store
from net.conftest import network_host  # noqa: F401  a fixture
from net.hosts import Host


@pytest.fixture
def docker(network_host: Host) -> DockerClient:  # noqa: F811
    return DockerClient(client_call=network_host.argv())


@pytest.fixture
def web(docker: DockerClient) -> Iterator[Container]:
    """One that runs, with most of what can be asked for."""
    made = docker.run(
        "busybox", ["sh", "-c", "echo out; echo err >&2; exec sleep 300"], detach=True, name="web",
        labels={"role": "test"}, envs={"A": "1"}, publish=[("127.0.0.1:8099", 80)],
        volumes=[("data", "/data")], memory="64m", restart="unless-stopped", hostname="inside",
        user="1000", workdir="/tmp", healthcheck=False,
    )  # fmt: skip
    yield made
    docker.remove("web", force=True)
    docker.volume.remove("data")


def test_run_to_the_end(docker: DockerClient) -> None:
    assert docker.run("busybox", ["echo", "hi"], remove=True) == "hi"
    words = {"remove": True, "stream": True}
    said = docker.run("busybox", ["sh", "-c", "echo out; echo err >&2"], **words)
    assert sorted(said) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    with pytest.raises(DockerException) as caught:
        docker.run("busybox", ["sh", "-c", "exit 3"], remove=True)
    assert caught.value.return_code == 3
    assert docker.ps(all=True) == []


def test_what_inspect_says(docker: DockerClient, web: Container) -> None:
    assert len(web.id) == 64 and int(web.id, 16)
    assert (web.name, web.path, web.args[0]) == ("web", "sh", "-c")
    assert web.image == docker.image.inspect("busybox").id
    config, host, state = web.config, web.host_config, web.state
    assert (config.image, config.user, config.working_dir) == ("busybox", "1000", Path("/tmp"))
    assert (config.hostname, config.labels, config.tty) == ("inside", {"role": "test"}, False)
    assert "A=1" in (config.env or []) and (config.cmd or [])[0] == "sh"
    assert (state.status, state.running, state.paused, state.oom_killed) == (
        "running", True, False, False
    )  # fmt: skip
    assert state.pid and Path(f"/proc/{state.pid}").exists()
    age = datetime.datetime.now(datetime.UTC) - web.created
    assert datetime.timedelta() <= age < datetime.timedelta(minutes=5)
    assert (host.memory, host.restart_policy.name) == (64 << 20, "unless-stopped")
    ports = web.network_settings.ports
    assert ports == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8099"}]}
    (network,) = web.network_settings.networks.values()
    assert network.ip_address and network.gateway and network.mac_address
    (mount,) = web.mounts
    assert (mount.type, mount.name, mount.destination) == ("volume", "data", "/data")


def test_ps_and_its_filters(docker: DockerClient, web: Container) -> None:
    ended = docker.run("busybox", ["true"], detach=True, name="ended")
    assert docker.wait(ended) == 0
    assert [each.name for each in docker.ps()] == ["web"]
    assert {each.id for each in docker.ps(all=True)} == {web.id, ended.id}
    for key, value in (("label", "role=test"), ("name", "we"), ("status", "running")):
        assert docker.ps(all=True, filters=[(key, value)]) == [web]
    assert docker.container.exists("web") and docker.container.exists(web.id[:12])
    assert not docker.container.exists("nosuch")
    with pytest.raises(NoSuchContainer):
        docker.container.inspect("nosuch")
    ended.remove()


def test_streams(docker: DockerClient, web: Container, tmp_path: Path) -> None:
    assert sorted(docker.logs(web).splitlines()) == ["err", "out"]
    assert sorted(docker.logs(web, stream=True)) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    script = ["sh", "-c", "echo $B; id -u; pwd"]
    said = docker.execute(web, script, envs={"B": "2"}, user="7", workdir="/data")
    assert said == "2\n7\n/data"
    with pytest.raises(DockerException) as caught:
        web.execute(["false"])
    assert caught.value.return_code == 1
    (tmp_path / "file").write_text("from the host\n")
    docker.copy(tmp_path / "file", (web, "/tmp/file"))
    assert web.execute(["cat", "/tmp/file"]) == "from the host"
    docker.copy((web, "/tmp/file"), tmp_path / "back")
    assert (tmp_path / "back").read_text() == "from the host\n"
    assert web.diff()["/tmp/file"] == "A"


def test_its_life(docker: DockerClient, web: Container) -> None:
    web.pause()
    assert web.state.paused
    web.unpause()
    web.rename("web-old")
    assert (web.name, docker.container.inspect("web-old").id) == ("web-old", web.id)
    web.rename("web")
    docker.container.update(web, memory="96m")
    assert web.host_config.memory == 96 << 20
    (row,) = docker.stats(web)
    assert (row.container_name, row.memory_limit) == ("web", 96 << 20)
    before = web.state.pid
    web.restart(time=0)
    assert web.state.running and web.state.pid != before
    web.stop(time=0)
    assert (web.state.status, web.state.exit_code) == ("exited", 137)
    web.start()
    web.kill()
    assert docker.wait(web) == 137
    created = docker.create("busybox", ["true"])
    assert created.state.status == "created"
    created.remove()


def test_events(docker: DockerClient) -> None:
    begun = datetime.datetime.now(datetime.UTC)
    docker.run("busybox", ["true"], remove=True, name="short", labels={"a": "b"})
    ended = datetime.datetime.now(datetime.UTC)
    found = list(docker.system.events(since=begun, until=ended, filters={"container": "short"}))
    assert [each.action for each in found if each.type == "container"] == [
        "create", "start", "die", "destroy"
    ]  # fmt: skip
    assert {each.actor.attributes["name"] for each in found} == {"short"}
    assert {each.actor.attributes["a"] for each in found} == {"b"}


def test_volumes(docker: DockerClient) -> None:
    made = docker.volume.create("kept", labels={"a": "b"})
    assert (made.name, made.driver, made.labels, made.scope) == (
        "kept",
        "local",
        {"a": "b"},
        "local",
    )
    assert made.mountpoint.is_dir()
    docker.run("busybox", ["touch", "/v/file"], remove=True, volumes=[(made, "/v")])
    assert (made.mountpoint / "file").exists()
    assert docker.volume.list() == [made] and docker.volume.exists("kept")
    made.remove()
    assert not docker.volume.exists("kept")
    with pytest.raises(NoSuchVolume):
        docker.volume.inspect("kept")


def test_networks(docker: DockerClient, web: Container) -> None:
    made = docker.network.create("inner", labels={"a": "b"}, subnet="10.211.7.0/24")
    assert (made.name, made.driver, made.labels) == ("inner", "bridge", {"a": "b"})
    assert (len(made.id), made.internal, made.scope) == (64, False, "local")
    assert made.ipam.config[0]["Subnet"] == "10.211.7.0/24"
    docker.network.connect(made, web, alias="alias")
    assert set(web.network_settings.networks) == {"bridge", "inner"}
    assert "alias" in web.network_settings.networks["inner"].aliases
    made.reload()
    assert {each.name for each in made.containers.values()} == {"web"}
    found = docker.run("busybox", ["ping", "-c", "1", "alias"], remove=True, networks=[made])
    assert "1 packets received" in found
    docker.network.disconnect(made, web)
    assert set(web.network_settings.networks) == {"bridge"}
    assert docker.network.exists("inner")
    made.remove()
    assert not docker.network.exists("inner")
    with pytest.raises(NoSuchNetwork):
        docker.network.inspect("inner")


def test_what_it_reads_of_images_and_the_machine(docker: DockerClient) -> None:
    image = docker.image.inspect("busybox")
    assert "busybox:latest" in image.repo_tags
    assert (image.os, image.config.cmd, image.root_fs.type) == ("linux", ["sh"], "layers")
    assert image in docker.image.list() and docker.image.exists("busybox")
    assert not docker.image.exists("nosuch")
    with pytest.raises(NoSuchImage):
        docker.image.inspect("nosuch")
    info = docker.system.info()
    assert (info.containers, info.default_runtime) == (0, "minirun")
    sizes = docker.system.disk_free()
    assert (sizes.images.total_count, sizes.images.active) == (_images(docker), 0)
    assert (sizes.containers.total_count, sizes.volumes.total_count) == (0, 0)
    assert docker.version().client.version == docker.version().server.version


def _images(docker: DockerClient) -> int:
    words = docker.client_config.docker_cmd
    folder = words[words.index("--store") + 1]
    return len({(each["name"], each["tag"]) for each in store.list_images(folder)})
