"""The labs as a learner does them: broken as announced, hinted at, mended, and gone."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import STORE, Program
from minirun.common import called
from minirun.core.keeping.settings import Settings
from minirun.core.kernel import mountinfo
from minirun.engines import roots
from minirun.faces.teach.lab import checks
from minirun.faces.teach.lab import folder as labs_folder
from minirun.faces.teach.lab import labs as catalogue
from minirun.faces.teach.lab.folder import MARK, LabFolder
from required import installed

LABS = {lab.name: lab for lab in catalogue.labs()}

NETWORK_PROGRAMS = {
    "dropped-packets": ("ip", "nft"), "lost-route": ("ip",), "loopback-only": ("ip",),
    "large-mtu": ("ip", "nft"), "stale-hosts": ("ip",),
}  # fmt: skip


def folder_of(minirun: Program, name: str) -> Path:
    return Path(os.path.realpath(minirun.root)) / ".labs" / name


def traces(minirun: Program, name: str) -> list[str]:
    """What a lab may have left behind on this machine."""
    folder = folder_of(minirun, name)
    mark = f"{MARK}={LabFolder(name, Settings(root=str(minirun.root))).mark}".encode()
    left = [mount.mount_point for mount in mountinfo.read() if str(folder) in mount.mount_point]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                left.append((process / "comm").read_text())
        except OSError:
            continue  # it has ended
    link = Path(roots.entry_of(STORE, str(folder / "state")))
    return left + [str(each) for each in (folder, folder.parent, link) if os.path.lexists(each)]


def machine_has(name: str) -> None:
    """Skip, or fail, where this machine lacks a program of a lab."""
    for program in NETWORK_PROGRAMS.get(name, ()):
        installed(program)


@pytest.mark.parametrize("name", LABS)
def test_a_lab_from_its_start_to_its_end(minirun: Program, name: str) -> None:
    lab = LABS[name]
    machine_has(name)
    started = minirun("lab", "start", name, "--predict", lab.broken)
    assert started.returncode == 0, started.stderr
    for said in (lab.title, f"  {lab.broken}: ", "Your prediction was right."):
        assert said in started.stdout
    hint = minirun("lab", "hint", name)
    assert hint.stdout.startswith(f"Hint ({lab.broken}):\n"), hint.stdout + hint.stderr
    assert minirun("lab", "solution", name, "--apply").returncode == 0
    mended = minirun("lab", "check", name)
    assert (mended.returncode, mended.stdout[:8]) == (0, "Solved.\n"), mended.stdout
    assert minirun("lab", "reset", name).returncode == 0
    assert traces(minirun, name) == []


SLEEP, UMOUNT, BIND = "/bin/sleep 1000", "/bin/umount -l /old;", "mount --bind jail jail"
LATE = 'sh -c "until httpd -p 10.7.0.2:80; do sleep 0.1; done; exec sleep 1000"'
VOLUME = "mkdir $place; mount -t tmpfs none $place"
ANNOTATED = """sed -i 's|"nvidia.com/gpu=0"|&, "cdi.k8s.io/b": "nvidia.com/gpu=1"|'"""
CLAIMING = """sed -i 's/"image"/"resources": {"claims": [{"name": "%s"}]}, &/' pod.json"""
TO_AUTO = "sed -i s/legacy/auto/ etc/nvidia-container-runtime/config.toml"
WRONG = {
    ("stacked-overlay", "sed -i 's|=image,.*/work|=image:disk|' run.sh"):
        "read-only",
    ("stacked-overlay", "sed -i 's|^place=.*|place=outside/volume|' run.sh"): "outside",
    ("stacked-overlay", "sed -i '/^mount.*disk$/d' run.sh"): "other-disk",
    ("stacked-overlay", f"sed -i 's|=image|=outside|; s|^place=.*|&/v; {VOLUME}|' run.sh"):
        "no-image",
    ("zombie-init", "sed -i 's/^  for .*//; s/exec sleep/sleep/' run.sh"): "not-done",
    ("zombie-init", "sed -i 's/^  for .*/  for i in 1 2 3; do : >\\/done-$i; done/' run.sh"):
        "zombies",
    ("shared-mounts", "sed -i 's/make-shared/make-private/' run.sh"): "host-changed",
    ("shared-mounts", "sed -i '/tmpfs/d' run.sh"): "no-mount",
    ("lost-whiteout", "rm layers/1/secret"): "layer-changed",
    ("lost-whiteout", "mknod layers/2/secret c 0 0"): "left-over",
    ("lost-reply", "sed -i 's/^echo 0 0 1/echo done >reply; sleep 0.3; &/' run.sh"): "too-early",
    ("failing-hook", "sed -i 's/^chown.*//' hook.sh"): "wrong-owner",
    ("wrong-capabilities", "sed -i 's/--cap-drop ALL//' run.sh"): "too-much",
    ("denied-cgroup", "sed -i '0,/\"allow\": false/s//\"allow\": true/' bundle/config.json"):
        "too-much",
    ("same-file-system", f"sed -i 's|  pivot_root .*|  exec chroot . {SLEEP}|' run.sh"): "chroot",
    ("same-file-system", f"sed -i 's|{UMOUNT}||; s|^  cd jail|  {BIND}; &|' run.sh"): "old-root",
    ("leaked-descriptor", "sed -i 's/--preserve-fds 2//' run.sh"): "not-handed",
    ("leaked-descriptor", "sed -i 's|^exec 4<.*|exec 4</etc/shadow|' run.sh"): "leaked",
    ("leaked-descriptor", "sed -i 's|^exec 4<.*|exec 0</etc/shadow|; s/fds 2/fds 1/' run.sh"):
        "leaked",
    ("slow-hook", "sed -i 's/^until.*/exit 1/' hooks/licence.sh"): "failed",
    ("missing-library", "sed -i 's/--gpus 0//' run.sh"): "no-node",
    ("dropped-packets", "sed -i 's/policy drop/policy accept/' firewall.nft"): "open",
    ("dropped-packets", "sed -i 's/-p 8080:80//; s/^.*nft -f.*//' run.sh"): "refused",
    ("dropped-packets", "sed -i 's/^machine lan.*//' run.sh"): "stopped",
    ("lost-route", "sed -i '/ eth0 address /d' run.sh"): "other-mac",
    ("lost-route", "echo 'sh on.sh lab ip route add default via 10.7.0.9' >>run.sh"): "no-answer",
    ("loopback-only", "sed -i 's/127.0.0.1:80/10.7.0.2:80/' run.sh"): "stopped",
    ("loopback-only", f"sed -i 's/httpd .*/{LATE}/' run.sh"): "not-local",
    ("loopback-only", "sed -i '/lab ip link set/d' run.sh"): "no-answer",
    ("large-mtu", "sed -i 's/e0 mtu 1400/e0 mtu 1500/' run.sh"): "not-yours",
    ("large-mtu", "echo 'sh on.sh lab ip link set eth0 mtu 1450' >>run.sh"): "stalls",
    ("large-mtu", "echo 'sh on.sh lab ip route del default' >>run.sh"): "no-answer",
    ("stale-hosts", "sed -i 's/10.7.0.3 db/10.7.0.3 other/' run.sh"): "no-name",
    ("stale-hosts", "sed -i '/ip address del/,$d' run.sh"): "not-moved",
    ("crashing-worker", "sed -i 's/--memory 32m --memory-swap 32m//' run.sh"): "no-limit",
    ("crashing-worker", "sed -i 's/bs=48M/bs=8M/' run.sh"): "not-done",
    ("dropped-capability", "sed -i 's/--cap-drop ALL --cap-add SETUID//' run.sh"): "too-much",
    ("dropped-capability", "sed -i 's/--regid 1000 --clear-groups//' run.sh"): "roots-group",
    ("dropped-capability", "sed -i 's/setpriv .* sleep/sleep/' run.sh"): "as-root",
    ("unmapped-owner", "sed -i 's/chown 70000/chown 7000/' run.sh"): "wrong-owner",
    ("unmapped-owner", "sed -i 's/100000 65536/0 100000/' run.sh"): "host-ids",
    ("wrong-mode", f"sed -i 's/gpu=0/gpu=all/' config.json; {TO_AUTO}"): "other-way",
    ("wrong-mode", f"{ANNOTATED} config.json; {TO_AUTO}"): "other-gpu",
    ("wrong-mode", """sed -i 's/"PATH=/"NVIDIA_VISIBLE_DEVICES=0", &/' config.json"""): "failed",
    ("forgotten-claim", CLAIMING % "one-gpu"): "failed",
    ("forgotten-claim", CLAIMING % "gpu" + "; sed -i 's/nvidia1/nvidia0/' cdi/claim.json"):
        "other-gpu",
}  # fmt: skip
"""A lab, and a repair that is none → what the check finds then."""


@pytest.mark.parametrize(("name", "repair"), WRONG)
def test_a_wrong_repair_is_told_from_a_right_one(minirun: Program, name: str, repair: str) -> None:
    machine_has(name)
    minirun("lab", "start", name)
    subprocess.run(["sh", "-c", repair], cwd=folder_of(minirun, name), check=True)
    checked = minirun("lab", "check", name)
    minirun("lab", "reset", name)
    found = WRONG[name, repair]
    said = checked.stdout + checked.stderr
    assert (checked.returncode, said.split("\n")[0]) == (1, f"Not yet ({found}):"), said
    assert LABS[name].findings[found].seen.split("(")[0] in " ".join(checked.stdout.split())


def test_a_mended_make_sh_is_not_run_again(minirun: Program) -> None:
    """A check says so."""
    minirun("lab", "start", "wrong-minor")
    said = "It was run once, by `minirun lab start wrong-minor`"
    assert said not in " ".join(minirun("lab", "check", "wrong-minor").stdout.split())
    path = folder_of(minirun, "wrong-minor") / "make.sh"
    path.write_text(path.read_text().replace("195 1", "195 0"))
    checked = minirun("lab", "check", "wrong-minor")
    minirun("lab", "reset", "wrong-minor")
    assert checked.returncode == 1 and said in " ".join(checked.stdout.split())


def test_minirun_may_be_called_by_a_relative_path(minirun: Program) -> None:
    """The lab's scripts run in another folder, and call the same minirun."""
    folder, name = os.path.split(minirun.path)
    for words in (("start", "wrong-minor"), ("reset", "wrong-minor")):
        argv = [f"./{name}", *minirun.argv("lab", *words)[1:]]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
        assert words[0] == "reset" or "  other-gpu: " in done.stdout


