"""`minirun spec`: the config.json that `run` with the same flags would make (Figure 2).

Without an image it is runc's command: it writes a template to config.json in the bundle.
"""

import os
import sys

from minirun import jsonlite
from minirun.cli import wishes
from minirun.cli.flags import parse, usage
from minirun.cli.run import FLAGS as RUN_FLAGS
from minirun.errors import UsageError
from minirun.oci import generate
from minirun.oci.generate import Wishes
from minirun.settings import Settings

SUMMARY = "Print the config.json for an image and flags; without an image, write a template."


def main(args: "list[str]", settings: Settings) -> int:
    """Print a config.json, or write the template."""
    flags = parse("spec", RUN_FLAGS, args)
    if flags.help:
        sys.stdout.write(usage("spec", "[IMAGE [COMMAND…]]", SUMMARY, RUN_FLAGS))
        return 0
    if flags.args:
        wanted, _ = wishes.from_flags(flags, settings)
        document = generate.config(flags.name or "minirun", wanted)
        sys.stdout.write(jsonlite.dumps(document, indent=2) + "\n")
        return 0
    path = os.path.join(flags.bundle or ".", "config.json")
    if os.path.exists(path):
        raise UsageError(f"File {path} exists. Remove it first", status=1)
    document = generate.config("minirun", Wishes(args=("sh",), terminal=True, readonly=True))
    with open(path, "w") as file:
        file.write(jsonlite.dumps(document, indent=2) + "\n")
    return 0
