"""NVIDIA's stack: one folder for each of its boxes, under its own name.

shared    what they all read: the driver's files, config.toml, the variables
hook      nvidia-container-runtime-hook: stage 4
cli       nvidia-container-cli: stage 5
specs     CDI specifications of the driver

In this order: each of them imports the ones above it alone. nvidia-ctk and
nvidia-container-runtime: minirun.toolkit.
"""
