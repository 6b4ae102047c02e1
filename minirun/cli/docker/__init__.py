"""docker's commands: a container of an image, from `run` to `rm`.

run           `run`; run_flags: its flags; run_options: what they and the image ask for
mounts        --volume, --mount, --tmpfs, --volumes-from, and the volumes that an image declares
mount_flags   what one of these flags says
volume        the commands for volumes
properties    flags that are a property of config.json each: how their values are read
rights        --user, --group-add, --privileged, --ipc, --security-opt, --init
view          what is shown while the container starts
exec          `exec`; exec_flags: its flags; exec_inside: its process, in the sealed interpreter
ps            ps; filters: --filter
logs          logs
event_stream  events; docker_events: docker's form of it
inspecting    inspect --format, --type
watching      wait, top, stats, rename
about         info, version
stop          stop, rm; start: start, restart; attach: attach
network       network; network_of: of that, and port, what is about one container
network_flags --network, -p, --dns and their kin
groups        container, system: docker's groups; prune: container prune, system prune
gc            gc
"""
