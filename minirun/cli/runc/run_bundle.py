"""`minirun run --bundle DIR ID`: runc's `run`, with its flags before or after the id."""

from __future__ import annotations

from minirun.cli.run.run_flags import WITH_BUNDLE, RunFlags
from minirun.cli.runc import create
from minirun.core.container import Container
from minirun.core.keeping.settings import Settings
from minirun.running import bundle, shelves
from minirun.running.reserve import first_record


class RunBundle(RunFlags):
    """Run an OCI bundle: the flags may stand after the id too."""

    mixed = True


def main(args: list[str], settings: Settings) -> int:
    """Run a bundle to its end; return the command's exit status. Raises MinirunError, OSError."""
    flags = RunBundle(args)
    hint = "config.json says all; it is for run IMAGE"
    flags.refuse_flags(flags.given - WITH_BUNDLE, "with --bundle", hint)
    flags.or_before(settings.choices)
    choices = settings.choices._replace(
        gpu_driver=flags.gpu_driver, gpus=flags.gpus, driver_root=flags.driver_root,
        dev_root=flags.dev_root, load_kmods=flags.load_kmods,
    )  # fmt: skip
    options = create.bundle_options(flags, choices)
    options = options._replace(detach=flags.detach, keep=flags.keep)
    if flags.dry_run:
        config = options.config()
        record = first_record(settings, options.container_id, config)
        shelves.show_plan(Container(settings, config, record))
        return 0
    return bundle.run(options, settings)
