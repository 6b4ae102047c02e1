"""Scenarios of Slurm: jobs in containers, by `srun --container` and oci.conf."""

import json

from conftest import wait_until
from engines.clients.slurm_engine import Slurm


def prints_what_the_command_prints(slurm: Slurm) -> None:
    assert slurm.job("echo", "hello") == "hello"


def exit_status_is_the_commands(slurm: Slurm) -> None:
    slurm.job("sh", "-c", "exit 7", code=7)


def command_not_found(slurm: Slurm) -> None:
    done = slurm.full(f"--container={slurm.bundle}", "nosuch")
    assert (
        done.returncode != 0 and "executable file not found in $PATH" in done.stdout + done.stderr
    )


def standard_input(slurm: Slurm) -> None:
    done = slurm.full(f"--container={slurm.bundle}", "cat", input="through\n")
    assert (done.returncode, done.stdout) == (0, "through\n")


def it_is_a_container(slurm: Slurm) -> None:
    assert slurm.job("sh", "-c", "echo $$; ls /proc | grep -c '^[0-9]'").splitlines()[0] == "1"


def environment_of_the_job(slurm: Slurm) -> None:
    assert slurm.job("sh", "-c", "echo $SLURM_JOB_NAME") == "sh"


def a_running_job_is_a_container_of_the_runtime(slurm: Slurm) -> None:
    job = slurm.begin()
    state = slurm.cell.run(slurm.path, f"--root={slurm.ROOT}", "state", slurm.containers()).stdout
    assert json.loads(state)["status"] == "running"
    slurm.cell.run("scancel", "--user=root", env=slurm.env, check=True)
    assert job.wait(20) == 3


def a_cancelled_job_leaves_nothing(slurm: Slurm) -> None:
    job = slurm.begin()
    slurm.cell.run("scancel", "--user=root", env=slurm.env, check=True)
    assert job.wait(20) == 3
    wait_until(lambda: not slurm.containers())
