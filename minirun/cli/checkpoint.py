"""`minirun checkpoint` and `restore`: runc's flags, and a refusal that says why.

runc hands a container to CRIU (criu.org), which writes its processes to files and makes them again
from these. CRIU has to be told of every mount that the runtime will make anew, and of minirun's
(an image's layers, what stage 5 puts in) it cannot be told; the state of a GPU it does not save at
all. So nothing is begun that would end in half a container. `features` does not claim it either.
"""

import shutil
import subprocess

from minirun.cli import existing, oci
from minirun.cli.flags import HELP, Flag, one_id, parse, show_help
from minirun.errors import MinirunError
from minirun.oci import state
from minirun.settings import Settings

_SWITCHES = ("tcp-established", "ext-unix-sk", "shell-job", "lazy-pages", "file-locks")
_BOTH = (
    Flag(("--image-path",), "DIR", "where the files are"),
    Flag(("--work-path",), "DIR", "where CRIU keeps its log"),
    Flag(("--manage-cgroups-mode",), "MODE", "soft, full, strict or ignore"),
    Flag(("--empty-ns",), "KIND", "a namespace whose properties are not kept"),
    Flag(("--auto-dedup",), "", "throw away double pages"),
    *(Flag((f"--{name}",), "", "CRIU's option of that name") for name in _SWITCHES),
    HELP,
)
CHECKPOINT = (
    Flag(("--parent-path",), "DIR", "files of an earlier --pre-dump"),
    Flag(("--leave-running",), "", "let the container go on"),
    Flag(("--pre-dump",), "", "only its memory"),
    Flag(("--page-server",), "ADDRESS:PORT", "where memory is sent to"),
    Flag(("--status-fd",), "FD", "a descriptor that hears when lazy pages are ready"),
    *_BOTH,
)
RESTORE = (
    *oci.CREATE[:-1],
    Flag(("-d", "--detach"), "", "do not wait for the container"),
    Flag(("--no-subreaper",), "", "accepted: minirun is never one"),
    Flag(("--lsm-profile",), "TYPE:NAME", "another security profile"),
    Flag(("--lsm-mount-context",), "CONTEXT", "another SELinux context for mounts"),
    *_BOTH,
)


def main_checkpoint(args: "list[str]", settings: Settings) -> int:
    """Check the container, and refuse. Raises MinirunError."""
    flags = parse("checkpoint", CHECKPOINT, args, mixed=True)
    if flags.help:
        return show_help(
            "checkpoint", "ID", "Refused: minirun's mounts cannot be told to CRIU.", CHECKPOINT
        )
    existing.load(settings, one_id("checkpoint", flags))
    raise refusal("checkpoint")


def main_restore(args: "list[str]", settings: Settings) -> int:
    """Check the id, and refuse. Raises MinirunError."""
    flags = parse("restore", RESTORE, args, mixed=True)
    if flags.help:
        return show_help(
            "restore", "ID", "Refused: minirun's mounts cannot be told to CRIU.", RESTORE
        )
    state.check_id(one_id("restore", flags))
    raise refusal("restore")


def refusal(what: str) -> MinirunError:
    """Return the error: that minirun does not, and what this machine's CRIU says of itself."""
    program = shutil.which("criu")
    if not program:
        found = "criu is not installed either"
    else:
        done = subprocess.run([program, "check"], capture_output=True, check=False)
        found = f"criu check ends with status {done.returncode}"
    hint = f"run the container with runc to {what} it; on this machine {found}"
    return MinirunError(f"{what} is not supported: minirun's mounts cannot be told to CRIU", hint)
