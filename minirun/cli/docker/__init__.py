"""docker's commands: a container of an image, from `run` to `rm`.

run           `run`; run_options: what its flags ask for
mounts        --volume, --mount, --tmpfs
rights        --user, --security-opt
declared      volumes and the stop signal that an image declares
view          what is shown while the container starts
exec          `exec`; exec_inside: its process, once the interpreter is sealed
containers    ps, logs, events
stop          stop, rm
network       network, port
network_flags --network, -p, --dns and their kin
gc            gc
"""
