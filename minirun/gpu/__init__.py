"""GPU injection: what the host has → what is chosen of it → Edits → put into the container.

asked       which GPUs a container asks for: request, select; ways: how it may ask
inject      stage 5's work, from arguments to edits that are put in: begin here
inventory   the records of what a host has; drivers: whose driver that is
edits       all that is done in a container, as one record; steps: its parts
apply       Edits → the container, or all as it was before; target: that container, from inside
ldconfig    the host's ldconfig, run in the container
owner       the user that owns the files of a container with a user namespace
driverroot  the folder that the driver's files come from; trusted: which folder that may be
nvidia      a folder for each program of NVIDIA's stack; vendors: AMD, Intel, Gaudi
cdi         the other way: device names → config.json
share       which container has which GPU
simulated   what a host with GPUs looks like, for a host without

Imports go one way: see GPU_FLOORS in tests/test_rings.py.
"""