def test_a_start_that_was_killed_is_reset(minirun: Program) -> None:
    start = minirun.start("lab", "start", "slow-hook")
    hook = folder_of(minirun, "slow-hook") / "bundle/rootfs/network"
    end = time.monotonic() + 30
    while not hook.exists() and time.monotonic() < end:
        time.sleep(0.05)
    start.send_signal(signal.SIGKILL)  # in the middle of a container's start
    start.communicate()
    assert hook.exists() and len(traces(minirun, "slow-hook")) > 3
    assert minirun("lab", "reset", "slow-hook").returncode == 0
    assert traces(minirun, "slow-hook") == []


def test_a_lab_is_started_once_and_none_goes_with_another(minirun: Program) -> None:
    for name in ("lost-whiteout", "shared-mounts"):
        assert minirun("lab", "start", name).returncode == 0
    again = minirun("lab", "start", "lost-whiteout")
    assert (again.returncode, "is started already" in again.stderr) == (1, True)
    assert minirun("lab", "list").stdout.count("started") == 2
    reset = minirun("lab", "reset", "--all")
    assert reset.stdout.split() == ["shared-mounts", "lost-whiteout"]
    assert traces(minirun, "lost-whiteout") + traces(minirun, "shared-mounts") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "no-such"), "there is no lab 'no-such' (minirun lab list)"),
        (("start", "2", "--predict", "blue"), "--predict blue: one of "),
        (("check", "2"), "the lab zombie-init is not started (minirun lab start zombie-init)"),
        (("mend", "2"), "unknown command 'lab mend'"),
    ],
)
def test_bad_words_get_one_line(minirun: Program, words: tuple[str, ...], said: str) -> None:
    done = minirun("lab", *words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and said in done.stderr
    assert not (minirun.root / ".labs").exists()


def test_a_user_is_told_that_labs_need_root(copied: Path) -> None:
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "PYTHONPATH": str(copied)}
    for words, status in ((("start", "1"), 1), (("list",), 0)):
        argv = [*as_user, os.path.realpath(sys.executable), "-m", "minirun", "lab", *words]
        done = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert ("run as root" in done.stderr) == bool(status)


