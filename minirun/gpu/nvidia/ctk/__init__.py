"""nvidia-ctk: CDI specifications made from what the host has, and engines' configurations.

recipe      how a spec is to be made: names, hooks, their program; and what it becomes
generate    the host's inventory → the spec; driver, graphics: which files a container gets
modes       specs for what is not using a GPU: management, IMEX, GPUDirect Storage, …
host        the host, errors in the toolkit's words
make        the spec, made, logged and written; transform: a spec whose paths begin elsewhere
hooks       what nvidia-cdi-hook does in a container
engines     nvidia-ctk runtime configure: daemon.json, CRI-O's TOML; containerd: containerd's
engine_files what is known of an engine's TOML: the runtimes that it has, and its default one
config_file nvidia-ctk config: config.toml, with other values
devchar     nvidia-ctk system create-dev-char-symlinks, create-device-nodes
"""
