"""`run IMAGE` and `create IMAGE`: from docker's flags to a container.

run_image     the two commands; run_flags: their flags; run_options: what they and the image ask for
mounts        --volume, --mount, --tmpfs, --volumes-from, and the volumes that an image declares
mount_flags   what one of these flags says
network_flags --network, -p, --dns and their kin
properties    flags that are a property of config.json each: how their values are read
rights        --user, --group-add, --privileged, --ipc, --security-opt, --init
"""
