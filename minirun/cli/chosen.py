"""What flags choose that config.json has no say in: minirun.core.choices.

minirun run --gpus 0 --driver-root DIR IMAGE      of `run`, or
minirun --driver-root DIR run --gpus 0 IMAGE      before the command, for the same
minirun --gpu-driver=amd create ID                an engine writes config.json, and its
                                                  configuration the flags before the command
"""

import os

from minirun.cli.flags import Parsed
from minirun.core import events
from minirun.core.choices import GPU_DRIVERS, OTHER_VENDORS, Choices
from minirun.core.config import ANNOTATION, LOG, Config
from minirun.core.errors import UsageError
from minirun.core.visible import clean, warn

_SHOWN = 5
"""So many annotations that are ignored are named."""


def take_global(flags: Parsed, before: Choices) -> None:
    """Let the flags before the command stand for those of `run` that are not given."""
    for name in ("gpu_driver", "gpus", "driver_root", "load_kmods"):
        value = getattr(before, name)
        if value and name not in flags.given:
            flags.values[name] = value
            flags.given.add(name)


def of_run(
    flags: Parsed, before: Choices, layers: "tuple[str, ...]", vendor: Choices, driver: str
) -> Choices:
    """Return what `run IMAGE` chooses: `vendor`'s, or with `driver` NVIDIA's or the simulated one.

    An annotation in minirun's own name would be ignored, so it is refused. Raises UsageError.
    """
    for key in (text.partition("=")[0] for text in flags.annotation):
        if key.startswith(ANNOTATION) and key != LOG:
            hint = "a flag of run says it, such as --gpu-driver"
            raise UsageError(f"--annotation {key}: minirun obeys none of its own but {LOG}", hint)
    return vendor._replace(
        gpu_driver=driver or vendor.gpu_driver, exclusive=_exclusive(flags, before), layers=layers,
        volatile=flags.rm, gpu_hook=bool(driver) and flags.gpu_mode == "hook",
    )  # fmt: skip


def _exclusive(flags: Parsed, before: Choices) -> bool:
    """Whether the GPUs are to be the container's alone. Raises UsageError."""
    if "gpus" not in flags.given:
        return False
    from minirun.gpu import selector

    return before.exclusive or selector.parse_gpus(flags.gpus).exclusive


def of_bundle(flags: Parsed, before: Choices) -> Choices:
    """Return what is chosen `before` the command for a bundle, or by `run --bundle` itself.

    Raises UsageError.
    """
    own = flags.values  # `create` has no such flags
    driver = own.get("gpu_driver") or before.gpu_driver
    root = own.get("driver_root") or before.driver_root
    gpus = own.get("gpus") or before.gpus
    if driver and driver not in GPU_DRIVERS:
        raise UsageError(f"invalid --gpu-driver {driver!r}", ", ".join(GPU_DRIVERS))
    if gpus and driver not in OTHER_VENDORS:
        hint = "NVIDIA_VISIBLE_DEVICES in config.json names NVIDIA's; or --gpu-driver=amd"
        raise UsageError(f"--gpus {gpus}: with a bundle only of amd, intel and gaudi", hint)
    return Choices(
        gpu_driver=driver, driver_root=root and os.path.abspath(root), gpus=gpus,
        load_kmods=bool(own.get("load_kmods")) or before.load_kmods, exclusive=before.exclusive,
    )  # fmt: skip


def tell_ignored(config: Config) -> None:
    """Say in a line what of config.json is not obeyed, since an image may have brought it.

    Annotations in minirun's own name; and a vendor's variable, where it could have brought GPUs.
    Raises OSError.
    """
    from minirun.gpu import variables  # only a bundle may have one

    if vendor := variables.refused(config):
        text = f"ignored variable: {OTHER_VENDORS[vendor]}"
        _warn(text, f"--gpu-driver={vendor} before the command obeys it")
    names = config.ignored_annotations
    if not names:
        return
    shown = [clean(name[:60]) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = f"ignored annotations: {', '.join(shown)}{more}"
    _warn(text, "an image may have brought them; minirun's own flags choose: see minirun --help")


def _warn(text: str, hint: str) -> None:
    events.emit("note", "warning", {"text": text}, why=hint)
    warn(f"config.json: {text} ({hint})")
