"""CDI specifications of NVIDIA's GPUs, made from what the host has; in a start just in time.

recipe      how a spec is to be made: names, hooks, their program; and what it becomes
generate    the host's inventory → the spec; driver, graphics: which files a container gets
modes       specs for what is not using a GPU: management, IMEX, GPUDirect Storage, …
hooks       what nvidia-cdi-hook does in a container
"""
