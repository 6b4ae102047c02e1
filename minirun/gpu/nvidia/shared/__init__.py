"""Facts of NVIDIA's files that more than one of its programs reads.

catalog        what the driver consists of, and which capability brings which file
find           where its files and nodes are; ldcache: in the loader's cache
real           the inventory of a host with a driver; nvml: its GPUs; wsl: the same on WSL2
environment    NVIDIA_VISIBLE_DEVICES and its relatives → NvidiaRequest
config         config.toml of the container toolkit
versions       what older versions of the real toolkit make of the same request
lookup         where a program is
log            what the toolkit's programs log
"""
