"""The variables and the hook of NVIDIA's, and a bundle whose GPUs the caller names.

    minirun --gpus=0,1 create --bundle DIR ID

The engine's configuration says which GPUs; what DIR's config.json asks for counts no more.
"""

from __future__ import annotations

from minirun.core.config import GPU_HOOK_ROW, Config, environment_of
from minirun.core.errors import UsageError
from minirun.gpu.asked.request import VISIBLE
from minirun.gpu.asked.select import parse_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"


def put_into(config: Config) -> Config:
    """Return a copy of `config` with the GPUs of its choices. Raises UsageError."""
    text = config.choices.nvidia_gpus
    selector = parse_gpus(text)
    if selector.amount:
        hint = "as in --gpus 0,1: no GPU is reserved for a bundle"
        raise UsageError(f"--gpus {text}: a count, with a bundle", hint)
    there: list[str] = config.process.get("env") or []
    kept = [entry for entry in there if not entry.startswith(f"{VISIBLE}=")]
    env = [*kept, *variables(selector.devices, selector.capabilities, there)]
    hooks = dict(config.raw.get("hooks") or {})
    if not any(config.in_line(hook) for _, _, hook in config.hooks_of_stage_3()):
        hooks["prestart"] = [*(hooks.get("prestart") or []), GPU_HOOK_ROW]
    raw = {**config.raw, "hooks": hooks, "process": {**config.process, "env": env}}
    choices = config.choices._replace(exclusive=config.choices.exclusive or selector.exclusive)
    return Config(raw, config.bundle, choices)


def variables(
    devices: Iterable[str], capabilities: Iterable[str], there: Iterable[str]
) -> tuple[str, ...]:
    """Return the variables that NVIDIA's hook reads.

    Capabilities among the variables that are `there` stay, as with docker.
    """
    chosen = f"{VISIBLE}={','.join(devices)}"
    named = ",".join(capabilities)
    if not named and _CAPABILITIES in environment_of(there):
        return (chosen,)
    return chosen, f"{_CAPABILITIES}={named or 'compute,utility'}"
