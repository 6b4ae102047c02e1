"""nvidia-container-runtime, which an engine calls in place of runc.

wrapper     what `create` changes in config.json, and the hand-over
graphics    of that, mode legacy: files of Vulkan, EGL and X11, and /dev/dri
gated       of that, mode legacy: devices that NVIDIA_GDS=enabled and the like name
devices     of that, modes auto and cdi: which CDI devices are asked for
jit         of that, mode auto: edits made from the host on the spot
"""
