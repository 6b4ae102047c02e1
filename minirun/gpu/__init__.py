"""GPU injection: what the host has → what is chosen of it → Edits → put into the container.

inject      stage 5's work, from arguments to edits that are put in: begin here
drivers     which driver the host has, and its inventory: nvidia.cli.real, or simulated
inventory   the records of what a host has
select      what --gpus says, and which GPUs of the inventory that means
variables   what asks for another vendor's GPUs, and whether it may
request     NvidiaRequest, which stage 4 makes and stage 5 reads
steps       what is done in a container; edits: all of it, which each vendor's planner makes
apply       Edits → the container, or all as it was before
driverroot  the folder that the driver's files come from; trusted: which folder that may be
nvidia      a folder for each program of NVIDIA's stack; vendors: AMD, Intel, Gaudi
cdi         the other way: device names → config.json
share       which container has which GPU; time slices, MPS
"""
