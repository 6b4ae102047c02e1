"""NVIDIA's stack: one folder for each of its boxes, under its own name.

shared    what they all read: the driver's files, config.toml, the variables
hook      nvidia-container-runtime-hook: stage 4
cli       nvidia-container-cli: stage 5
ctk       nvidia-ctk, nvidia-cdi-hook
runtime   nvidia-container-runtime

In this order: each of them imports the ones above it alone.
"""
