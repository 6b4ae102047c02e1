"""A name for a container that was given none: two words, such as quiet_harbour.

docker makes up names of this form too, from an adjective and the name of a scientist. The words
here are minirun's own: one that describes, and one of the landscape.
"""

from __future__ import annotations

import os

from minirun.common import naming

_FIRST = (
    "able", "ample", "apt", "autumn", "bold", "brief", "bright", "brisk", "broad", "calm",
    "clear", "clever", "close", "cool", "curved", "daily", "deep", "distant", "double", "early",
    "eastern", "easy", "even", "fair", "fast", "fine", "firm", "fresh", "full", "gentle",
    "glad", "golden", "grand", "green", "half", "happy", "high", "honest", "inner", "keen",
    "kind", "large", "late", "level", "light", "lively", "local", "long", "loyal", "lucky",
    "mellow", "merry", "mild", "modest", "narrow", "near", "neat", "new", "noble", "northern",
    "open", "outer", "patient", "plain", "polite", "prompt", "proud", "quick", "quiet", "rapid",
    "ready", "round", "royal", "safe", "sharp", "silent", "silver", "simple", "slow", "small",
    "smooth", "soft", "solid", "southern", "spare", "steady", "still", "straight", "strong",
    "sunny", "sweet", "swift", "tall", "tidy", "true", "upper", "vivid", "warm", "western",
    "wide", "wild", "wise", "young",
)  # fmt: skip
_SECOND = (
    "anchor", "arch", "bank", "barn", "basin", "bay", "beach", "bend", "berry", "birch", "boat",
    "boulder", "branch", "bridge", "brook", "canal", "canyon", "cape", "cave", "cedar",
    "channel", "cliff", "cloud", "clover", "coast", "copper", "coral", "cove", "creek", "crest",
    "crossing", "dale", "dawn", "delta", "dune", "dusk", "echo", "elm", "ember", "fern",
    "ferry", "field", "fjord", "flint", "ford", "forest", "fountain", "frost", "garden", "gate",
    "glacier", "glade", "grove", "gulf", "harbour", "haven", "hazel", "heath", "hill", "hollow",
    "island", "ivy", "juniper", "lagoon", "lake", "lamp", "lantern", "larch", "ledge",
    "lighthouse", "linden", "maple", "marsh", "meadow", "mill", "mist", "moor", "moss",
    "mountain", "oak", "orchard", "pass", "pebble", "peak", "pier", "pine", "plain", "pond",
    "poplar", "prairie", "quarry", "rain", "reed", "reef", "ridge", "river", "rock", "rowan",
    "sand", "shore", "sky", "slope", "snow", "spring", "spruce", "stone", "storm", "stream",
    "summit", "sun", "terrace", "thicket", "tide", "timber", "trail", "tunnel", "valley",
    "village", "water", "wave", "well", "willow", "wind", "wood",
)  # fmt: skip


def free_name(root: str) -> str:
    """Return a name that no container of a state root has."""
    name, tries = two_words(), 0
    while naming.id_of(root, name):
        name, tries = two_words(tries), tries + 1
    return name


def two_words(more: int = 0) -> str:
    """Return a name by chance, one of 12,000; `more`: with a digit, since names were taken."""
    number = int.from_bytes(os.urandom(8), "big")
    number, first = divmod(number, len(_FIRST))
    number, second = divmod(number, len(_SECOND))
    return f"{_FIRST[first]}_{_SECOND[second]}{number % 10 if more else ''}"
