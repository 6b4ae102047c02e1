"""How much is tried of what has no end: a part in each test run, all of it by `make night`."""

import os

from hypothesis import settings

CASES = int(os.environ.get("MINIRUN_FUZZ") or 0)
"""So many broken configurations, and then all of what is below; 0: a part, in a minute."""
SEEDS = range(20 if CASES else 5)
"""Of tests that choose a moment or a mutation by lot."""


def examples(count: int) -> int:
    """How many examples hypothesis tries, where `count` are tried at night."""
    return count if CASES else count // 4


settings.register_profile("ours", max_examples=examples(100))
settings.load_profile("ours")
