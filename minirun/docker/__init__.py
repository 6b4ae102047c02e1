"""A shelf: docker's verbs, on the containers that the runtime beside it starts.

The runtime runs without this folder. `run` and `create` of an image are the runtime's: cli/run.

ps            ps; filters: --filter
logs          logs; output_reader: from which files
attach        attach; attached: who is attached, at the supervisor's end
start         start, restart; restarts: --restart
stop          stop, rm
watching      wait, top, stats, rename; process_table: what top shows
docker_events events, in docker's form
health        health checks: --health-cmd, or an image's HEALTHCHECK
network       network; network_of: of that, and port, what is about one container
volume        volume
kinds         what network and volume have in common: ls, rm
prune         prune, of containers, images, networks, volumes, and of all
groups        container, system: docker's groups
about         info, version
inspecting    inspect --format, --type; inspect of a container, network, volume
docker_form   a container as docker's inspect describes it; docker_host: its HostConfig and Mounts;
              docker_network: its NetworkSettings
"""
