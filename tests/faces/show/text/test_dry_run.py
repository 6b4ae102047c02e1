"""`run --dry-run`: it says what a run does, and does none of it."""

import os
from pathlib import Path

from conftest import Program

ARGS = ("--gpus", "0,1", "--gpu-driver", "simulated", "busybox", "true")


def plan(minirun: Program, *flags: str) -> dict[int, list[str]]:
    """Return the lines of each stage, less their indentation."""
    done = minirun("run", "--dry-run", *flags)
    assert done.returncode == 0, done.stderr
    found: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            number = int(line.split()[0])
        found.setdefault(number, []).append(line.strip())
    return found


def test_it_has_the_seven_stages_and_ends_with_the_command(minirun: Program) -> None:
    found = plan(minirun, *ARGS)
    assert list(found) == [1, 2, 3, 4, 5, 6, 7]
    assert "SIMULATED" in found[5][0]
    assert found[7][-1] == "execve true"
    assert 'limit pids: {"limit":2048}' in found[1], "as config.json has it"


def test_what_it_says_is_what_a_run_does(minirun: Program) -> None:
    """Every node, link, tmpfs and file of the driver, in the order of the run's events."""
    found = plan(minirun, *ARGS)
    assert minirun("run", "--rm", "-q", *ARGS).returncode == 0
    done: dict[int, list[str]] = {1: [], 5: []}
    for event in minirun.events():
        args, stage = event["args"], event["stage"]
        if stage not in done or event["actor"] not in ("init", "cli") or event["errno"]:
            continue
        if event["name"] == "mknodat":
            done[stage].append(f"mknod {args.get('path', args.get('target'))}")
        elif event["name"] == "symlinkat":
            done[stage].append(f"ln {args.get('path', args.get('target'))}")
        elif event["name"] == "mount" and args["source"] in ("proc", "tmpfs", "devpts", "sysfs"):
            done[stage].append(f"mount {args.get('path', args.get('target'))}")
    for stage, steps in done.items():
        said = []
        for line in found[stage][1:]:
            words = line.split()
            if words[0] == "mknod":
                said.append(f"mknod {words[3]}")
            elif words[0] == "ln":
                said.append(f"ln {words[3]}")
            elif words[:2] == ["mount", "-t"] and words[3] in ("proc", "tmpfs", "devpts", "sysfs"):
                said.append(f"mount {words[4]}")
        assert said
        assert [step for step in steps if step in said] == said


def test_nothing_is_made(minirun: Program, tmp_path: Path) -> None:
    plan(minirun, "--name", "dry", "-v", f"{tmp_path}:/data", *ARGS)
    assert not minirun.directory("dry").exists()
    assert not [each for each in os.listdir("/sys/fs/cgroup") if "dry" in each]
    assert minirun("ps", "-aq").stdout == ""


def test_what_is_wrong_is_said_as_a_run_says_it(minirun: Program) -> None:
    args = ("--gpus", "9", "--gpu-driver", "simulated", "busybox", "true")
    dry, wet = minirun("run", "--dry-run", *args), minirun("run", *args)
    assert (dry.returncode, wet.returncode) == (125, 125)
    assert "9" in dry.stderr


def test_a_bundle_has_a_plan_too(minirun: Program, layer: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(minirun("spec", "busybox", "touch", "/made").stdout)
    found = plan(minirun, "--bundle", str(tmp_path), "dry")
    assert f"mount --rbind {layer} {layer}" in found[1]
    assert found[7][-1] == "execve touch /made"
    assert not minirun.directory("dry").exists()
    assert not (layer / "made").exists()
