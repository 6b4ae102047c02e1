"""`minirun run --gpus`: what the seeds show, on real kernel objects, on both kinds of cgroups."""

from conftest import Program

SIMULATED = ("--gpus", "0,1", "--gpu-driver=simulated")


def test_shell_1_the_device_nodes_in_the_container(minirun: Program) -> None:
    done = minirun("run", "--rm", *SIMULATED, "debian", "ls", "-l", "/dev")
    rows = [line.split() for line in done.stdout.splitlines()]
    nodes = {r[-1]: (r[0], r[4], r[5]) for r in rows if r and r[-1].startswith("nvidia")}
    mode = "crw-rw-rw-"
    assert nodes == {
        "nvidia0": (mode, "195,", "0"),
        "nvidia1": (mode, "195,", "1"),
        "nvidiactl": (mode, "195,", "255"),
        "nvidia-uvm": (mode, "510,", "0"),
        "nvidia-uvm-tools": (mode, "510,", "1"),
    }


def test_the_cgroup_decides_who_may_open_a_node(minirun_both: Program) -> None:
    script = "cat /dev/nvidia0; cat /dev/nvidia1; mknod /tmp/n2 c 195 2 && echo made; cat /tmp/n2"
    done = minirun_both("run", "--rm", *SIMULATED, "debian", "sh", "-c", script)
    assert done.stdout == "made\n"
    assert done.stderr.splitlines() == [
        "cat: /dev/nvidia0: No such device or address",  # ENXIO: allowed, but no driver is there
        "cat: /dev/nvidia1: No such device or address",
        "cat: /tmp/n2: Operation not permitted",  # EPERM: the node exists, the rule does not
    ]


def test_shell_2_the_rules_that_are_in_force(minirun_both: Program) -> None:
    minirun_both("run", "-d", "--name", "g", *SIMULATED, "busybox", "sleep", "60")
    lines = minirun_both("inspect", "--devices", "g").stdout.splitlines()
    rules = [line.split() for line in lines if "nvidia" in line]
    assert sorted(rules) == sorted(
        ["c", number, "rw", "#", f"/dev/{name}"]
        for number, name in (
            ("195:0", "nvidia0"),
            ("195:1", "nvidia1"),
            ("195:255", "nvidiactl"),
            ("510:0", "nvidia-uvm"),
            ("510:1", "nvidia-uvm-tools"),
        )
    )


def test_nvidia_smi_lists_exactly_what_is_given(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpus", "1,3", "--gpu-driver=simulated", "busybox",
                   "nvidia-smi", "-L")  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("SIMULATED" in line for line in lines)
    assert "000000000001)" in lines[0] and "000000000003)" in lines[1]


def test_without_gpus_there_is_nothing_of_nvidia(minirun: Program) -> None:
    script = "ls /dev /usr/bin; ls /proc/driver"
    done = minirun("run", "--rm", "debian", "sh", "-c", script)
    assert "zero" in done.stdout and "nvidia" not in done.stdout


def test_the_fallback_says_so_in_one_line(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpus", "all", "busybox", "true")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "SIMULATED" in done.stderr


def test_an_unknown_gpu_is_refused_and_nothing_stays(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpus", "device=9", "--gpu-driver=simulated", "busybox", "true")
    assert done.returncode == 125
    assert "device error: 9: unknown device" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(minirun.root.glob("[!.]*"))


def test_figure_1_shared_and_dedicated(minirun: Program) -> None:
    for name, gpus in (("a", "0,1"), ("b", "0,2,3"), ("c", "3")):
        minirun("run", "-d", "--name", name, "--gpus", gpus, "--gpu-driver=simulated",
                "busybox", "sleep", "60")  # fmt: skip
    table = minirun("gpu", "ps").stdout
    rows = {line.split()[0]: line for line in table.splitlines()[1:]}
    assert "shared" in rows["0"] and "a" in rows["0"] and "b" in rows["0"]
    assert "dedicated" in rows["1"] and "dedicated" in rows["2"]
    assert "shared" in rows["3"] and "b" in rows["3"] and "c" in rows["3"]


def test_stages_4_and_5_are_in_the_log(minirun: Program) -> None:
    minirun("run", "--rm", *SIMULATED, "busybox", "true")
    events = minirun.events()
    bounds = [(e["stage"], e["kind"], e["actor"]) for e in events if e["kind"] in ("begin", "end")]
    actors = ("runtime", "init", "runtime", "hook", "cli", "runtime", "init")
    expected = [(n, k, a) for n, a in enumerate(actors, 1) for k in ("begin", "end")]
    assert bounds == expected
    argv = next(e["args"]["argv"] for e in events if e["name"] == "nvidia-container-cli")
    assert "--device=0,1" in argv and "configure" in argv
