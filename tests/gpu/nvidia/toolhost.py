"""The pretend host for the toolkit's programs: with /dev/dri, and a runtime that only listens.

To what tests/gpu/pretend.py has come the GPUs' DRM nodes, their links and their place in sysfs.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from gpu.pretend import BUSES
from minirun.core.kernel import mounts

PROGRAM = "/usr/local/bin/minirun"
BUNDLE, BIN, CONFIG, CALLED = "/mnt/b", "/mnt/bin", "/mnt/etc", "/mnt/called"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def add_drm() -> None:
    """Give the host what the module nvidia-drm makes. Called in the pretend host."""
    mounts.mount("tmpfs", "/sys/bus", "tmpfs")
    for number, bus in enumerate(BUSES):
        name = f"0000:{bus}:00.0"
        card, render = f"card{number + 1}", f"renderD{128 + number}"
        for node, minor, mode in ((card, number + 1, 0o660), (render, 128 + number, 0o666)):
            Path("/sys/bus/pci/devices", name, "drm", node).mkdir(parents=True)
            path = Path("/dev/dri", node)
            path.parent.mkdir(exist_ok=True)
            os.mknod(path, 0o020000 | mode, os.makedev(226, minor))
            path.chmod(mode)
        folder = Path("/dev/dri/by-path")
        folder.mkdir(exist_ok=True)
        (folder / f"pci-{name}-card").symlink_to(f"../{card}")
        (folder / f"pci-{name}-render").symlink_to(f"../{render}")


def run(*words: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run minirun in the pretend host."""
    done = subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": PATH} | (env or {}),
    )  # fmt: skip
    return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def create(config: dict[str, Any], toml: str, env: dict[str, str]) -> dict[str, Any]:
    """Let nvidia-container-runtime create a container; return what it did."""
    for folder in (BUNDLE, BIN, f"{CONFIG}/nvidia-container-runtime"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    runtime = Path(BIN, "runc")
    runtime.write_text(f'#!/bin/sh\necho "$@" > {CALLED}\n')
    runtime.chmod(0o755)
    Path(CONFIG, "nvidia-container-runtime/config.toml").write_text(toml)
    Path(BUNDLE, "config.json").write_text(json.dumps(config))
    words = ("create", "--bundle", BUNDLE, "c1")
    variables = {"PATH": f"{BIN}:{PATH}", "XDG_CONFIG_HOME": CONFIG, **env}
    done = run("nvidia-container-runtime", *words, env=variables)
    called = Path(CALLED)
    return done | {
        "config": json.loads(Path(BUNDLE, "config.json").read_text()),
        "called": called.read_text().strip() if called.exists() else None,
    }


def without_time(text: str) -> str:
    """Log lines as the recorded ones are: without the time at which they were written."""
    return "".join(
        line.partition(" ")[2] if line.startswith("time=") else line
        for line in text.splitlines(keepends=True)
    )
