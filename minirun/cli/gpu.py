"""`minirun gpu list`: what GPUs there are; `minirun gpu ps`: who uses which (Figure 1)."""

import sys

from minirun.cli import inspect, ps
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.errors import UsageError
from minirun.gpu import inventory
from minirun.gpu import usage as gpu_usage
from minirun.oci import state
from minirun.settings import Settings

FLAGS = (
    Flag(("--gpu-driver",), "NAME", "nvidia or simulated (default: nvidia where there is one)"),
    HELP,
)


def main(args: "list[str]", settings: Settings) -> int:
    """Run `list` or `ps`."""
    flags = parse("gpu", FLAGS, args, mixed=True)
    if flags.help or not flags.args:
        text = usage("gpu", "list|ps", "Show GPUs and the containers that use them.", FLAGS)
        sys.stdout.write(text)
        return 0 if flags.help else 1
    if flags.args == ["list"]:
        lines = gpu_usage.gpu_table(inventory.inventory(flags.gpu_driver or "auto", settings.store))
    elif flags.args == ["ps"]:
        records = [r for r in ps.list_records(settings.root) if r["status"] != state.STOPPED]
        states = [{**record, "edits": inspect.edits_of(record)} for record in records]
        lines = gpu_usage.table(gpu_usage.who_uses(states))
    else:
        raise UsageError(f"unknown command 'gpu {flags.args[0]}'", "minirun gpu list, or ps", 1)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
