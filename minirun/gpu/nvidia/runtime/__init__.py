"""nvidia-container-runtime, and what NVIDIA's programs share: config.toml, logs, the host.

config      config.toml, which all of them read
log         the lines they log
lookup      where a program is
wrapper     nvidia-container-runtime: what `create` changes in config.json, and the hand-over
graphics    of that, mode legacy: files of Vulkan, EGL and X11, and /dev/dri
gated       of that, mode legacy: devices that NVIDIA_GDS=enabled and the like name
devices     of that, modes auto and cdi: which CDI devices are asked for
jit         of that, mode auto: edits made from the host on the spot
versions    what older versions of the real toolkit make of the same
host        the host, errors in the toolkit's words
"""
