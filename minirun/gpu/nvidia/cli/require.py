"""NVIDIA_REQUIRE_*: conditions that an image puts on the driver and on each GPU it is given.

A small language: blanks are OR, commas are AND, each term is KEY OP VALUE with the keys cuda,
driver, arch and brand and the operators = != < <= > >=. So `cuda>=12.2 brand=tesla,driver>=535`
is satisfied by CUDA 12.2, or by a Tesla with driver 535. As in nvidia-container-cli (dsl.c), whose
texts the errors have, what follows a term that decides is not read; where no GPU was chosen,
conditions on one hold; and the error names the first alternative.
"""

from __future__ import annotations

from minirun.core.errors import GPUError
from minirun.core.keeping.numbers import whole
from minirun.gpu.asked.request import UnmetRequirement
from minirun.gpu.inventory import Gpu, Inventory

_SIGNS = "<>=!"
_OPERATORS = {"=": "=", "!=": "!=", "!": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LONGEST = 20
_CUDA_ADVICE = ", please update your driver to a newer version, or use an earlier cuda container"
_NOT_ASKED = ": without libnvidia-ml.so.1 its version cannot be asked for"


def check(inventory: Inventory, gpus: tuple[Gpu, ...], requirements: tuple[str, ...]) -> None:
    """Check every requirement for every chosen GPU.

    Raises UnmetRequirement naming the one that fails, GPUError for one that is no expression.
    """
    driver = {"cuda": inventory.cuda, "driver": inventory.driver}
    for facts in [driver | {"arch": gpu.arch, "brand": gpu.brand} for gpu in gpus] or [driver]:
        for requirement in requirements:
            _check(requirement, facts)


def _check(requirement: str, facts: dict[str, str]) -> None:
    """Check one expression: one of its alternatives must hold in all its terms."""
    holds = True
    for alternative in requirement.split(" "):
        if not alternative:
            continue
        for text in filter(None, alternative.split(",")):
            holds = _holds(text, facts)
            if not holds:
                break
        else:
            break
    if not holds:
        first = requirement.partition(" ")[0]
        known = facts["cuda"]  # "" without NVML: then it is not the driver that is too old
        advice = (_CUDA_ADVICE if known else _NOT_ASKED) if first.startswith("cuda>=") else ""
        hint = f"this host: {', '.join(f'{key} {value}' for key, value in facts.items() if value)}"
        text = f"requirement error: unsatisfied condition: {first}{advice}"
        raise UnmetRequirement(text, hint, requirement)


def _holds(text: str, facts: dict[str, str]) -> bool:
    """Evaluate `cuda>=12.4`; a fact that is unknown satisfies nothing. Raises GPUError."""
    at = next((at for at, sign in enumerate(text) if sign in _SIGNS), 0)
    value = text[at:].lstrip(_SIGNS)
    key, sign = text[:at].lower(), text[at : len(text) - len(value)]
    operator = _OPERATORS.get(sign, "")
    is_version = key in ("cuda", "driver", "arch") and _version(value)
    if not operator or not (is_version or (key == "brand" and value and operator in ("=", "!="))):
        hint = f"{text!r}: expected cuda, driver, arch or brand, then one of = != < <= > >="
        raise GPUError("requirement error: invalid expression", hint)
    if not facts.get(key):
        return key not in facts
    if key == "brand":
        return (facts[key].lower() == value.lower()) == (operator == "=")
    have, want = _version(facts[key]), _version(value)
    return {
        "=": have == want, "!=": have != want, "<": have < want,
        "<=": have <= want, ">": have > want, ">=": have >= want,
    }[operator]  # fmt: skip


def _version(text: str) -> list[int]:
    """Return 12.4.0 as [1, 12, 4]: zeros at its end do not count. [] if it is no version."""
    parts = [part for part in text.split(".") if part]
    read = [whole(part, most=10**_LONGEST) for part in parts]
    if text.startswith(".") or None in read:
        return []
    numbers = [1, *(number for number in read if number is not None)]
    while numbers[-1] == 0:
        numbers.pop()
    return numbers if parts else []
