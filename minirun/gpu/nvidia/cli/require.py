"""NVIDIA_REQUIRE_*: conditions that an image puts on the driver and on each GPU it is given.

A small language: blanks are OR, commas are AND, each term is KEY OP VALUE with the keys cuda,
driver, arch and brand and the operators = != < <= > >=. So `cuda>=12.2 brand=tesla,driver>=535`
is satisfied by CUDA 12.2, or by a Tesla with driver 535. The texts of the errors are those of
nvidia-container-cli. As there, nothing is checked where no GPU was chosen.
"""

from minirun.core.errors import GPUError
from minirun.gpu.inventory import Gpu, Inventory

_OPERATORS = (">=", "<=", "!=", "=", "<", ">")
_CUDA_ADVICE = ", please update your driver to a newer version, or use an earlier cuda container"
_NOT_ASKED = ": without libnvidia-ml.so.1 its version cannot be asked for"


def check(inventory: Inventory, gpus: "tuple[Gpu, ...]", requirements: "tuple[str, ...]") -> None:
    """Check every requirement for every chosen GPU. Raises GPUError naming the one that fails."""
    for gpu in gpus:
        facts = {
            "cuda": inventory.cuda,
            "driver": inventory.driver,
            "arch": gpu.arch,
            "brand": gpu.brand,
        }
        for requirement in requirements:
            _check(requirement, facts)


def _check(requirement: str, facts: "dict[str, str]") -> None:
    """Check one expression: one of its alternatives must hold in all its terms."""
    failed = ""
    for alternative in requirement.split():
        terms = [_term(text) for text in alternative.split(",")]
        wrong = [
            f"{key}{op}{value}" for key, op, value in terms if not _holds(facts, key, op, value)
        ]
        if not wrong:
            return
        failed = failed or wrong[0]
    if failed:
        asked = facts["cuda"]  # "" without NVML: then it is not the driver that is too old
        advice = (_CUDA_ADVICE if asked else _NOT_ASKED) if failed.startswith("cuda") else ""
        hint = f"this host: {', '.join(f'{key} {value}' for key, value in facts.items() if value)}"
        raise GPUError(f"requirement error: unsatisfied condition: {failed}{advice}", hint)


def _term(text: str) -> "tuple[str, str, str]":
    """Split `cuda>=12.4`. Raises GPUError."""
    for operator in _OPERATORS:
        key, found, value = text.partition(operator)
        if found:
            version = key in ("cuda", "driver", "arch") and all(
                part.isascii() and part.isdigit() for part in value.split(".")
            )
            if version or (key == "brand" and value and operator in ("=", "!=")):
                return key, operator, value
            break
    hint = f"{text!r}: expected cuda, driver, arch or brand, then one of {' '.join(_OPERATORS)}"
    raise GPUError("requirement error: invalid expression", hint)


def _holds(facts: "dict[str, str]", key: str, operator: str, value: str) -> bool:
    """Evaluate a term; a fact that is unknown satisfies nothing."""
    if not facts[key]:
        return False
    if key == "brand":
        return (facts[key].lower() == value.lower()) == (operator == "=")
    have, want = _version(facts[key]), _version(value)
    return {
        "=": have == want, "!=": have != want, "<": have < want,
        "<=": have <= want, ">": have > want, ">=": have >= want,
    }[operator]  # fmt: skip


def _version(text: str) -> "tuple[int, ...]":
    """(12, 4, 0) for 12.4: missing parts are zero."""
    parts = [int(part) for part in text.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))
