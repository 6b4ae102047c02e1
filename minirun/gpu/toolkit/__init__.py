"""NVIDIA's container toolkit: the programs around nvidia-container-cli, each under its own name.

config      config.toml, which all of them read
log         the lines they log
lookup      where a program is
prestart    nvidia-container-runtime-hook
wrapper     nvidia-container-runtime: what `create` changes in config.json, and the hand-over
graphics    of that, mode legacy: files of Vulkan, EGL and X11, and /dev/dri
devices     of that, modes auto and cdi: the edits of CDI devices
engines     nvidia-ctk runtime configure: daemon.json, containerd's and CRI-O's TOML
devchar     nvidia-ctk system create-dev-char-symlinks
"""
