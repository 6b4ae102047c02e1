"""The anatomy of a container as a page of text: sections with aligned lines, plain ASCII."""

import textwrap
from itertools import groupby
from typing import Any

from minirun.faces.inspect.document import Anatomy, ConfigSeccomp, MountFacts
from minirun.faces.show.log import event_row

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_LONG = 36
_TOGETHER = 4
"""So many files bound into one folder, and more, are shown as one line."""


def lines(
    found: Anatomy, rules: list[str], width: int, pictures: list[str], *, unicode: bool = True
) -> list[str]:
    """Return the page. `rules` are the device rules as `inspect --devices` prints them.

    `pictures`: the lines of the pictures of its networks.
    """
    sections = [
        ("", _head(found)),
        ("Layers, the lowest first, and what made them", _made(found)),
        ("Declared by the image", _declared(found["declared"])),
        ("Differs from config.json", found["differences"]),
        ("Namespaces", _namespaces(found)),
        ("User and rights", _rights(found)),
        ("Mounts", _mounts(found)),
        ("Devices, and what the cgroup allows of them", _devices(found)),
        ("Device rules", rules or _wanted_rules(found)),
        ("Cgroup", _cgroup(found)),
        ("Network interfaces", _interfaces(found)),
        ("Networks", _networks(found)),
        ("Networks, as the kernel has them", pictures),
        ("GPUs", _gpus(found)),
        ("Hooks", _hooks(found)),
        ("Stages", _stages(found)),
    ]
    page: list[str] = []
    for title, rows in sections:
        if not rows:
            continue
        asked = "" if found["live"] or title not in _ASKED else _ASKED[title]
        page += [f"{title}{asked}"] if title else []
        for row in rows:
            page += _fold(event_row.clean(row, unicode), width, title)
        page.append("")
    return page[:-1]


_ASKED = {
    **dict.fromkeys(("Namespaces", "User and rights", "Mounts", "Cgroup"), " (config.json's)"),
    "Device rules": " (config.json's, and stage 5's)",
}
"""After a container's end the kernel knows nothing: the source that a section then has."""


def _fold(row: str, width: int, title: str) -> list[str]:
    """Break a row that is too long; what follows hangs below its second column."""
    indent = "  " if title else ""
    own = len(row) - len(row.lstrip())
    gap = row.find("  ", own)
    column = gap + len(row[gap:]) - len(row[gap:].lstrip())
    if title == "Mounts" or gap < 0:
        column = own + 4
    return textwrap.wrap(
        row, width, initial_indent=indent, subsequent_indent=indent + " " * column,
        break_on_hyphens=False, drop_whitespace=True, replace_whitespace=False,
    ) or [""]  # fmt: skip


def _head(found: Anatomy) -> list[str]:
    end = f", exit status {found['exitStatus']}" if found["exitStatus"] is not None else ""
    rows = [
        f"{found['name']}: {found['status']}{end}",
        *([f"id        {found['id']}"] if found["name"] != found["id"] else []),
        f"image     {found['image'] or '-'}",
        f"command   {' '.join(found['args'] or [])}",
        f"created   {found['created'][:19]}Z",
        f"bundle    {found['bundle']}",
    ]
    return [*rows, f"pid       {found['pid']}"] if found["live"] else rows


def _declared(found: dict[str, Any]) -> list[str]:
    rows = [f"volume        {path}" for path in found.get("volumes", ())]
    if signal := found.get("stop_signal"):
        rows.append(f"stop signal   {signal}")
    if test := found.get("healthcheck", {}).get("Test"):
        rows.append(f"health check  {' '.join(test)} (minirun does not run it)")
    return rows + [f"label         {key}={text}" for key, text in found.get("labels", {}).items()]


def _namespaces(found: Anatomy) -> list[str]:
    if not found["live"]:
        return [f"{kind:<8}  {how}" for kind, how in found["wanted"]["namespaces"].items()]
    rows = []
    for kind, row in found["namespaces"].items():
        who = ["the host"] * row["host"] + [f"container {name}" for name in row["containers"]]
        many = "1 process" if row["processes"] == 1 else f"{row['processes']} processes"
        if who and row["unseen"]:
            many = f"at least {many}"
        shared = f"shared with {', '.join(who)}" if who else "its own"
        rows.append(f"{kind:<8}  {row['inode']}  {shared}: {many}")
    return rows


