"""nvidia-container-cli as a program: without a runtime, by its name, and when it fails."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, skip
from gpu.sandbox import Recorder, Sandbox, debian_root, fingerprint
from minirun.core.kernel.architecture import NATIVE
from minirun.core.rootfs.inroot import Root
from minirun.gpu import apply, edits, ldconfig, steps
from minirun.gpu.apply import resolve
from minirun.gpu.drivers import inventory
from minirun.gpu.nvidia.cli import cli_args, compat
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.simulated import elf
from minirun.gpu.target import Target

WALK = """
set -e
mount --make-rprivate /
mount --bind rootfs rootfs
cd rootfs
mount -t proc none proc
mount -t tmpfs none tmp
mount -t tmpfs none dev
"$CLI" --load-kmods $DRIVER configure --ldconfig=@/sbin/ldconfig --no-cgroups --utility \
    --device 0 $(pwd)
mkdir -p mnt
busybox pivot_root . mnt
/bin/busybox umount -l /mnt
exec /bin/busybox sh -c 'ls /dev /proc/driver/nvidia/gpus; readlink /usr/lib/*/libnvidia-ml.so.1'
"""


@pytest.fixture
def named(command: str, tmp_path: Path) -> str:
    """minirun under the name of NVIDIA's program."""
    link = tmp_path / "nvidia-container-cli"
    link.symlink_to(command)
    return str(link)


def test_the_walk_through_of_the_seeds(named: str, tmp_path: Path, store: str) -> None:
    debian_root(tmp_path / "rootfs")
    env = os.environ | {"CLI": named, "DRIVER": "--gpu-driver=simulated", "MINIRUN_STORE": store}
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", WALK],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stderr
    words = done.stdout.split()
    assert words == [
        "/dev:", "nvidia0", "nvidiactl", "/proc/driver/nvidia/gpus:", "0000:07:00.0",
        "libnvidia-ml.so.550.163.01",
    ]  # fmt: skip


