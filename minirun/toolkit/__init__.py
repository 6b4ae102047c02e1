"""A shelf: NVIDIA's other programs, other vendors, and CRIU. The runtime runs without this folder.

What a start with GPUs needs, NVIDIA's hook and nvidia-container-cli, is in gpu/nvidia; what CDI
needs in a start, in gpu/cdi and gpu/nvidia/specs.

commands    NVIDIA's programs as commands of minirun; gpu mps, gpu timeslice; checkpoint, restore
ctk         nvidia-ctk: CDI specifications as files, engines' configurations
runtime     nvidia-container-runtime
vendors     AMD, Intel, Gaudi
mps         MPS, through which several containers use one GPU at once
timeslice   the length of a GPU's time slice
criu        checkpoint and restore
"""
