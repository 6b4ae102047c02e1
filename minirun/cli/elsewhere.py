"""Commands of docker and podman that minirun has not: why, and what to type in their place.

It is read when a command, or a flag before it, is not known; and for tutorials/reference/docker.md.
"""

from __future__ import annotations

_SWARM = "it is the swarm's, and minirun is for one machine"
_MACHINES = "ssh HOST minirun …"
_VM = "containers run on this machine, and not in a virtual one"
_BUILDER = "there is one builder, whose cache is the store's"
_DAEMON = "there is no daemon, here or on another machine"

DOCKERS = {
    **dict.fromkeys(("swarm", "node"), (_SWARM, _MACHINES)),
    **dict.fromkeys(("service", "stack"), (_SWARM, "minirun run -d --restart unless-stopped")),
    "secret": (_SWARM, "minirun build --secret; -v /path/of/file:/run/secrets/NAME:ro of run"),
    "config": (_SWARM, "-v /path/of/file:/path:ro of run"),
    "search": ("it is a page of each registry's own", "look there with a browser"),
    "buildx": (_BUILDER, "minirun build has the flags of buildx build; minirun image gc clears"),
    "builder": (_BUILDER, "minirun build; minirun image gc clears it"),
    "compose": (
        "docker compose speaks to docker's API (DOCKER_HOST), and here there is none",
        "minirun run for each service; podman-compose drives minirun as podman's runtime",
    ),
    "context": (_DAEMON, f"--root and --store choose a place; {_MACHINES}"),
    "plugin": ("there are none: drivers of volumes and networks are built in", "minirun --help"),
    "trust": (
        "docker's signatures ended in 2025", "minirun pull NAME@sha256:… says which image it is"
    ),
    "manifest": (
        "minirun makes no image for several platforms", "skopeo inspect --raw shows a manifest"
    ),
    "scout": ("it is a service of Docker's", "trivy and grype read what minirun save writes"),
    "sbom": ("it is a plugin of Docker's", "syft reads what minirun save writes"),
    "debug": ("it is a service of Docker's", "minirun inspect ID; minirun exec -it ID sh"),
    "init": ("it is a plugin of Docker Desktop's", "minirun build reads a Dockerfile"),
    **dict.fromkeys(("desktop", "extension"), (_VM, "minirun doctor says what it can do")),
}  # fmt: skip
"""docker's: why they are not here, and what to do."""

PODMANS = {
    "machine": (_VM, "minirun doctor says what it can do"),
    **dict.fromkeys(
        ("pod", "kube", "play", "generate", "quadlet"),
        ("minirun has no pods", "run --network container:ID joins a container's network"),
    ),
    "healthcheck": ("it is run by itself", "inspect -f '{{json .State.Health}}' ID"),
    "unshare": ("minirun makes the user namespace itself", "minirun run, without root"),
    **dict.fromkeys(
        ("mount", "umount"), ("minirun cp reaches the files", "minirun cp, minirun export")
    ),
}  # fmt: skip

FLAGS = {
    **dict.fromkeys(("-H", "--host", "-c", "--context"), f"{_DAEMON}: {_MACHINES}"),
    **dict.fromkeys(
        ("--tls", "--tlscacert", "--tlscert", "--tlskey", "--tlsverify"),
        "there is no daemon to speak to, and so no TLS",
    ),
    "--config": "login keeps names in containers/auth.json; $DOCKER_CONFIG/config.json is read too",
    **dict.fromkeys(("-l", "--log-level"), "--debug says more, MINIRUN_LOG=off less"),
    **dict.fromkeys(("--connection", "--url", "--remote", "-r"), f"{_DAEMON}: {_MACHINES}"),
}  # fmt: skip
"""docker's and podman's flags before the command: why they are left out, and what to do."""