def test_by_its_own_name_and_as_a_command(named: str, minirun: Program, store: str) -> None:
    env = os.environ | {"MINIRUN_STORE": store}
    words = ["--gpu-driver=simulated", "list", "--binaries"]
    linked = subprocess.run([named, *words], env=env, capture_output=True, text=True, check=True)
    command = minirun.at(store)("nvidia-container-cli", *words)
    assert linked.stdout == command.stdout and "/usr/bin/nvidia-smi\n" in linked.stdout
    assert "SIMULATED" in linked.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    (
        ("", "Usage: nvidia-container-cli [OPTION...] COMMAND [ARG...]"),
        ("frobnicate", "Usage: nvidia-container-cli [OPTION...] COMMAND [ARG...]"),
        ("configure", "Usage: nvidia-container-cli configure [OPTION...] ROOTFS"),
        ("info /r", "Usage: nvidia-container-cli info [OPTION...]"),
        ("configure r", "nvidia-container-cli: input error: invalid rootfs directory"),
        ("configure /", "nvidia-container-cli: input error: invalid rootfs directory"),
        ("configure --foo /r", "nvidia-container-cli configure: unrecognized option '--foo'"),
        ("configure -x /r", "nvidia-container-cli configure: invalid option -- 'x'"),
        ("--no list", "nvidia-container-cli: option '--no' is ambiguous"),
        ("list --csv", "nvidia-container-cli list: unrecognized option '--csv'"),
        ("list --device", "nvidia-container-cli list: option '--device' requires an argument"),
        ("info --csv=1", "nvidia-container-cli info: option '--csv' doesn't allow an argument"),
        (
            "--user=no-such-user info",
            "nvidia-container-cli: input error: parse user/group failed: no such file or directory",
        ),
        (
            "--user=0:1x info",
            "nvidia-container-cli: input error: parse user/group failed: invalid argument",
        ),
        (
            "configure --cuda-compat-mode=x /r",
            "nvidia-container-cli: input error: invalid cuda-compat-mode",
        ),
    ),
)
def test_wrong_use(words: str, said: str, named: str) -> None:
    done = subprocess.run([named, *words.split()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == said


def test_options_may_be_shortened_and_letters_joined(named: str, store: str) -> None:
    env = os.environ | {"MINIRUN_STORE": store}

    def run(*words: str) -> str:
        words = ("--gpu-driver=simulated", "list", *words)
        return subprocess.run(
            [named, *words], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert run("-blid0") == run("--bin", "--lib", "--ipcs", "--dev", "0")


def test_help_and_version(named: str) -> None:
    for word, first in (("--help", "Usage:"), ("--version", "cli-version:"), ("-?", "Usage:")):
        done = subprocess.run([named, word], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(first)


def configure(box: Sandbox, store: str, *options: str, **more: Any) -> dict[str, Any]:
    """Configure a container so that a failure leaves nothing, with the simulated driver."""

    def work(root: Root) -> dict[str, Any]:
        argv = ["configure", "--ldconfig=@/sbin/ldconfig", *options, box.root]
        request = cli_args.parse(argv).request
        found = inventory("simulated", store)
        plan = nvidia.plan(found, request, nvidia.find_library_places(root, request))
        if more.get("change"):
            plan = more["change"](plan)
        fd = ldconfig.open_host(request.ldconfig)
        apply.apply(plan, Target(root, box.root, fd, cgroup=more.get("cgroup")))
        return {"rules": [str(rule) for rule in plan.device_rules()]}

    return box.inside(work)


def test_a_missing_node_leaves_nothing(debian: Sandbox, store: str) -> None:
    (Path(debian.root) / f"usr/lib/{NATIVE.triplet}/libcuda.so.1").symlink_to("an-old-one")
    (Path(debian.root) / "etc/ld.so.cache").write_bytes(b"the image's own")
    before = fingerprint(Path(debian.root)), debian.mounts(), os.listdir(debian.view("/dev"))

    def change(plan: edits.Edits) -> edits.Edits:
        node = steps.DeviceNode("/dev/gone", "c", 195, 9, host_path="/nowhere/gone")
        return plan._replace(steps=(*plan.steps, node))

    outcome = configure(debian, store, "--device=all", "--compute", "--utility", change=change)
    assert outcome["error"].startswith("mount error: stat failed: /dev/gone: no such file")
    after = fingerprint(Path(debian.root)), debian.mounts(), os.listdir(debian.view("/dev"))
    assert after == before


def test_a_failed_ldconfig_leaves_nothing(debian: Sandbox, store: str) -> None:
    library = Path(debian.root) / f"usr/lib/{NATIVE.triplet}"
    (library / "libcuda.so.1").symlink_to("libcuda.so.1.0")
    (Path(debian.root) / "etc/ld.so.cache~").mkdir()  # where the program makes its new cache
    before = fingerprint(Path(debian.root)), debian.mounts()
    outcome = configure(debian, store, "--device=0", "--compute", "--utility")
    error = outcome["error"]
    assert error.startswith("ldcache error: process /sbin/ldconfig failed with error code: 1")
    assert (fingerprint(Path(debian.root)), debian.mounts()) == before


def test_a_cgroup_that_refuses_leaves_nothing(debian: Sandbox, store: str) -> None:
    class Refuses(Recorder):
        def allow_devices(self, rules: list[Any]) -> None:
            raise OSError(1, "Operation not permitted", "devices.allow")

    before = fingerprint(Path(debian.root)), debian.mounts()
    outcome = configure(debian, store, "--device=0", "--utility", cgroup=Refuses())
    assert "devices.allow" in outcome["error"]
    assert (fingerprint(Path(debian.root)), debian.mounts()) == before


def compat_image(root: Path, version: str = "560.35.05") -> Path:
    folder = root / "usr/local/cuda/compat"
    folder.mkdir(parents=True)
    data = elf.shared_object("libcuda.so.1", NATIVE.machine, ("libc.so.6",), "an image's own")
    (folder / f"libcuda.so.{version}").write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("mode", "version", "mounted", "first"),
    (
        ("", "560.35.05", True, False), ("mount", "470.1", True, False),
        ("mount", "550.9", False, False), ("ldconfig", "560.35.05", False, True),
        ("ldconfig", "470.1", False, False), ("disabled", "560.35.05", False, False),
    ),
)  # fmt: skip
def test_compatibility_modes(
    mode: str, version: str, mounted: bool, first: bool, debian: Sandbox, store: str
) -> None:
    compat_image(Path(debian.root), version)
    options = [f"--cuda-compat-mode={mode}"] if mode else []
    plans: list[tuple[bool, bool]] = []

    def work(root: Root) -> list[tuple[bool, bool]]:
        request = cli_args.parse(["configure", "--compute", *options, debian.root]).request
        plan = nvidia.plan(
            inventory("simulated", store), request, nvidia.find_library_places(root, request)
        )
        held = [step for step in plan.steps if isinstance(step, steps.CompatLibrary)]
        return [*plans, (bool(held), plan.library_folders[0] == compat.FOLDER)]

    assert debian.inside(work)["result"] == [[mounted, first]]


@pytest.mark.parametrize("target", ("/proc/kcore", "/proc/self/maps", "/etc", "/dev/null", "/gone"))
def test_compatibility_libraries_are_files_of_the_image_alone(
    target: str, debian: Sandbox, store: str
) -> None:
    folder = compat_image(Path(debian.root))
    (folder / "libnvidia-nvvm.so.560.1").symlink_to(target)
    outcome = debian.configure("--device=0", "--compute", store=store)
    assert outcome["error"] == ""
    sources = [row["source"] for row in outcome["result"]["edits"]["compatLibraries"]]
    assert sources == [f"{debian.root}/usr/local/cuda/compat/libcuda.so.560.35.05"]


def test_where_a_path_leads(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/b/c")
    (tmp_path / "up").symlink_to("../../etc")
    (tmp_path / "loop").symlink_to("loop")
    root = Root.at(str(tmp_path))
    try:
        seen: dict[str, str | None] = {}
        paths = ("/a/d", "/up/x", "/loop", "/x/../y")
        assert [resolve(root, path, seen) for path in paths] == [
            ("/b/c/d", False), ("/etc/x", True), ("/", False), ("/y", False),
        ]  # fmt: skip
        assert [place for place, target in seen.items() if target is None] == [
            "b", "b/c", "b/c/d", "etc", "etc/x", "x", "y",
        ]  # fmt: skip
    finally:
        root.close()


def test_no_devbind_keeps_the_rules(debian: Sandbox, store: str) -> None:
    outcome = debian.configure("--device=0", "--no-devbind", store=store)
    assert outcome["error"] == ""
    assert outcome["result"]["rules"] == ["c 195:255 rw", "c 195:0 rw"]
    assert os.listdir(debian.view("/dev")) == []


def test_imex_and_mig_keys_of_the_simulated_driver(debian: Sandbox, store: str) -> None:
    options = ("--device=all", "--mig-monitor=all", "--imex-channel=3")
    outcome = debian.configure(*options, store=store, MINIRUN_SIM="count=2,mig=1")
    assert outcome["error"] == ""
    assert "c 508:2 rw" in outcome["result"]["rules"] and "c 507:3 rw" in outcome["result"]["rules"]
    assert debian.view("/dev/nvidia-caps/nvidia-cap2").is_char_device()


def test_the_environment_asks_for_the_simulated_driver(named: str, store: str) -> None:
    """ctr calls the program by its name, without a flag of minirun's; a flag counts more."""
    env = {"PATH": "/usr/bin:/bin", "MINIRUN_STORE": store, "MINIRUN_SIM": "count=2"}
    done = [
        subprocess.run([named, *flags, "info"], capture_output=True, text=True, env=env)
        for flags in ((), ("--gpu-driver=nvidia",))
    ]
    assert done[0].returncode == 0 and "SIMULATED" in done[0].stderr
    assert done[0].stdout.count("Device Index") == 2
    assert "SIMULATED" not in done[1].stderr


def test_no_module_is_loaded_in_a_user_namespace(named: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tmp_path.chmod(0o777)
    words = [named, f"--debug={log}", "--load-kmods", "info"]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", *words], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if "unshare" in done.stderr:
        skip("no user namespaces here")
    assert "skipping kernel modules load due to user namespace" in log.read_text()
    assert "loading kernel module" not in log.read_text()
