"""The recorded cases in which minirun differs from NVIDIA's programs on purpose: at most three."""

_LEFT = "the real one leaves 26 mounts behind; here nothing is left"
DIFFERENT = {
    "err-node-missing-nvidia0": _LEFT,
    "err-node-wrong-dev": _LEFT,
    "csv-nofiles-v1.20.0": "csv is the mode of Tegra boards, which have no driver as in Figure 3; "
    "it is refused in one line",
}
"""Case → why it differs."""
