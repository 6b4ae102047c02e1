"""Figure 2: flags and an image become a config.json; runc runs it as well."""

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.cli.run import properties
from minirun.common.network_request import NetworkRequest
from minirun.core.errors import UsageError
from minirun.core.keeping.choices import Choices
from minirun.oci import run_config, validate
from minirun.oci.run_config import RunOptions
from required import installed

MEMORY = (("linux.resources.memory.limit", 1 << 30),)
CPUS = ("linux.resources.cpu", {"period": 100_000, "quota": 150_000})
GPUS = ("NVIDIA_VISIBLE_DEVICES=0,1", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")


def config(**options: Any) -> dict[str, Any]:
    return run_config.config("c1", RunOptions(**{"args": ("true",), **options}))


def variables(document: dict[str, Any]) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in document["process"]["env"])


DOCKERS_CAPABILITIES = """
CAP_CHOWN CAP_DAC_OVERRIDE CAP_FSETID CAP_FOWNER CAP_MKNOD CAP_NET_RAW CAP_SETGID CAP_SETUID
CAP_SETFCAP CAP_SETPCAP CAP_NET_BIND_SERVICE CAP_SYS_CHROOT CAP_KILL CAP_AUDIT_WRITE
"""


def test_dockers_defaults() -> None:
    document = config()
    process, linux = document["process"], document["linux"]
    assert process["args"] == ["true"]
    assert process["cwd"] == "/"
    assert process["user"] == {"uid": 0, "gid": 0, "additionalGids": [0]}
    held = set(DOCKERS_CAPABILITIES.split())
    for kind in ("bounding", "effective", "permitted"):
        assert set(process["capabilities"][kind]) == held
    assert not process["capabilities"].get("inheritable")
    assert not process["capabilities"].get("ambient")
    assert variables(document) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": "c1",
    }  # fmt: skip
    kinds = {row["type"] for row in linux["namespaces"]}
    assert kinds == {"pid", "network", "ipc", "uts", "mount", "cgroup"}
    assert linux["resources"]["devices"][0] == {"allow": False, "access": "rwm"}
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(linux["maskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(linux["readonlyPaths"])
    assert document["root"] == {"path": "rootfs", "readonly": False}
    assert document["hostname"] == "c1"
    assert "hooks" not in document


def test_the_mounts_are_dockers() -> None:
    rows = {row["destination"]: row for row in config()["mounts"]}
    assert list(rows) == [
        "/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys", "/sys/fs/cgroup",
    ]  # fmt: skip
    assert "ro" in rows["/sys"]["options"]
    assert "ro" in rows["/sys/fs/cgroup"]["options"]
    assert "newinstance" in rows["/dev/pts"]["options"]


VARIANTS: list[dict[str, Any]] = [
    {}, {"terminal": True}, {"gpu_env": GPUS}, {"properties": MEMORY},
    {"properties": (("linux.resources.cpu", {"period": 100_000, "quota": 50_000}),),
     "pids_limit": 10, "readonly": True}, {"cap_add": ("ALL",), "cap_drop": ("KILL",)},
    {"mounts": (("/etc", "/mnt", ("ro",)),)}, {"host_network": True},
    {"uid_maps": ((0, 100000, 65536),)}, {"annotations": (("k", "v"),)}, {"user": (5, 6, (7, 8))},
    {"properties": (("linux", {
        "devices": [{"type": "c", "path": "/dev/fuse", "major": 10, "minor": 229, "fileMode": 0o666,
                     "uid": 0, "gid": 0}],
        "resources": {"devices": [{"allow": True, "type": "c", "major": 10, "minor": 229}]},
    }),)},
]  # fmt: skip


@pytest.mark.parametrize("options", VARIANTS)
def test_what_is_made_passes_our_own_check(options: dict[str, Any]) -> None:
    document = config(**options)
    assert validate.check(json.loads(json.dumps(document))) == document


def test_figure_2() -> None:
    """GPUs are two variables and one prestart hook; the driver is no word of config.json."""
    env = ("A=1", "NVIDIA_VISIBLE_DEVICES=none")
    document = config(gpu_env=GPUS, choices=Choices(gpu_driver="simulated"), env=env)
    found = variables(document)
    assert found["NVIDIA_VISIBLE_DEVICES"] == "0,1", "--gpus wins over -e"
    assert found["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert found["A"] == "1"
    assert document["hooks"] == {
        "prestart": [
            {
                "path": "/usr/bin/nvidia-container-runtime-hook",
                "args": ["nvidia-container-runtime-hook", "prestart"],
            }
        ]
    }
    assert document["annotations"] == {}


def test_without_gpus_the_variables_are_the_users() -> None:
    document = config(env=("NVIDIA_VISIBLE_DEVICES=all",))
    assert variables(document)["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "hooks" not in document


def test_a_terminal_and_a_host_name() -> None:
    document = config(terminal=True, hostname="h1")
    assert document["process"]["terminal"] is True
    assert variables(document)["TERM"] == "xterm"
    assert document["hostname"] == variables(document)["HOSTNAME"] == "h1"
    long = run_config.config("x" * 200, RunOptions(args=("true",)))
    assert len(long["hostname"]) == 64, "an id may be longer than the kernel's host names"
    assert "cgroupsPath" not in long["linux"], "the id that it is made of is not known yet"


def test_parameters_of_its_own_network() -> None:
    """docker's: any user's server on any port, and any group's pings; not of another's network."""
    low, pings = "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range"
    none = NetworkRequest("none")
    assert config(network=none)["linux"]["sysctl"] == {pings: "0 2147483647", low: "0"}
    mapped = config(network=none, uid_maps=((0, 100000, 65536),))["linux"]["sysctl"]
    assert mapped == {low: "0"}, "a group that is not mapped cannot be in the range"
    chosen = config(network=none, properties=(("linux.sysctl", {low: "80"}),))["linux"]["sysctl"]
    assert chosen[low] == "80" and pings in chosen
    host = config(network=NetworkRequest("host"), host_network=True)
    assert "sysctl" not in host["linux"]
    assert "sysctl" not in config(network_path="/proc/1/ns/net")["linux"]
    assert "sysctl" not in config()["linux"], "minirun spec: for the user to write"


def test_its_own_group_is_among_the_others() -> None:
    """CVE-2022-36109."""
    user = config(user=(5, 6, (7, 6, 8)))["process"]["user"]
    assert user == {"uid": 5, "gid": 6, "additionalGids": [6, 7, 8]}


def test_limits() -> None:
    resources = config(properties=(*MEMORY, CPUS), pids_limit=7)["linux"]["resources"]
    assert resources["memory"] == {"limit": 1 << 30}
    assert resources["cpu"] == {"period": 100_000, "quota": 150_000}
    assert resources["pids"] == {"limit": 7}
    assert config()["linux"]["resources"].keys() == {"devices"}


@pytest.mark.parametrize(
    ("add", "drop", "gained", "lost"),
    [
        ((), (), set(), set()),
        (("NET_ADMIN",), (), {"CAP_NET_ADMIN"}, set()),
        (("cap_net_admin", "CAP_SYS_TIME"), (), {"CAP_NET_ADMIN", "CAP_SYS_TIME"}, set()),
        ((), ("chown", "CAP_KILL"), set(), {"CAP_CHOWN", "CAP_KILL"}),
        (("CHOWN",), (), set(), set()),
    ],
)
def test_capabilities_added_and_dropped(
    add: tuple[str, ...], drop: tuple[str, ...], gained: set[str], lost: set[str]
) -> None:
    found = run_config.capabilities(add, drop)
    assert len(found) == len(set(found))
    assert set(found) == (set(DOCKERS_CAPABILITIES.split()) | gained) - lost


def test_all_capabilities() -> None:
    assert len(run_config.capabilities(("ALL",), ())) == 41
    assert run_config.capabilities((), ("all",)) == []
    assert run_config.capabilities(("CHOWN",), ("ALL",)) == ["CAP_CHOWN"]


def test_a_name_that_is_no_capability() -> None:
    for add, drop in ((("MAGIC",), ()), ((), ("",))):
        with pytest.raises(UsageError, match="unknown capability"):
            run_config.capabilities(add, drop)


def test_volumes() -> None:
    *_, first, second = config(mounts=(("/a", "/b", ()), ("/c", "/d", ("ro",))))["mounts"]
    assert first["options"] == ["rbind", "rprivate"]
    assert second == {
        "destination": "/d", "type": "bind", "source": "/c", "options": ["rbind", "rprivate", "ro"],
    }  # fmt: skip


def test_the_hosts_network() -> None:
    document = config(host_network=True)
    assert "network" not in {row["type"] for row in document["linux"]["namespaces"]}
    binds = {row["destination"] for row in document["mounts"] if row["type"] == "bind"}
    assert binds == {"/etc/resolv.conf", "/etc/hosts"}


def test_a_device_is_a_node_and_a_rule() -> None:
    made = properties.devices("--device", ["/dev/zero:/dev/x:rw"])
    linux = config(properties=(("linux", made),))["linux"]
    assert [node["path"] for node in linux["devices"]] == ["/dev/x"]
    rule = {"allow": True, "type": "c", "major": 1, "minor": 5, "access": "rw"}
    assert linux["resources"]["devices"][-1] == rule


def test_a_user_namespace() -> None:
    linux = config(uid_maps=((0, 1000, 10),))["linux"]
    assert {"type": "user"} in linux["namespaces"]
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 10}]
    assert linux["gidMappings"] == linux["uidMappings"], "groups as users, by default"
    own = config(uid_maps=((0, 1000, 10),), gid_maps=((0, 2000, 20),))["linux"]
    assert own["gidMappings"] == [{"containerID": 0, "hostID": 2000, "size": 20}]


def test_what_is_chosen_is_no_annotation() -> None:
    chosen = Choices("amd", "0", "/d", True, True, True, ("/a", "/b"), True)
    document = config(choices=chosen, annotations=(("k", "v"),))
    assert document["annotations"] == {"k": "v"}
    assert "minirun" not in json.dumps(document)


def test_spec_prints_what_run_would_make(minirun: Program) -> None:
    done = minirun(
        "spec", "--gpus", "0,1", "--gpu-driver", "simulated", "-e", "A=1", "busybox", "ls", "-l"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found = variables(document)
    assert found["NVIDIA_VISIBLE_DEVICES"].count(",") == 1
    assert found["A"] == "1"
    assert document["process"]["args"] == ["ls", "-l"]
    assert document["hooks"]["prestart"][0]["path"].endswith("/nvidia-container-runtime-hook")
    assert not minirun.root.exists()


def test_spec_without_an_image_writes_a_template(minirun: Program, tmp_path: Path) -> None:
    """runc's command: config.json in the bundle, never overwritten."""
    assert minirun("spec", "--bundle", str(tmp_path)).returncode == 0
    document = json.loads((tmp_path / "config.json").read_text())
    assert document["process"]["args"] == ["sh"]
    assert document["process"]["terminal"] is True
    assert document["root"] == {"path": "rootfs", "readonly": True}
    assert validate.check(document) == document
    done = minirun("spec", "--bundle", str(tmp_path))
    assert done.returncode == 1
    assert "exists. Remove it first" in done.stderr


@pytest.mark.parametrize(
    "options", [{}, {"properties": MEMORY, "pids_limit": 50, "readonly": True}]
)
def test_runc_runs_it(tmp_path: Path, layer: Path, options: dict[str, Any]) -> None:
    installed("runc")
    command = ("sh", "-c", "echo $HOSTNAME; hostname; id -u; ls /dev | grep null; exit 7")
    document = config(args=command, **options)
    name = f"minirun-test-{uuid.uuid4().hex[:8]}"
    document["linux"]["cgroupsPath"] = f"/{name}"  # so that /minirun stays ours
    (tmp_path / "config.json").write_text(json.dumps(document))
    done = subprocess.run(
        ["runc", "--root", str(tmp_path / "state"), "run", "--bundle", str(tmp_path), name],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["c1", "c1", "0", "null"], done.stderr
    assert done.returncode == 7
