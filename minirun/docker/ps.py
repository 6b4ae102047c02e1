"""`minirun ps`: which containers there are, as docker lists them. `ps ID`: minirun.cli.runc.ps.

The containers are those of every state root in use (minirun.engines.roots), so that one that an
engine has made is found too, unless --root names one.
"""

from __future__ import annotations

import time

from minirun.cli.either import Ps
from minirun.cli.output import show, write
from minirun.common import docker_record, table
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import listing, lookup, moments

with lazy:
    from minirun.cli import words
    from minirun.docker import docker_form, docker_host, filters, health
    from minirun.faces.inspect import sizes
    from minirun.faces.show.template import formats, values
    from minirun.net import leases, ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.docker.filters import Candidate
    from minirun.faces.show.template.values import Fields

COLUMNS = ("CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES")
FIELDS = {
    "Command": "COMMAND", "CreatedAt": "CREATED AT", "Engine": "ENGINE", "GPUs": "GPUS",
    "ID": "CONTAINER ID", "Image": "IMAGE", "Labels": "LABELS", "LocalVolumes": "LOCAL VOLUMES",
    "Mounts": "MOUNTS", "Names": "NAMES", "Networks": "NETWORKS", "Ports": "PORTS",
    "RunningFor": "CREATED", "Size": "SIZE", "State": "STATE", "Status": "STATUS",
}  # fmt: skip
"""Fields of --format, and what stands above each as a column. GPUs and Engine are minirun's."""
_NOT_UP = (state.CREATED, state.STOPPED)
"""What the plain table leaves out."""
_TICKS = 100
"""In a second: USER_HZ, time(7)."""
_SHORT = 30
"""Signs of a command that a table shows."""


def main_ls(args: list[str], settings: Settings) -> int:
    """List containers: `container ls`."""
    flags = Ps(args, "container ls")
    flags.none()
    return list_containers(flags, settings)


def list_containers(flags: Ps, settings: Settings) -> int:
    """Print the table, or what --format asks for. Raises MinirunError, OSError."""
    most = _last(flags)
    wanted = words.filters(flags.filter, filters.OF_CONTAINERS) if flags.filter else {}
    if flags.format and flags.format != "table":
        formats.read(flags.format, 1)  # a wrong one is told even if there is no container
    found = [record for root in roots.known(settings) for record in listing.records(root)]
    found.sort(key=lambda record: record.created, reverse=True)
    everything = flags.all or most > 0 or "status" in wanted
    shown = [record for record in found if everything or record.status not in _NOT_UP]
    if wanted:
        chosen = filters.ContainerFilter(wanted, found, settings.store)
        shown = [one for one in shown if chosen.fits(_candidate(one, settings, wanted))]
    shown = shown[:most] if most > 0 else shown
    if flags.quiet:
        return show(record.id if flags.no_trunc else state.short(record.id) for record in shown)
    if flags.format and flags.format != "table":
        rows = [_fields(record, settings, flags) for record in shown]
        return write(formats.lines(flags.format, rows, FIELDS, 1))
    return write(table.text(_table(shown, settings, flags), 3))


def _last(flags: Ps) -> int:
    """Return how many of the newest are asked for; -1 for all that fit."""
    if flags.latest and "last" not in flags.given:
        return 1
    number = whole(flags.last, -LARGEST)
    if number is None:
        raise UsageError(f"invalid --last {flags.last!r}", "a number of containers, such as 3")
    return number


def _candidate(
    record: ContainerRecord, settings: Settings, wanted: dict[str, list[str]]
) -> Candidate:
    mounts = tuple(_mounts(record, settings)) if "volume" in wanted else ()
    name = state.name_of(record.directory)
    return filters.Candidate(record, name, labels(record), _networks(record), mounts)


def labels(record: ContainerRecord) -> dict[str, str]:
    """Return a container's labels, in order."""
    return dict(sorted(docker_record.of(record).labels.items()))


def _networks(record: ContainerRecord) -> tuple[str, ...]:
    docker = docker_record.of(record)
    names = tuple(each.network for each in docker.attachments)
    return names or ((docker.network.program or docker.network.mode) if docker.network else "none",)


def _mounts(record: ContainerRecord, settings: Settings) -> list[Fields]:
    root = record.directory.rpartition("/")[0]
    try:
        return docker_host.mounts(lookup.load(settings._replace(root=root), record.id))
    except (MinirunError, OSError):
        return []  # it is damaged, or has just gone