def _rights(found: Anatomy) -> list[str]:
    if found["user"] is None:
        asked, caps = found["wanted"]["user"], found["wanted"]["capabilities"]
        rows = [f"user         uid {asked['uid']}, gid {asked['gid']}{_groups(asked['groups'])}"]
    else:
        user, caps = found["user"], found["capabilities"]
        ids = f"uid {user['uid']['effective']}, gid {user['gid']['effective']}"
        rows = [f"user         {ids}{_groups(user['groups'])}"]
        rows += [
            f"{name}       {row['containerID']} is {row['hostID']} outside, {row['size']} ids"
            for name, rows_of_map in (("uidMap", user["uidMap"]), ("gidMap", user["gidMap"]))
            for row in rows_of_map
            if row["containerID"] != row["hostID"]
        ]
    names: dict[str, list[str]] = {}
    for kind, held in caps.items():
        capabilities = " ".join(name.removeprefix("CAP_") for name in held) or "none"
        names.setdefault(capabilities, []).append(kind)
    for capabilities, kinds in names.items():
        rows.append(f"{kinds[0]:<11}  {capabilities}")
        rows += [f"{kind:<11}  as {kinds[0]}" for kind in kinds[1:]]
    if found["seccomp"]:
        mode, filters = found["seccomp"]["mode"], found["seccomp"]["filters"]
        count = f", {filters} filter{'s' if filters > 1 else ''}" if filters else ""
        rows.append(f"seccomp      {mode}{count}{_profile(found['wanted']['seccomp'])}")
        rows.append(f"no_new_privs {'yes' if found['noNewPrivileges'] else 'no'}")
    return rows


def _profile(asked: ConfigSeccomp | None) -> str:
    if not asked:
        return ""
    allowed, instructions = asked["allowed"], asked["instructions"]
    named = f"{asked['profile']}, {allowed} calls allowed by name"
    return f": {named}, {instructions} instructions"


def _groups(groups: list[int]) -> str:
    return f", groups {' '.join(map(str, groups))}" if groups else ", no other group"


def _mounts(found: Anatomy) -> list[str]:
    if not found["live"]:
        rows = [f"{m['destination']}  {m.get('type') or 'bind'}" for m in found["wanted"]["mounts"]]
        return [*(f"layer  {path}" for path in found["wanted"]["layers"]), *rows]
    rows = []
    for _, group in groupby(found["mounts"], _alike):
        same = list(group)
        first, indent = same[0], "  " * same[0]["depth"]
        if len(same) >= _TOGETHER:
            folder, source = (path.rpartition("/")[0] for path in (first["path"], first["root"]))
            each = f"each {first['type']} {_options(first)}"
            rows.append(f"{indent}{folder}/*  {len(same)} files of {_short(source or '/')}, {each}")
            continue
        for row in same:
            rows += [f"{indent}{row['path']}  {_kind(row)}", *_layer_lines(row, indent)]
    return rows


def _made(found: Anatomy) -> list[str]:
    """Return a line for each layer: its number, its size, and what the image's history says."""
    rows = []
    for number, layer in enumerate(found["layers"]):
        size = _size(layer["size"])
        rows.append(f"{number:<4} {size:<9} {layer['created_by'] or layer['path']}")
    return rows


def _alike(row: MountFacts) -> tuple[Any, ...]:
    """Files that were bound from one folder into one folder belong together."""
    if row["root"] == "/" or row["type"] == "proc":
        return (row["id"],)
    folder = row["path"].rpartition("/")[0]
    return (row["depth"], folder, row["root"].rpartition("/")[0], row["device"])


def _kind(row: MountFacts) -> str:
    """Return what is mounted: type, which part of the file system, options."""
    bound = f" of {_short(row['root'])}" if row["root"] != "/" else ""
    hidden = "hidden by " if row["masked"] else ""
    return f"{hidden}{row['type']}{bound} {_options(row)}"


def _options(row: MountFacts) -> str:
    return " ".join(option for option in row["options"] if option != "relatime")


def _short(path: str) -> str:
    """Cut the head of a long path."""
    return path if len(path) <= _LONG else "…" + path[path.find("/", len(path) - _LONG) :]


def _layer_lines(row: MountFacts, indent: str) -> list[str]:
    layers = row.get("layers")
    if not layers:
        return []
    lower = []
    for layer in layers["lower"]:
        own = f"image {layer['image']}, layer {layer['layer']}"
        name = own if layer["image"] else layer["path"]
        lower.append(f"{indent}    lower  {name}{', id-mapped' if layer['idMapped'] else ''}")
    volatile = " (volatile: never synced)" if layers["volatile"] else ""
    return [f"{indent}    upper  {layers['upper']}{volatile}", *lower]


