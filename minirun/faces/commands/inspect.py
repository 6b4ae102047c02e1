"""`minirun inspect`, `gpu why` and `gpu diff`: what a container is made of, as the kernel sees it.

`gpu why ID` says what GPUs it was asked for, by whom, given, and has in force now; `gpu diff` what
one request becomes in legacy and in cdi mode, side by side.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import closing

from minirun.cgroups import cgroup_of
from minirun.cgroups.reading import listing
from minirun.cli import part
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import show, write
from minirun.common import docker_record, screen, table
from minirun.core.config import environment_of
from minirun.core.container import Container
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.engines import roots
from minirun.faces.inspect import anatomy, device_names, page
from minirun.faces.inspect.given import saved_edits
from minirun.faces.inspect.gpu import diff, report, way
from minirun.faces.show.log import find
from minirun.faces.show.text import network_picture
from minirun.gpu import drivers
from minirun.gpu.asked.request import GpuOptions
from minirun.gpu.asked.select import GpuSelector, parse_gpus
from minirun.gpu.asked.ways import cdi_edits
from minirun.gpu.asked.ways.records import GpuRequest
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.shared import environment
from minirun.gpu.share import count
from minirun.image import workshop
from minirun.running import lookup

with lazy:
    from minirun.faces.inspect.network import facts

_WIDEST = 120
_MOST = 6
"""So many names of one aspect are shown without --all."""


class Inspect(Flags):
    """Show what a container is made of."""

    command = "inspect"
    devices: bool
    format: str = flag("-f")
    size: bool = flag("-s")
    type: str
    text: bool
    json: bool


class Why(Flags):
    """Say what GPUs a container was asked for, by whom, given, and has now; and what differs."""

    command = "gpu why"
    repair: bool
    path: bool
    json: bool


class GpuDiff(Flags):
    """Show what legacy and what cdi mode would put into a container. Nothing is done."""

    command = "gpu diff"
    gpus: str
    gpu_driver: str
    cdi_spec_dir: list[str]
    all: bool
    json: bool


def main_inspect(args: list[str], settings: Settings) -> int:
    """Print what a container is made of, its device rules, or docker's document.

    docker's is printed if a flag of docker's is given, or if standard output is no terminal; on a
    terminal, too, for several names, and for a name that no container has.
    """
    flags = Inspect(args)
    if flags.given & {"format", "size", "type"}:
        with_those = "with --format, --type or --size"
        flags.refuse_flags({"devices", "json", "text"}, with_those, "one of them")
    for name in ("devices", "json"):
        if getattr(flags, name):
            flags.refuse_flags({"json", "text"} - {name}, f"with --{name}", "one of them")
    own = flags.devices or flags.json or flags.text
    flags.takes(1, 1 if own else ANY)
    if not own and _is_dockers(flags, settings):
        form, kind = flags.format, flags.type
        act = part("minirun.docker.inspecting", "inspect")
        return int(act(flags.args, form, kind, settings, size=flags.size))
    container = _load(settings, flags.args[0])
    if flags.devices:
        return show(_rules(container))
    if flags.json:
        return write(json.dumps(anatomy(container), indent=2) + "\n")
    found = anatomy(container)
    rules = _rules(container) if found["deviceRules"] is not None else []
    width, unicode = min(shutil.get_terminal_size().columns, _WIDEST), screen.speaks_unicode()
    pictures = _pictures(container, unicode=unicode) if found["networks"] else []
    lines = page.lines(found, rules, width, pictures, unicode=unicode)
    return write(table.page(lines, unicode=unicode))


def _is_dockers(flags: Inspect, settings: Settings) -> bool:
    """Return True if docker's document is printed. Raises MinirunError."""
    if flags.given or len(flags.args) > 1 or not os.isatty(1):
        return True
    name = flags.args[0]
    place, container_id = roots.locate(settings, name)
    is_there = "/" not in container_id and os.path.lexists(f"{place.root}/{container_id}")
    return not is_there and not find.is_left(name, *roots.known(settings))


def _pictures(container: Container, *, unicode: bool) -> list[str]:
    """Return the pictures of a container's networks, with its own cables alone.

    Raises MinirunError, OSError.
    """
    rows: list[str] = []
    names = [each.network for each in docker_record.of(container.record).attachments]
    for each in facts.read(container.settings.store, names):
        own = tuple(end for end in each.ends if end.lease.container == container.directory)
        alone = each._replace(ends=own)
        rows += network_picture.lines(alone, unicode=unicode, with_rules=False)
    return rows