def _table(shown: list[ContainerRecord], settings: Settings, flags: Ps) -> list[tuple[str, ...]]:
    """Return the rows of docker's table, with a column for what only some containers have."""
    more: dict[str, list[str]] = {}
    if flags.size:
        more["SIZE"] = [_size(record) for record in shown]
    gpus = [docker_record.of(record).gpus for record in shown]
    if any(gpus):
        more["GPUS"] = [clean(each or "-") for each in gpus]
    if any(record.origin for record in shown):
        more["ENGINE"] = [clean((record.origin or {}).get("engine", "-")) for record in shown]
    rows = [_row(record, settings.store, flags.no_trunc) for record in shown]
    return [
        (*COLUMNS, *more),
        *((*row, *cells) for row, *cells in zip(rows, *more.values(), strict=True)),
    ]


def _row(record: ContainerRecord, store: str, whole: bool) -> tuple[str, ...]:
    asked = record.origin or {}
    docker = docker_record.of(record)
    return (
        record.id if whole else state.short(record.id),
        clean(docker.image or asked.get("image") or "-"), _command(record, whole) or "-",
        f"{age(record.created)} ago", status(record), _ports(record, store) or "-",
        state.shown_name(record.directory),
    )  # fmt: skip


def _command(record: ContainerRecord, whole: bool) -> str:
    command = clean(" ".join(record.args or []))
    if not command:
        return ""
    return f'"{command if whole or len(command) <= _SHORT else command[: _SHORT - 3] + "..."}"'


def _ports(record: ContainerRecord, store: str) -> str:
    """Return the published ports, as docker has them."""
    if not docker_record.of(record).network or record.status == state.STOPPED:
        return ""
    return ", ".join(ports.shown(leases.published(store, record)))


def status(record: ContainerRecord) -> str:
    """Return a container's status in docker's words: Up 5 minutes, Exited (0) 2 hours ago."""
    if record.status == state.RUNNING:
        word = str((health.read(record.directory) or {}).get("Status", ""))
        mark = {"": "", "starting": " (health: starting)"}.get(word, f" ({clean(word)})")
        return f"Up {_up(record)}{mark}"
    if record.status == state.PAUSED:
        return f"Up {_up(record)} (Paused)"
    if record.status == state.STOPPED and record.exit_status is not None and record.finished:
        if docker_record.of(record).restart and state.is_alive(record.supervisor):
            return f"Restarting ({record.exit_status}) {age(record.finished)} ago"
        return f"Exited ({record.exit_status}) {age(record.finished)} ago"
    return docker_form.status_of(record).capitalize()


def _up(record: ContainerRecord) -> str:
    """Return how long init has been there: its start is counted in ticks since the boot."""
    uptime = float(state.read_text("/proc/uptime").split()[0])
    return moments.age(uptime - (record.init or {"start": 0})["start"] / _TICKS)


def age(stamp: str) -> str:
    """Return how long ago a time stamp of ours is, in docker's words."""
    return moments.age(time.time() - moments.moment(stamp))


def _size(record: ContainerRecord) -> str:
    own, whole = sizes.sizes(record)
    return f"{sizes.human(own)} (virtual {sizes.human(whole)})"


def _fields(record: ContainerRecord, settings: Settings, flags: Ps) -> Fields:
    """Return what a template sees of a container."""
    whole, asked, own = flags.no_trunc, record.origin or {}, labels(record)
    mounts = _mounts(record, settings)
    names = [row["Name"] or row["Source"] for row in mounts if row["Type"] != "tmpfs"]
    docker = docker_record.of(record)
    return values.Fields(
        Command=_command(record, whole), CreatedAt=moments.shown(record.created),
        Engine=asked.get("engine", ""), GPUs=docker.gpus or "",
        ID=record.id if whole else state.short(record.id),
        Image=docker.image or asked.get("image") or "",
        Labels=",".join(f"{key}={value}" for key, value in sorted(own.items())),
        LocalVolumes=str(sum(row["Type"] == "volume" for row in mounts)),
        Mounts=",".join(names), Names=state.shown_name(record.directory),
        Networks=",".join(_networks(record)), Ports=_ports(record, settings.store),
        RunningFor=f"{age(record.created)} ago",
        Size=_size(record) if flags.size or ".Size" in flags.format else "0B",
        State=docker_form.status_of(record), Status=status(record),
        Label=lambda name: own.get(name, ""),
    )  # fmt: skip
