"""NVIDIA's programs, each under its own name; and commands that need what lies beside them.

container_cli   nvidia-container-cli, nvidia-container-runtime-hook
ctk             nvidia-ctk, nvidia-cdi-hook
cdi             nvidia-ctk cdi
ctk_config      nvidia-ctk config
ctk_runtime     nvidia-ctk runtime configure
ctk_system      nvidia-ctk system
sharing         gpu timeslice, gpu mps
checkpoint      checkpoint, restore
"""