def _load(settings: Settings, name: str) -> Container:
    """Return the container. Raises StateError, which says so where only its log is left."""
    place = roots.locate(settings, name)
    try:
        return lookup.load(*place, whole=True)
    except StateError:
        events = find.of_container(name, *roots.known(settings))
        if events is None or _is_a_part(name, find.id_of(events)):
            raise
        hint = f"what it did is left: minirun timeline {name}"
        raise StateError(f"container {name!r} has been deleted", hint) from None


def _is_a_part(name: str, container_id: str) -> bool:
    """Return True if a name is no more than the begin of an id that a user has chosen."""
    chosen = not state.is_made_up(container_id)
    return chosen and container_id != name and container_id.startswith(name)


def _rules(container: Container) -> list[str]:
    """Return the effective device rules with names, in the form of the project's beginnings.

    Raises MinirunError, OSError.
    """
    rules = cgroup_of(container).effective_device_rules()
    return listing(rules, device_names(container))


def main_why(args: list[str], settings: Settings) -> int:
    """Print why a container has the GPUs that it has. Return 1 if anything is not as given."""
    flags = Why(args)
    if len(flags.args) != 1:
        flags.refuse()
    if flags.path:
        flags.refuse_flags({"json"}, "with --path", "one of them")
    container = lookup.load(*roots.locate(settings, flags.args[0]), whole=True)
    if flags.repair:
        count = report.repair(container)
        sys.stderr.write(f"minirun: {count} device rules put back\n")
    found = report.report(container)
    if flags.path:
        text = table.page([way.line(container, found)])
    elif flags.json:
        document = report.document(found, saved_edits(container.record))
        text = json.dumps(document, indent=2) + "\n"
    else:
        text = table.page(report.lines(found))
    return write(text) or int(bool(found.differences))


def main_diff(args: list[str], settings: Settings) -> int:
    """Print how the two modes differ for one request."""
    flags = GpuDiff(args)
    if len(flags.args) > 1 or not (flags.args or flags.gpus):
        flags.refuse()
    found = drivers.inventory(flags.gpu_driver or "auto", settings.store)
    old, new = _both(flags, settings, found)
    rows = diff.rows(old, new)
    if flags.json:
        document = {
            "simulated": found.simulated, "legacy": old._asdict(), "cdi": new._asdict(),
            "differences": [row._asdict() for row in rows],
        }  # fmt: skip
        return write(json.dumps(document, indent=2) + "\n")
    most = sys.maxsize if flags.all else _MOST
    driver = f"driver {found.driver}{' (SIMULATED: there is no driver)' if found.simulated else ''}"
    title = f"{' '.join([*flags.args, flags.gpus]).strip()}: {driver}"
    return write(table.page([title, "", *diff.text(rows, old, new, most)]))


def _both(
    flags: GpuDiff, settings: Settings, found: Inventory
) -> tuple[diff.ModeResult, diff.ModeResult]:
    """Return what each mode would do. Raises UsageError, ImageError, GPUError, OSError."""
    env, place = [], "/"
    driver = "simulated" if found.simulated else "nvidia"
    if flags.args:
        image = workshop.call("find")(flags.args[0], settings)
        env = list(image.env)
        layers = [path for path in image.layers if os.path.lexists(f"{path}/etc/debian_version")]
        place = (layers or list(image.layers))[0]
    if flags.gpus:
        selector = parse_gpus(flags.gpus)
        chosen = list(selector.devices)
        if selector.amount:
            there, hint = [str(gpu.number) for gpu in found.gpus], found.describe_gpus()
            chosen = count.choose(selector, there, driver, (settings, ""), hint)
        env.append(f"NVIDIA_VISIBLE_DEVICES={','.join(chosen)}")
        if selector.capabilities:
            env.append(f"NVIDIA_DRIVER_CAPABILITIES={','.join(selector.capabilities)}")
    variables = environment_of(env)
    devices = environment.visible(variables)
    asked = environment.environment_request(variables)
    with closing(Root.at(place)) as root:
        old = diff.legacy(found, env, root)
    if old is None or asked is None:
        raise UsageError(f"the image {flags.args[0]} asks for no GPU", "add --gpus all")
    selector = GpuSelector(devices or ("none",))
    cdi = GpuOptions(driver=driver, spec_dirs=tuple(flags.cdi_spec_dir))
    injection = cdi_edits.resolve(GpuRequest(cdi, selector, settings, ""), ())
    for text in injection.warnings:
        say(f"warning: {text}")
    return old, diff.cdi(found, injection, asked.requirements)
