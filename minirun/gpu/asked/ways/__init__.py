"""The four ways in which `run IMAGE` may ask for GPUs, and what config.json gets (Figure 2).

vendor        --gpus 0,1 --gpu-driver amd, or -e AMD_VISIBLE_DEVICES=0,1
cdi           --device nvidia.com/gpu=0, annotations, and --gpus 0,1 --gpu-mode cdi
environment   -e NVIDIA_VISIBLE_DEVICES=0,1; an image's own variable is no word of the user's
of_host       --gpus 0,1

Each says whether it is asked, and adds its part to RunGpus, in this order.

records         what the ways read, GpuRequest, and make, RunGpus
cdi_edits       the edits of CDI devices
installed_hook  NVIDIA's own hook, for --gpu-mode hook

Three modes (--gpu-mode): legacy, the environment's variables, which stages 4 and 5 obey in-line;
hook, the same, and NVIDIA's own hook; cdi, the edits of CDI specs.
"""

from __future__ import annotations

from minirun.core.errors import UsageError
from minirun.core.keeping.choices import Choices
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.gpu.asked.request import VISIBLE
from minirun.gpu.asked.select import GpuSelector, bare_number, parse_gpus
from minirun.gpu.asked.ways import cdi, of_host, vendor
from minirun.gpu.asked.ways.records import GpuRequest, RunGpus

with lazy:
    from minirun.gpu import trusted  # few name a root
    from minirun.gpu.asked.ways import environment  # 2 ms, only without --gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from minirun.core.keeping.settings import Settings
    from minirun.gpu.asked.request import GpuOptions

    class AskingWay(Protocol):
        """One way. Neither function has anything to do with what another way is asked."""

        def is_asked(self, request: GpuRequest, given: RunGpus) -> bool:
            """Return True if the request is made in this way; `given` is of those before."""

        def give(self, request: GpuRequest, given: RunGpus) -> RunGpus:
            """Return `given` with the part of this way. Raises MinirunError, OSError."""


def resolve(flags: GpuOptions, settings: Settings, container_id: str) -> RunGpus:
    """Return what config.json gets for the GPUs that are asked for.

    GPUs that are chosen here (count=N) are reserved. Says on standard error what the user must
    know. Raises MinirunError, OSError.
    """
    selector, note = _selected(flags)
    if note:
        say(note)
    request = GpuRequest(flags, selector, settings, container_id)
    given = RunGpus(choices=_choices(flags, selector), warnings=(note,) if note else ())
    ways: tuple[AskingWay, ...] = (vendor, cdi, environment, of_host)
    for way in ways:
        if way.is_asked(request, given):
            given = way.give(request, given)
            refuse_two(request, given)
    return given


def _selected(flags: GpuOptions) -> tuple[GpuSelector, str]:
    """Return the GPUs that the user names, and a line for the user, or "".

    Raises UsageError, GPUError.
    """
    if flags.gpus is not None:
        return parse_gpus(flags.gpus), bare_number(flags.gpus)
    own, refused = environment.requested_by_user(flags.image, flags.image_env, flags.variables)
    return own or GpuSelector(), refused


def _choices(flags: GpuOptions, selector: GpuSelector) -> Choices:
    """Return what the flags choose, whichever way it is. Raises UsageError, GPUError."""
    hint = "the folder that has the driver's usr/lib, dev and proc or sys"
    root = _folder("--driver-root", flags.driver_root, hint)
    dev_root = _folder("--dev-root", flags.dev_root, "the folder that has the nodes in its dev")
    if flags.dev_root and not dev_root:
        dev_root = "/"
    exclusive = flags.gpus is not None and (flags.exclusive or selector.exclusive)
    return Choices(
        driver_root=root, dev_root=dev_root, load_kmods=flags.load_kmods, exclusive=exclusive
    )


def _folder(flag: str, path: str, hint: str) -> str:
    """Return the folder that a flag names, without links; "" without one.

    Raises UsageError, GPUError.
    """
    if not path:
        return ""
    if fault := trusted.not_a_folder(path):
        raise UsageError(f"{flag} {path}: {fault}", hint)
    return trusted.check(path)


def refuse_two(request: GpuRequest, given: RunGpus) -> None:
    """Raise UsageError if the GPUs of one vendor are asked for in two ways at once.

    NVIDIA's CDI files set NVIDIA_VISIBLE_DEVICES=void, so that its hook gives no GPU besides.
    """
    flags, selector = request.flags, request.selector
    if not given.cdi or flags.mode == "cdi" or selector.is_empty or selector.devices == ("none",):
        return
    others = [name for name in given.cdi.devices if name not in given.names]
    same = [name for name in others if name.startswith(given.kind)]
    if same:
        flag = f"--gpus {flags.gpus}" if flags.gpus is not None else f"-e {VISIBLE}"
        text = f"{flag} and the CDI device {same[0]} are two ways to ask for the same vendor's gpus"
        raise UsageError(text, "all of them in one: --gpus 0,1; or --gpu-mode=cdi for both")
