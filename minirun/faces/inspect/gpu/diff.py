"""One request in both modes: what legacy, and what cdi, would put into a container.

Both answers come from the planners that a run uses: minirun.gpu.nvidia.cli.planner behind the
hook's argument list, and minirun.gpu.asked.ways.cdi_edits with the specs of this host. Nothing is
done.
Users met these differences when NVIDIA's runtime changed its default from one to the other
(nvidia-container- toolkit #1456, #1470, #1555).
"""

from minirun.core.keeping.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.gpu.asked.ways.records import CdiEdits
from minirun.gpu.driverroot import PROC
from minirun.gpu.edits import CdiHook, Edits
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia import hook
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.steps import Tmpfs

_LINK = "--link"


class ModeResult(Record):
    """What one mode adds to a container."""

    env: tuple[str, ...]
    nodes: dict[str, str]
    """Path → what the cgroup allows of it, out of "rwm"."""
    rules: tuple[str, ...]
    mounts: dict[str, str]
    """Path on the host → path in the container, of files outside of /proc."""
    links: dict[str, str]
    """Path → target, except the SONAME links that ldconfig makes."""
    hooks: tuple[str, ...]
    proc: tuple[str, ...]
    """What the container sees of /proc/driver/nvidia."""
    capabilities: str
    requirements: str


class DiffRow(Record):
    """An aspect in which the two may differ, as text."""

    aspect: str
    legacy: tuple[str, ...]
    cdi: tuple[str, ...]


def legacy(found: Inventory, env: list[str], root: Root) -> ModeResult | None:
    """Return what hook and nvidia-container-cli do; None if `env` asks for no GPU.

    `root` is the image's root, for where its libraries lie. Raises GPUError, OSError.
    """
    config = {"process": {"env": env}, "root": {"path": "rootfs"}}
    argv = hook.command_line(config, {"pid": 1, "bundle": "/bundle"})
    if argv is None:
        return None
    request = hook.read(argv)
    needs = request.requirements
    edits = nvidia.plan(found, request, nvidia.find_library_places(root, request))
    own = tuple(row for row in env if row.startswith("NVIDIA_VISIBLE_DEVICES="))
    return ModeResult(
        env=own[-1:],
        nodes={node.path: node.permissions for node in edits.device_nodes},
        rules=tuple(str(rule) for rule in edits.device_rules()),
        mounts={m.host_path: m.path for m in edits.mounts if not m.path.startswith("/proc/")},
        links={link.path: link.target for link in edits.links},
        hooks=("prestart: nvidia-container-runtime-hook", f"in it: ldconfig {edits.ldconfig}"),
        proc=_legacy_proc(edits, len(found.gpus)),
        capabilities=f"as asked: {', '.join(request.capabilities) or 'none'}",
        requirements=f"checked: {', '.join(needs)}" if needs else "none asked",
    )


def _legacy_proc(edits: Edits, gpus: int) -> tuple[str, ...]:
    """Return the files of the tmpfs that hides the host's view, and what is mounted into it."""
    views = [step for step in edits.steps if isinstance(step, Tmpfs) and step.path == PROC]
    names = [file.path.rpartition("/")[2] for view in views for file in view.files]
    mounted = [m.path for m in edits.mounts if m.path.startswith(f"{PROC}/gpus/")]
    return (f"a tmpfs with {', '.join(names)}", f"{len(mounted)} of {gpus} GPUs")


def cdi(found: Inventory, injection: CdiEdits, asked: tuple[str, ...]) -> ModeResult:
    """Return what config.json gets; `asked` are the requirements, which CDI does not check."""
    edits = injection.edits
    words = [word for hook in edits.hooks for word in hook.args]
    pairs = [to.split("::") for at, to in enumerate(words) if at and words[at - 1] == _LINK]
    replaced = "disable-device-node-modification" in words
    return ModeResult(
        env=edits.env,
        nodes={node.path: node.permissions for node in edits.device_nodes},
        rules=tuple(str(rule) for rule in edits.device_rules()),
        mounts={m.host_path: m.path for m in edits.mounts if not m.path.startswith("/proc/")},
        links={path: target for target, path in pairs},
        hooks=tuple(f"{hook.name}: {_name(hook)}" for hook in edits.hooks),
        proc=(
            f"as on the host{', but for params' if replaced else ''}",
            f"{len(found.gpus)} of {len(found.gpus)} GPUs",
        ),
        capabilities="not looked at: every library of the spec",
        requirements=f"not checked: {', '.join(asked)}" if asked else "none asked",
    )


def _name(hook: CdiHook) -> str:
    """Return what a hook does: the first word behind the program's own, before its options."""
    words = [word for word in hook.args[1:] if not word.startswith("-")]
    names = [word for word in words if "::" not in word and "/" not in word]
    return " ".join(dict.fromkeys(names))


def rows(old: ModeResult, new: ModeResult) -> list[DiffRow]:
    """Return the aspects in which legacy (`old`) and cdi (`new`) differ."""
    found = [
        DiffRow("environment", old.env, new.env),
        DiffRow("nodes", _access(old, new), _access(new, old)),
        DiffRow("cgroup rules", _less(old.rules, new.rules), _less(new.rules, old.rules)),
        DiffRow("files", _only(old, new), _only(new, old)),
        DiffRow("places of the same files", _places(old, new), _places(new, old)),
        DiffRow("links", _links(old, new), _links(new, old)),
        DiffRow("hooks", old.hooks, new.hooks),
        DiffRow(PROC, old.proc, new.proc),
        DiffRow("capabilities", (old.capabilities,), (new.capabilities,)),
        DiffRow("requirements", (old.requirements,), (new.requirements,)),
    ]
    return [row for row in found if row.legacy != row.cdi]


def _less(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in sorted(one) if text not in other)


def _access(one: ModeResult, other: ModeResult) -> tuple[str, ...]:
    nodes = sorted(one.nodes.items())
    return tuple(f"{path} {access}" for path, access in nodes if other.nodes.get(path) != access)


def _only(one: ModeResult, other: ModeResult) -> tuple[str, ...]:
    return tuple(path for host, path in one.mounts.items() if host not in other.mounts)


def _places(one: ModeResult, other: ModeResult) -> tuple[str, ...]:
    """Return the folders of files that both mount, but not at the same place."""
    moved = [p for host, p in one.mounts.items() if other.mounts.get(host, p) != p]
    folders = [path.rpartition("/")[0] for path in moved]
    return tuple(f"{folders.count(folder)} in {folder}" for folder in dict.fromkeys(folders))


def _links(one: ModeResult, other: ModeResult) -> tuple[str, ...]:
    return tuple(f"{p} -> {to}" for p, to in one.links.items() if other.links.get(p) != to)


def text(differences: list[DiffRow], old: ModeResult, new: ModeResult, most: int) -> list[str]:
    """Return the differences as text, then what is the same; at most `most` names an aspect."""
    lines = []
    for row in differences:
        lines.append(row.aspect)
        lines += _side("legacy", row.legacy, most) + _side("cdi", row.cdi, most)
    same = len(old.mounts.keys() & new.mounts.keys())
    nodes = sum(new.nodes.get(path) == access for path, access in old.nodes.items())
    return [*lines, f"the same in both: {same} files of the host, {nodes} nodes with their access"]


def _side(name: str, found: tuple[str, ...], most: int) -> list[str]:
    shown = list(found[:most]) or ["(nothing more)"]
    if len(found) > most:
        shown.append(f"and {len(found) - most} more: --all")
    head = f"  {name:<8}"
    return [f"{head if not at else ' ' * len(head)}{text}" for at, text in enumerate(shown)]
