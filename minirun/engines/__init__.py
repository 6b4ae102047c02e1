"""Ring 2: what podman, containerd, docker and Slurm need beyond the specification.

roots           the state roots in use: each engine has its own
origin          which engine asked for a container
holders         who has which GPU, in all state roots
other_hook      a program of the user's under the name of NVIDIA's hook
rootless        whether minirun runs without root; rootless_config: config.json for that
journal         failed starts in the system's journal
"""
