"""nvidia-container-cli and libnvidia-container: from the driver's files to the plan of edits.

cli_args    its command line → NvidiaRequest; program: the program of that name
planner     inventory + request + container → Edits; require, mig, imex, compat: what few ask for
nodes       a device node as a step
host        stage 5's host with a real driver
warn, skew  what the real one passes over in silence
kmods       --load-kmods
musl        images of musl, which cannot load the driver's libraries
"""
