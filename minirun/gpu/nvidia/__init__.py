"""NVIDIA's stack: one folder for each of its boxes, under its own name.

hook      nvidia-container-runtime-hook: stage 4
cli       nvidia-container-cli: stage 5
runtime   nvidia-container-runtime, and config.toml, which all of them read
ctk       nvidia-ctk, nvidia-cdi-hook
find      where the driver's files are, for cli and ctk; wsl: on WSL2
"""
