"""`minirun gpu diff [IMAGE] [--gpus …]`: one request in legacy and in cdi mode, side by side."""

import json
import os
import sys

from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.cli.gpu import DRIVER
from minirun.core.config import environment_of
from minirun.core.errors import UsageError
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import Settings
from minirun.core.visible import clean, say
from minirun.gpu import drivers
from minirun.gpu.cdi import registry, request
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.hook import environment
from minirun.gpu.selector import GpuSelector, parse_gpus
from minirun.image import ensure
from minirun.inspect.gpu import diff

FLAGS = (
    Flag(("--gpus",), "GPUS", "as in minirun run; without it the image's own environment asks"),
    DRIVER,
    Flag(("--cdi-spec-dir",), "DIR", "CDI specs (default: /etc/cdi, then /var/run/cdi)", many=True),
    Flag(("--all",), "", "name every file, link and rule, however many"),
    Flag(("--json",), "", "print everything as JSON"),
    HELP,
)
SUMMARY = "Show what legacy and what cdi mode would put into a container. Nothing is done."
_MOST = 6


def main(args: "list[str]", settings: Settings) -> int:
    """Print how the two modes differ for one request."""
    flags = parse("gpu diff", FLAGS, args, mixed=True)
    if flags.help or len(flags.args) > 1 or not (flags.args or flags.gpus):
        sys.stdout.write(usage("gpu diff", "[IMAGE]", SUMMARY, FLAGS))
        return 0 if flags.help else 1
    found = drivers.inventory(flags.gpu_driver or "auto", settings.store)
    old, new = _both(flags, settings, found)
    rows = diff.rows(old, new)
    if flags.json:
        document = {
            "simulated": found.simulated, "legacy": old._asdict(), "cdi": new._asdict(),
            "differences": [row._asdict() for row in rows],
        }  # fmt: skip
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    most = sys.maxsize if flags.all else _MOST
    driver = f"driver {found.driver}{' (SIMULATED: there is no driver)' if found.simulated else ''}"
    text = [f"{' '.join([*flags.args, flags.gpus]).strip()}: {driver}", ""]
    text += lines(rows, old, new, most)
    sys.stdout.write("".join(f"{clean(line)}\n" for line in text))
    return 0


def _both(
    flags: Parsed, settings: Settings, found: Inventory
) -> "tuple[diff.ModeResult, diff.ModeResult]":
    """Return what each mode would do. Raises UsageError, ImageError, GPUError, OSError."""
    env, place = [], "/"
    if flags.args:
        image = ensure.find_or_build(settings.store, flags.args[0], say)
        env = list(image.env)
        layers = [path for path in image.layers if os.path.lexists(f"{path}/etc/debian_version")]
        place = (layers or list(image.layers))[0]
    if flags.gpus:
        selector = parse_gpus(flags.gpus)
        chosen = selector.devices
        if selector.amount:
            chosen = selector.candidates(found)[: selector.amount]
        env.append(f"NVIDIA_VISIBLE_DEVICES={','.join(chosen)}")
        if selector.capabilities:
            env.append(f"NVIDIA_DRIVER_CAPABILITIES={','.join(selector.capabilities)}")
    variables = environment_of(env)
    devices = environment.visible(variables)
    asked = environment.environment_request(variables)
    root = Root.at(place)
    try:
        old = diff.legacy(found, env, root)
    finally:
        root.close()
    if old is None or asked is None:
        raise UsageError(f"the image {flags.args[0]} asks for no GPU", "add --gpus all")
    driver = "simulated" if found.simulated else "nvidia"
    folders = tuple(flags.cdi_spec_dir) or registry.FOLDERS
    wanted = request.CdiRequest(
        selector=GpuSelector(devices or ("none",)), driver=driver, folders=folders
    )
    injection = request.resolve(wanted, settings.store)
    for text in injection.warnings:
        say(f"warning: {text}")
    return old, diff.cdi(found, injection, asked.requirements)


def lines(
    rows: "list[diff.DiffRow]", old: diff.ModeResult, new: diff.ModeResult, most: int = _MOST
) -> "list[str]":
    """Return the differences as text, then what is the same; at most `most` names an aspect."""
    text = []
    for row in rows:
        text.append(row.aspect)
        text += _side("legacy", row.legacy, most) + _side("cdi", row.cdi, most)
    same = len(old.mounts.keys() & new.mounts.keys())
    nodes = sum(new.nodes.get(path) == access for path, access in old.nodes.items())
    return [*text, f"the same in both: {same} files of the host, {nodes} nodes with their access"]


def _side(name: str, found: "tuple[str, ...]", most: int) -> "list[str]":
    shown = list(found[:most]) or ["(nothing more)"]
    if len(found) > most:
        shown.append(f"and {len(found) - most} more: --all")
    head = f"  {name:<8}"
    return [f"{head if not at else ' ' * len(head)}{text}" for at, text in enumerate(shown)]
