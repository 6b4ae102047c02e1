"""`minirun features`: what this runtime can do, as JSON. dockerd and containerd ask once."""

import sys

from minirun.cli.flags import HELP, parse, usage
from minirun.core import jsonlite
from minirun.core.errors import UsageError
from minirun.core.settings import Settings


def main(args: "list[str]", settings: Settings) -> int:
    """Print the features document of the runtime-spec (features.md)."""
    flags = parse("features", (HELP,), args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("features", "", "Say as JSON what this runtime can do.", (HELP,)))
        return 0
    if flags.args:
        raise UsageError(f'"minirun features" needs no argument, got {len(flags.args)}', status=1)
    from minirun.oci import features

    sys.stdout.write(jsonlite.dumps(features.document(), indent=4) + "\n")
    return 0
