"""What the simulated driver is to look like: `count=8,model=H100,driver=560.35.03,mig=3`.

The specification comes from the environment variable MINIRUN_SIM, else from the file
`<store>/drivers/simulated.json` (an object with the same keys), else it is the host of the facts
sheet: 4 × A100, driver 550.163.01, CUDA 12.4. It is parsed strictly: a typing error must not give
a host that was not asked for.
"""

from __future__ import annotations

from minirun.core.errors import UsageError
from minirun.core.keeping import jsonlite
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record

MODELS = {
    "V100": ("Tesla V100-SXM2-16GB", "Tesla", "7.0"),
    "T4": ("Tesla T4", "Nvidia", "7.5"),
    "A10": ("NVIDIA A10", "Nvidia", "8.6"),
    "A100": ("NVIDIA A100-SXM4-40GB", "Nvidia", "8.0"),
    "L4": ("NVIDIA L4", "Nvidia", "8.9"),
    "L40S": ("NVIDIA L40S", "Nvidia", "8.9"),
    "RTX4090": ("NVIDIA GeForce RTX 4090", "GeForceRTX", "8.9"),
    "H100": ("NVIDIA H100 80GB HBM3", "Nvidia", "9.0"),
    "H200": ("NVIDIA H200", "Nvidia", "9.0"),
    "B200": ("NVIDIA B200", "Nvidia", "10.0"),
}
"""Short name → (name, brand, architecture) as NVML says them."""

_CUDA = {
    470: "11.4", 510: "11.6", 515: "11.7", 525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3",
    550: "12.4", 555: "12.5", 560: "12.6", 565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0",
    590: "13.1",
}  # fmt: skip
"""First driver branch → the CUDA version it came with."""

LIMIT = 32
KEYS = ("count", "model", "driver", "mig", "mps")
_HINT = "as in count=8,model=H100,driver=560.35.03,mig=3"


class SimulatedSpec(Record):
    """A simulated driver. `mig` holds the GPUs that are split into three MIG devices each.

    `mps` says that the pipe directory of an MPS daemon is there too.
    """

    gpus: int = 4
    model: str = "A100"
    driver: str = "550.163.01"
    mig: tuple[int, ...] = ()
    mps: bool = False

    def __str__(self) -> str:
        """The same in one line, the same for all spellings of it."""
        mig = "+".join(str(number) for number in self.mig)
        base = f"count={self.gpus},model={self.model},driver={self.driver}"
        return f"{base},mig={mig},mps={self.mps:d}"


def load(text: str, path: str = "") -> SimulatedSpec:
    """Return what `text` says, of the JSON file `path` ("": of MINIRUN_SIM). Raises UsageError."""
    if not path:
        return parse(text) if text else SimulatedSpec()
    try:
        values = jsonlite.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: not a json object", 'as in {"count": 8, "model": "H100"}')
    return from_pairs({key: _text(value) for key, value in values.items()}, path)


def parse(text: str) -> SimulatedSpec:
    """Parse `count=8,model=H100,driver=560.35.03,mig=1+3`. Raises UsageError."""
    pairs: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals or key in pairs:
            raise UsageError(f"MINIRUN_SIM: {item!r}: expected key=value, each key once", _HINT)
        pairs[key] = value
    return from_pairs(pairs, "MINIRUN_SIM")


def from_pairs(pairs: dict[str, str], where: str) -> SimulatedSpec:
    """Check key by key. Raises UsageError that begins with `where`."""
    unknown = [key for key in pairs if key not in KEYS]
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}", f"one of {', '.join(KEYS)}")
    count = _number(pairs.get("count", "4"), f"{where}: count", LIMIT)
    model = pairs.get("model", "A100").upper()
    if model not in MODELS:
        raise UsageError(f"{where}: unknown model {model!r}", f"one of {', '.join(MODELS)}")
    driver = pairs.get("driver", "550.163.01")
    cuda_version(driver, where)
    mig = sorted({
        _number(item, f"{where}: mig", count - 1)
        for item in pairs.get("mig", "").split("+")
        if pairs.get("mig")
    })  # fmt: skip
    mps = bool(_number(pairs.get("mps", "0"), f"{where}: mps", 1))
    return SimulatedSpec(count, model, driver, tuple(mig), mps)


def cuda_version(driver: str, where: str = "driver") -> str:
    """Return the CUDA version that a driver version came with. Raises UsageError."""
    parts = driver.split(".")
    if len(driver) > 20 or len(parts) not in (2, 3) or None in map(whole, parts):
        raise UsageError(f"{where}: driver {driver!r} is no driver version", "as in 550.163.01")
    branch = max((first for first in _CUDA if first <= int(parts[0])), default=0)
    if not branch:
        raise UsageError(f"{where}: driver {driver} is older than {min(_CUDA)}")
    return _CUDA[branch]


def _number(text: str, where: str, limit: int) -> int:
    number = whole(text, most=limit)
    if number is None:
        raise UsageError(f"{where}: {text!r} is no number from 0 to {limit}", _HINT)
    return number


def _text(value: object) -> str:
    """A value of the JSON file as it would stand in MINIRUN_SIM."""
    if isinstance(value, list):
        return "+".join(str(item) for item in value)
    return str(int(value)) if isinstance(value, bool) else str(value)