def _devices(found: Anatomy) -> list[str]:
    rows = []
    for node in found["devices"]:
        number = f"{node['type']} {node['major']}:{node['minor']}"
        allowed = "?" if node["access"] is None else node["access"] or "denied"
        mark = "  SIMULATED" if node["simulated"] else ""
        rows.append(f"{number:<10} {allowed:<7} {node['path']}{mark}")
    return rows


def _wanted_rules(found: Anatomy) -> list[str]:
    if found["cgroup"] and found["cgroup"].get("rootless"):
        return ["none: what its user may open, the container may"]
    return found["wanted"]["deviceRules"]


def _cgroup(found: Anatomy) -> list[str]:
    rows = []
    if found["cgroup"] and not found["cgroup"]["version"]:
        return [f"none: {found['cgroup']['reason']}"]
    if found["cgroup"]:
        version, path = found["cgroup"]["version"], found["cgroup"]["path"]
        below = dict.fromkeys(at.removesuffix(path) for at in found["cgroup"]["dirs"].values())
        rows.append(f"path      {path} (version {version})")
        rows.append(f"below     {' '.join(below)}")
    limits = found["limits"] if found["live"] else found["wanted"]["limits"]
    used = found["usage"] or {}
    peak = f"{_size(used['memory_peak'])} at most so far" if used.get("memory_peak") else ""
    spent = used.get("cpu")
    cpu = f"{spent / 1e9:.3f} s used" if spent is not None else ""
    cpus = f"{limits['cpus']:g} CPUs" if limits.get("cpus") else None
    rows.append(f"memory    {_of(_size(limits.get('memory')), _size(used.get('memory')), peak)}")
    rows.append(f"tasks     {_of(limits.get('pids'), used.get('pids'))}")
    rows.append(f"cpu       {_of(cpus, cpu)}")
    if limits.get("cpuset"):
        rows.append(f"cpus      {limits['cpuset']}")
    return rows


def _of(limit: object, *used: object) -> str:
    most = "no limit" if limit is None else f"limit {limit}"
    return ", ".join([*(str(part) for part in used if part not in (None, "")), most])


def _size(count: int | None) -> str | None:
    if count is None:
        return None
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}".replace(".0 ", " ")
    return f"{count} bytes"


def _interfaces(found: Anatomy) -> list[str]:
    return [
        f"{row['name']}  {'up' if row['up'] else 'down'}  {' '.join(row['addresses'])}".rstrip()
        for row in found["interfaces"]
    ]


def _networks(found: Anatomy) -> list[str]:
    rows = []
    for row in found["networks"]:
        ends = f"{row['interface'] or 'no link'} to {row['link'] or 'no link'}"
        at = " ".join(row["addresses"]) or "no address"
        rows.append(f"{row['network']}  {ends} in {row['bridge'] or 'no bridge'}, {at}")
        rows += [f"{'':<{len(row['network'])}}  published {port}" for port in row["ports"]]
    return rows


def _gpus(found: Anatomy) -> list[str]:
    edits = found["gpus"]
    if not edits:
        return []
    mark = ", SIMULATED: there is no driver" if edits.get("simulated") else ""
    rows = [f"driver {edits.get('driver', '')}{mark}"]
    rows += [f"{gpu['index']}  {gpu['model']}  {gpu['uuid']}" for gpu in edits.get("gpus", [])]
    count = len(edits.get("mounts", []))
    return [*rows, f"{count} files and sockets of the driver, {len(edits['deviceNodes'])} nodes"]


def _hooks(found: Anatomy) -> list[str]:
    rows = []
    for hook in found["hooks"]:
        took = f" in {event_row.duration(hook['duration'])}" if hook["duration"] is not None else ""
        if hook["status"] is not None:
            result = "ok" if hook["status"] == 0 else f"failed with {hook['status']}"
        else:
            result = "did not end by itself" if hook["ran"] else "has not run"
        where = " (in-line: stages 4 and 5)" if hook.get("inLine") else ""
        rows.append(f"{hook['kind']:<15}  {hook['path']}: {result}{took}{where}")
    return rows


def _stages(found: Anatomy) -> list[str]:
    rows = []
    for row in found["stages"]:
        took = "never ended" if row["duration"] is None else event_row.duration(row["duration"])
        error = f": {row['error']}" if row["error"] else ""
        rows.append(f"{row['stage']} {row['actor']:<8} {took:>7}  {row['name']}{error}")
    return rows