def test_both_languages_say_the_same() -> None:
    english, korean = (
        {lab.name: (list(lab.choices), list(lab.findings), lab.lesson) for lab in labs}
        for labs in (LABS.values(), catalogue.labs("ko"))
    )
    assert english == korean and list(english) == list(checks.CHECKS) and len(english) >= 14
    assert catalogue.words().keys() == catalogue.words("ko").keys()
    for lab in LABS.values():
        assert catalogue.SOLVED in lab.choices and lab.broken in lab.choices
        assert {*lab.choices} <= {*lab.findings, catalogue.SOLVED}


def test_an_image_is_made_before_the_time_of_a_lab_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new store: what run.sh needs is there when it begins."""
    monkeypatch.setattr(called, "program", lambda: [sys.executable, "-m", "minirun"])
    where = Settings(root=str(tmp_path / "root"), store=str(tmp_path / "store"))
    folder = LabFolder("zombie-init", where)
    folder.make()
    try:
        (folder.path / "run.sh").write_text(
            ". ./lab.env\nminirun images --format '{{.Repository}}:{{.Tag}}'\n"
        )
        assert folder.run(30) == 0
        assert folder.output() == "busybox:latest\n"
    finally:
        folder.remove()


def test_every_image_of_a_lab_is_known() -> None:
    for script in Path(labs_folder.__file__).parent.rglob("broken/*/*.sh"):
        text = script.read_text()
        if re.search(r"minirun (spec|save) |minirun run (?!.*--bundle)", text):
            assert {*labs_folder._IMAGES} & {*text.split()}, script


@pytest.mark.parametrize("script", ["yes", "yes >&2", "yes >large"])
def test_a_script_that_prints_without_an_end(minirun: Program, script: str) -> None:
    minirun("lab", "start", "zombie-init", "--predict", "1")
    folder = folder_of(minirun, "zombie-init")
    (folder / "run.sh").write_text(f"{script}\n")
    try:
        done = minirun("--lang", "en", "lab", "check", "zombie-init")
        assert done.returncode == 1 and len(done.stdout) < 4000
        written = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        assert max(written) <= 256 << 20
    finally:
        assert minirun("lab", "reset", "zombie-init").returncode == 0


def test_a_rule_that_was_taken_to_this_machine(minirun: Program) -> None:
    """run.sh reaches no network of this machine; a rule put there by hand goes with the lab."""
    nft = installed("nft")
    minirun("lab", "start", "large-mtu", "--predict", "1")
    folder = folder_of(minirun, "large-mtu")
    script = f"{nft} -f firewall.nft && {nft} list ruleset; ip link add d0 type dummy\n"
    (folder / "run.sh").write_text(script)
    words = shlex.join(minirun.argv("lab", "check", "large-mtu"))
    again = shlex.join(minirun.argv("lab", "reset", "large-mtu"))
    script = (
        f"{words}; {nft} list tables; ls /sys/class/net; cd {folder}; {nft} -f firewall.nft;"
        f" {again}; {nft} list tables"
    )
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True)
    checked, _, after = done.stdout.partition("large-mtu\n")
    assert "table ip lab_filter" in checked  # what run.sh has printed
    assert done.stdout.count("\ntable ip") == 0 and after == "" and "d0" not in checked.split()


@pytest.mark.parametrize("kind", ["link", "immutable"])
def test_a_folder_that_cannot_be_removed(minirun: Program, kind: str, tmp_path: Path) -> None:
    folder = folder_of(minirun, "zombie-init")
    folder.parent.mkdir(parents=True)
    if kind == "link":
        (tmp_path / "precious").write_text("")
        folder.symlink_to(tmp_path)
        said = f"lab zombie-init: {folder} is a link (it is none of minirun's: remove the link"
    else:
        folder.mkdir()
        (folder / "file").write_text("")
        subprocess.run([installed("chattr"), "+i", folder / "file"], check=True)
        said = f"{folder}/file: Operation not permitted (root is refused too: the file is immutable"
    try:
        done = minirun("lab", "reset", "zombie-init")
        assert (done.returncode != 0, done.stdout) == (True, "")
        assert done.stderr.startswith(f"minirun: {said}") and done.stderr.count("\n") == 1
        assert kind == "immutable" or (tmp_path / "precious").exists()
    finally:
        subprocess.run(["chattr", "-i", folder / "file"], stderr=subprocess.DEVNULL)
