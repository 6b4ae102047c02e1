"""Ring 2: what podman, containerd, docker and Slurm need beyond the specification."""
