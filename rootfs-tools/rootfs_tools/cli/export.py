"""`minirun export`: a container's files as a tar archive."""

from __future__ import annotations

import os
import sys

from minirun.cli.flags import Flags, flag
from minirun.core.errors import UsageError, from_os
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import lookup
from rootfs_tools.cli.save import output_file
from rootfs_tools.export import export


class Export(Flags):
    """Write a container's files to an archive."""

    command = "export"
    output: str = flag("-o")


def main(args: list[str], settings: Settings) -> int:
    """Write all files of a container as one archive; return 0. Raises MinirunError."""
    flags = Export(args)
    flags.takes(1)
    if not flags.output and os.isatty(sys.stdout.fileno()):
        text = "cowardly refusing to save to a terminal"
        raise UsageError(text, "use the -o flag or redirect", 1)
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    try:
        with output_file(os.path.abspath(flags.output) if flags.output else "") as stream:
            export(container, stream)
    except BrokenPipeError:  # the reader has gone: as with any command
        raise
    except OSError as error:
        raise from_os(error, "export") from None
    return 0
