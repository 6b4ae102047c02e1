"""`minirun spec`: the config.json that `run` with the same flags would make (Figure 2).

Without an image it is runc's command: it writes a template to config.json in the bundle.
"""

from __future__ import annotations

import os

from minirun.cgroups import hierarchies
from minirun.cli.flags import flag
from minirun.cli.output import write
from minirun.cli.run import mounts, run_options
from minirun.cli.run.run_flags import ConfigFlags
from minirun.core.errors import UsageError
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.settings import Settings, unprivileged
from minirun.engines import rootless_config
from minirun.oci import run_config, runc_spec
from minirun.running.visible_json import clean_json


class Spec(ConfigFlags):
    """Print the config.json for an image and flags; without an image, write a template."""

    command, mixed = "spec", False
    rootless: bool
    bundle: str = flag("-b")


def main_spec(args: list[str], settings: Settings) -> int:
    """Print a config.json, or write the template."""
    flags = Spec(args)
    if flags.args:
        flags.refuse_flags({"bundle"}, "with an image", "minirun spec IMAGE > DIR/config.json")
        options, _ = run_options.from_flags(flags, settings)
        if options.shm == places.SHM:
            text = "--ipc shareable is for run and create: nothing looks after a bundle's /dev/shm"
            raise UsageError(text, "leave it out")
        without_root = flags.rootless or unprivileged()
        is_default = "pids_limit" not in flags.given
        if is_default and (without_root or not _count_processes(settings.cgroup_version)):
            options = options._replace(pids_limit=0)  # in a bundle it would no longer be a default
        document = run_config.config(flags.name or "minirun", options)
        if options.mounts:
            mounts.in_bundle(document)
        if without_root:
            rootless_config.adapt(document, options.joined)
        return write(clean_json(jsonlite.dumps(document, indent=2)) + "\n")
    ignored = flags.given - {"bundle", "rootless"}
    flags.refuse_flags(ignored, "without an image", "minirun spec [flags] IMAGE")
    return _write_template(flags.bundle or ".", without_root=flags.rootless)


def _count_processes(version: str) -> bool:
    """Return True if a hierarchy of `version` (v1, v2, auto) has the pids controller.

    Raises OSError.
    """
    for one in hierarchies.mounted():
        if one.version == 1 and version != "v2" and "pids" in one.names:
            return True
        if one.version == 2 and version != "v1":
            with open(f"{one.path}/cgroup.controllers", encoding="ascii") as file:
                if "pids" in file.read().split():
                    return True
    return False


def _write_template(bundle: str, *, without_root: bool) -> int:
    """Write config.json into `bundle`, unless there is one. Raises UsageError, OSError."""
    path = f"{bundle}/{places.CONFIG}"
    if os.path.exists(path):
        raise UsageError(f"File {os.path.basename(path)} exists. Remove it first", status=1)
    text = jsonlite.dumps(runc_spec.document(rootless=without_root), indent=2)
    with open(path, "w") as file:
        file.write(text + "\n")
    return 0
