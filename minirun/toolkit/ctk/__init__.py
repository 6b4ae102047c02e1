"""nvidia-ctk: CDI specifications as files, and engines' configurations.

How a specification comes about of what the host has: minirun.gpu.nvidia.specs.

host        the host, errors in the toolkit's words
make        the spec, made, logged and written; transform: a spec whose paths begin elsewhere
engines     nvidia-ctk runtime configure: daemon.json, CRI-O's TOML; containerd: containerd's
engine_files what is known of an engine's TOML: the runtimes that it has, and its default one
config_file nvidia-ctk config: config.toml, with other values
devchar     nvidia-ctk system create-dev-char-symlinks, create-device-nodes
"""
