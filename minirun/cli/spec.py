"""`minirun spec`: the config.json that `run` with the same flags would make (Figure 2).

Without an image it is runc's command: it writes a template to config.json in the bundle.
"""

import os
import sys

from minirun.cgroups import hierarchies
from minirun.cli import run_options
from minirun.cli.flags import Flag, parse, usage
from minirun.cli.run import FLAGS as RUN_FLAGS
from minirun.core import jsonlite, places
from minirun.core.errors import UsageError
from minirun.core.settings import Settings, unprivileged
from minirun.oci import generate
from minirun.running.visible_json import clean_json

SUMMARY = "Print the config.json for an image and flags; without an image, write a template."
FLAGS = (
    *RUN_FLAGS,
    Flag(
        ("--rootless",),
        "",
        "for a user without root: a user namespace, and no more than that can have",
    ),
)


def main(args: "list[str]", settings: Settings) -> int:
    """Print a config.json, or write the template."""
    flags = parse("spec", FLAGS, args)
    if flags.help:
        sys.stdout.write(usage("spec", "[IMAGE [COMMAND…]]", SUMMARY, FLAGS))
        return 0
    if flags.args:
        options, _ = run_options.from_flags(flags, settings)
        without_root = flags.rootless or unprivileged()
        if not flags.pids_limit and (
            without_root or not hierarchies.count_processes(settings.cgroup_version)
        ):
            options = options._replace(pids_limit=0)  # in a bundle it would no longer be a default
        document = generate.config(flags.name or "minirun", options)
        if without_root:
            from minirun.engines import rootless_config as adaptation

            adaptation.adapt(document)
        sys.stdout.write(clean_json(jsonlite.dumps(document, indent=2)) + "\n")
        return 0
    return _write_template(flags.bundle or ".", without_root=flags.rootless)


def _write_template(bundle: str, *, without_root: bool) -> int:
    """Write config.json into `bundle`, unless there is one. Raises UsageError, OSError."""
    from minirun.oci import template

    path = places.config_json(bundle)
    if os.path.exists(path):
        raise UsageError(f"File {os.path.basename(path)} exists. Remove it first", status=1)
    text = jsonlite.dumps(template.document(rootless=without_root), indent=2)
    with open(path, "w") as file:
        file.write(text + "\n")
    return 0
