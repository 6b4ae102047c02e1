"""GPU injection: what the host has → what is chosen of it → Edits → put into the container.

inventory   what the host has: by NVIDIA's driver (nvidia.cli.real) or a simulated one
selector    what --gpus says; select: which GPUs of the inventory that means
request     NvidiaRequest, which stage 4 makes and stage 5 reads
edits       Edits: all that a container gets, as steps; each vendor's planner makes one
apply       Edits → operations → the container; undo: what a failure puts back
nvidia      a folder for each program of NVIDIA's stack; vendors: AMD, Intel, Gaudi
cdi         the other way: device names → config.json
share       which container has which GPU; time slices, MPS
"""
