"""`minirun run --bundle DIR ID`: runc's `run`, with its flags before or after the id."""

from minirun.cli import create
from minirun.cli.run import Run, print_plan
from minirun.core.settings import Settings
from minirun.running import bundle, bundle_run


class RunBundle(Run):
    """Run an OCI bundle: the flags may stand after the id too."""

    mixed = True


def main(args: "list[str]", settings: Settings) -> int:
    """Run a bundle to its end; return the command's exit status. Raises MinirunError, OSError."""
    flags = RunBundle(args)
    container_id = create.only_id(flags)
    flags.or_before(settings.choices)
    choices = settings.choices._replace(
        gpu_driver=flags.gpu_driver, driver_root=flags.driver_root, gpus=flags.gpus,
        load_kmods=flags.load_kmods,
    )  # fmt: skip
    options = bundle.BundleOptions(
        container_id, flags.bundle, create.bundle_choices(choices), flags.console_socket,
        flags.pidfd_socket, flags.pid_file, flags.preserve_fds, flags.no_pivot,
        flags.no_new_keyring, flags.detach, flags.keep,
    )  # fmt: skip
    if flags.dry_run:
        return print_plan(settings, container_id, options.config(), {})
    return bundle_run.run(options, settings)
