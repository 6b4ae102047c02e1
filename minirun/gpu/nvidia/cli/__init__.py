"""nvidia-container-cli and libnvidia-container: find the driver's files, plan the edits.

cli_args    its command line → NvidiaRequest; program: the program of that name
real        the inventory of a host with a driver; catalog, ldcache, nvml: what it asks
planner     inventory + request + container → Edits; require, mig, imex, compat: what few ask for
nodes       a device node as a step
host        stage 5's host with a real driver
warn, skew  what the real one passes over in silence
ldconfig    the host's ldconfig, run in the container
kmods       --load-kmods
main        the command `nvidia-container-cli`
musl        images of musl, which cannot load the driver's libraries
"""
