"""Why a container has the GPUs that it has: asked, given, in force now, and what does not fit.

    asked       by whom: the command line, the environment, CDI names, annotations (config.json)
    given       what stage 5, or CDI, recorded in edits.json
    now         the cgroup's rules, the container's nodes and mounts (inspect.gpu.observed)

Between given and now lies what users report most: "Failed to initialize NVML: Unknown Error", when
another program has rewritten the cgroup's device rules (nvidia-container-toolkit #48);
"Driver/library version mismatch" after an update (#394). The real stack has no tool that tells
the two apart. Pure functions: the caller has read the kernel's files.
"""

from minirun.cgroups.rules import DeviceRule
from minirun.common import docker_record
from minirun.core.config import Config
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.faces.inspect.gpu.loading import ObservedLoading
from minirun.faces.inspect.gpu.observed import ObservedGpus, ObservedNode
from minirun.gpu.asked.request import DISABLE_REQUIRE, REQUIRE, NvidiaRequest, source
from minirun.gpu.cdi import names
from minirun.gpu.driverroot import PROC
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia import hook
from minirun.gpu.nvidia.cli import musl, planner
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.steps import DeviceNode
from minirun.gpu.vendors import signs
from minirun.gpu.vendors.signs import KINDS, OTHER_VENDORS

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_ANNOTATION = "cdi.k8s.io/"
_FLAG = "engine's flag"
_NONE = ", which asks for no GPU"
_CUDA_VISIBLE, _CAPABILITIES = "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
_CDI_HOOK = "nvidia-cdi-hook"
_UUIDS = ("GPU-", "MIG-")
_ANEW = "start the container anew"
_OTHER_PATH = "take that folder out of LD_LIBRARY_PATH, or remove the file from the image"
_NO_CGROUPS = (
    "no-cgroups = true stands in config.toml of NVIDIA's container toolkit, for engines without "
    'root; programs say "Failed to initialize NVML: Unknown Error" from the first start on'
)
_CGROUPS = f"set no-cgroups = false in /etc/nvidia-container-runtime/config.toml; {_ANEW}"
_CLOSED = "the owner and mode of the node keep the command's user out"
_GROUP = "--user UID:GID with the node's group (docker: --group-add GID), or as root"


class RequestSource(Record):
    """A request for GPUs: who makes it, in which words, and whether it counts."""

    by: str
    what: str
    counts: bool = True


class Difference(Record):
    """Something that is not as it was given: what, the usual reason, and a way out."""

    what: str
    reason: str
    advice: str


def mode(config: Config, cdi: list[str]) -> str:
    """Return how the GPUs came in: legacy, hook, cdi; empty if none were asked for."""
    if cdi:
        return "cdi"
    hooks = [row for _, _, row in config.hooks_of_stage_3() if "nvidia-container" in row["path"]]
    if not hooks:
        return ""
    return "legacy" if any(map(config.in_line, hooks)) else "hook"


def mode_of_engine(config: Config) -> str:
    """Return "cdi" if config.json has hooks of a CDI file: an engine has put its edits in."""
    hooks = (config.raw.get("hooks") or {}).get("createContainer") or []
    words = [word for row in hooks for word in (row.get("path", ""), *(row.get("args") or []))]
    return "cdi" if any(word.endswith(_CDI_HOOK) for word in words) else ""


def request_sources(record: ContainerRecord, config: Config, cdi: list[str]) -> list[RequestSource]:
    """Return everything that asks for GPUs, first what counts; `cdi`: the names of CDI devices."""
    found = []
    docker = docker_record.of(record)
    how, managed = mode(config, cdi), docker.managed
    env = config.environment.get(_VISIBLE, "")
    void = not env or "void" in [word.strip() for word in env.split(",")]
    kind = KINDS.get(config.choices.gpu_driver, "nvidia.com/gpu")
    is_flag = bool(docker.gpus) or config.choices.gpus is not None
    devices = [name for name in cdi if not (is_flag and name.startswith(f"{kind}="))]
    if docker.gpus:
        found.append(RequestSource("command line", f"--gpus {docker.gpus}"))
    elif how in ("legacy", "hook") and config.choices.nvidia_gpus:
        found.append(RequestSource(_FLAG, f"--gpus {config.choices.nvidia_gpus}"))
    elif managed and how in ("legacy", "hook"):
        found.append(RequestSource("command line", f"-e {_VISIBLE}={env}"))
    elif not managed and (how or mode_of_engine(config)) and (swarm := _of_swarm(config)):
        found += swarm
    elif how in ("legacy", "hook"):
        by = "environment in config.json, read by the hook"
        found.append(RequestSource(by, f"{_VISIBLE}={env}{_NONE if void else ''}", not void))
    elif not how and void and _VISIBLE in config.environment:
        found.append(RequestSource("environment", f"{_VISIBLE}={env}{_NONE}", False))
        found += _of_vendor(config, managed=managed)
    else:
        found += _of_vendor(config, managed=managed)
    rows = {key: text for key, text in config.annotations.items() if key.startswith(_ANNOTATION)}
    found += [RequestSource("annotation (CDI)", f"{key}={text}") for key, text in rows.items()]
    devices = [name for name in devices if name not in names.from_annotations(rows.items())]
    found += [RequestSource("command line (CDI)", f"--device {name}") for name in devices]
    if managed and how in ("legacy", "hook"):
        found += _conditions(record, config)
    told = [text for text in docker.warnings or [] if "gets" in text]
    return found + [RequestSource("image", text, False) for text in told]


def _of_swarm(config: Config) -> list[RequestSource]:
    """Return the variables of config.toml's swarm-resource: they count, NVIDIA's does not."""
    names = hook.settings(config.choices).swarm_resources
    rows = [(name, config.environment[name]) for name in names if name in config.environment]
    by = "environment in config.json, a swarm-resource of config.toml"
    return [RequestSource(by, f"{name}={value}") for name, value in rows]


def _conditions(record: ContainerRecord, config: Config) -> list[RequestSource]:
    """Return what puts conditions on the driver, or lifts them."""
    names = (REQUIRE, DISABLE_REQUIRE, "CUDA_VERSION")
    rows = [(k, v) for k, v in config.environment.items() if k.startswith(names)]
    return [RequestSource(f"environment {source(record, k)}", f"{k}={v}") for k, v in rows]


def by_node(node: DeviceNode) -> RequestSource:
    """Return who gave a node that no stage 5 did: config.json, or only a rule of the cgroup."""
    numbers = f"{node.kind} {node.major}:{node.minor}"
    if node.path:
        return RequestSource("engine, in config.json (linux.devices)", f"{node.path} ({numbers})")
    return RequestSource("hook or other program, by a rule of the cgroup", numbers)


def _of_vendor(config: Config, *, managed: bool) -> list[RequestSource]:
    """Return what asks for GPUs of another vendor than NVIDIA, but `run --gpus`."""
    driver = config.choices.gpu_driver
    variable = OTHER_VENDORS.get(driver, "")
    if variable and not managed and signs.asking(config):
        by = f"environment in config.json, which --gpu-driver={driver} obeys"
        return [RequestSource(by, f"{variable}={config.environment[variable]}")]
    if driver not in OTHER_VENDORS or config.choices.gpus is None:
        return []
    by, what = ("command line", f"-e {variable}=") if managed else (_FLAG, "--gpus ")
    return [RequestSource(by, f"{what}{config.choices.gpus}")]


def nvidia_request(config: Config) -> NvidiaRequest | None:
    """Return what stage 4 makes of the environment; None if it asks for nothing."""
    settings = hook.settings(config.choices)
    argv = hook.command_line(config.raw, {"pid": 0, "bundle": config.bundle}, settings)
    return hook.read(argv) if argv else None


def differences(
    edits: Edits,
    now: ObservedGpus,
    own: frozenset[str] = frozenset(),
    host_driver: str = "",
    *,
    needs_compute: bool = False,
) -> list[Difference]:
    """Return what is not, or not only, as it was given; and what was not given, but is needed.

    `own` are config.json's own device rules, `host_driver` is the version that is loaded now.
    """
    found = _not_given(edits, needs_compute=needs_compute)
    found += [one for node in now.nodes for one in _of_node(node, no_cgroups=edits.no_cgroups)]
    if edits.driver and not now.shows_driver and any(n.major == catalog.NVIDIA for n in now.nodes):
        reason = "a mount or a masked path lies over it; the driver's libraries find no driver"
        advice = f"leave out what hides {PROC}: a mount, or linux.maskedPaths"
        found.append(Difference(f"{PROC} cannot be seen in the container", reason, advice))
    found += _more(edits, now.rules or [], own)
    lost = [path for path in now.expected if path not in now.mounted]
    if lost:
        what = f"{len(lost)} of {len(now.expected)} mounts are gone, such as {lost[0]}"
        found.append(Difference(what, "a process in the container has unmounted them", _ANEW))
    stale = [path for path in now.expected if path in now.deleted]
    if stale:
        what = f"{len(stale)} mounted files are deleted on the host, such as {stale[0]}"
        found.append(Difference(what, "the driver was updated or removed since the start", _ANEW))
    for path in now.hiding:
        reason = "programs load this file, of another driver, in its place"
        found.append(Difference(f"{path} hides the driver's library", reason, planner.REMOVE))
    if now.misfit:
        reason = 'nvidia-smi says "not found": it means its loader, which musl has not'
        found.append(Difference(now.misfit, reason, musl.ADVICE))
    else:
        found += _of_loading(now.loading, lost)
    for path in now.closed_mounts:
        reason = 'it was mounted, or remounted, with nodev; programs say "Permission denied"'
        found.append(
            Difference(f"on {path} no node can be opened", reason, f"mount -o remount,dev {path}")
        )
    if host_driver and edits.driver and host_driver != edits.driver:
        what = f"the driver is {host_driver} now; the container got files of {edits.driver}"
        reason = 'updated since the start; programs say "Driver/library version mismatch"'
        found.append(Difference(what, reason, _ANEW))
    return found


def _of_loading(loading: ObservedLoading, lost: list[str]) -> list[Difference]:
    """Return why programs do not load the driver's libraries, which are mounted."""
    found = []
    for path in loading.unlinked:
        if not any(each.startswith(path.removesuffix("1")) for each in lost):
            reason = "programs load this name; ldconfig made the link, and something has removed it"
            found.append(
                Difference(f"{path} is not there", reason, f"ldconfig in the container, or {_ANEW}")
            )
    for path in loading.unlisted:
        reason = "ld.so.cache has been made anew without its folder: programs do not find it"
        advice = "ldconfig in the container, or its folder in LD_LIBRARY_PATH"
        found.append(Difference(f"{path} is not in ld.so.cache", reason, advice))
    for path in loading.first:
        reason = "LD_LIBRARY_PATH comes before the driver's: programs load this file"
        found.append(Difference(f"{path} is found first", reason, _OTHER_PATH))
    return found


def of_variables(
    edits: Edits, environment: dict[str, str], request: NvidiaRequest | None
) -> list[Difference]:
    """Return the variables that keep programs from GPUs which the container has.

    CUDA takes the devices of CUDA_VISIBLE_DEVICES up to the first that there is not: CUDA C
    Programming Guide, "CUDA Environment Variables".
    """
    found = []
    value = environment.get(_CUDA_VISIBLE)
    if value is not None and edits.gpus:
        first = value.split(",")[0].strip()
        number = whole(first)
        is_there = first.startswith(_UUIDS) if number is None else number < len(edits.gpus)
        if not is_there:
            reason = "CUDA counts the container's own GPUs from 0, and takes none from there on"
            what = f"{_CUDA_VISIBLE}={value}: CUDA programs see no GPU"
            found.append(Difference(what, reason, f"leave {_CUDA_VISIBLE} out"))
    if edits.gpus and request and "compute" not in request.capabilities:
        what = f"libcuda was not given: capabilities are {', '.join(request.capabilities)}"
        reason = f"{_CAPABILITIES} has no `compute`: nvidia-smi runs, and CUDA programs do not"
        found.append(Difference(what, reason, f"-e {_CAPABILITIES}=compute,utility; {_ANEW}"))
    return found


def _not_given(edits: Edits, *, needs_compute: bool) -> list[Difference]:
    """Return the nodes beside a GPU's own that programs need, and that were not given.

    A node without a path is one that only a rule names: nvidiactl has a number that everyone
    knows, nvidia-uvm has one of this host.
    """
    given = {(node.major, node.minor): node.path for node in edits.device_nodes}
    if not any(major == catalog.NVIDIA and minor < catalog.MODESET_MINOR for major, minor in given):
        return []
    reasons = {}
    if (catalog.NVIDIA, catalog.CTL_MINOR) not in given:
        reasons["/dev/nvidiactl"] = "every program of the driver opens it first"
    if needs_compute and not {"/dev/nvidia-uvm", ""} & {*given.values()}:
        reasons["/dev/nvidia-uvm"] = "CUDA programs open it; nvidia-smi does without"
    there = "the host, the CDI file or the engine's --device did not have it"
    advice = f"nvidia-modprobe -u -c 0 on the host; a new CDI file, or --device {{}}, too; {_ANEW}"
    return [
        Difference(f"{path} was not given", f"{reason}; {there}", advice.format(path))
        for path, reason in reasons.items()
    ]


def _of_node(node: ObservedNode, *, no_cgroups: bool) -> list[Difference]:
    """Return what is wrong with one device node."""
    numbers = f"{node.kind} {node.major}:{node.minor}"
    if not node.found:
        what = f"{node.path} is not in the container"
        return [Difference(what, "it was removed, or something was mounted over it", _ANEW)]
    if node.found != numbers:
        what = f"{node.path} is {node.found} in the container, not {numbers}"
        return [Difference(what, "it was replaced", _ANEW)]
    if node.host and node.host != numbers:
        what = f"{node.path} is {node.host} on the host now, not {numbers}"
        reason = "the driver was loaded again since the start: its number is another one"
        return [Difference(what, reason, _ANEW)]
    closed = [Difference(f"{node.path}: {node.closed}", _CLOSED, _GROUP)] if node.closed else []
    if node.access is None or set(node.given) <= set(node.access):
        return closed
    lost = "".join(sorted(set(node.given) - set(node.access)))
    if no_cgroups:
        what = f"{node.path}: the cgroup denies {lost}; no rule was given for it"
        return [*closed, Difference(what, _NO_CGROUPS, _CGROUPS)]
    reason = (
        "the device rules were rewritten since the start: systemctl daemon-reload, docker update, "
        'the kubelet\'s CPU manager; programs say "Failed to initialize NVML: Unknown Error"'
    )
    advice = (
        "minirun gpu why --repair ID puts the rules back; for good: --gpu-mode cdi or --device, "
        "whose rules stand in config.json, where a program that rewrites them finds them"
    )
    what = f"{node.path}: the cgroup denies {lost}; given was {node.given}"
    return [*closed, Difference(what, reason, advice)]


def _more(edits: Edits, rules: list[DeviceRule], own: frozenset[str]) -> list[Difference]:
    """Return rules that open nodes of the driver which were not asked for, or every node."""
    given = {(node.major, node.minor) for node in edits.device_nodes}
    majors = {major for major, _ in given}
    found = []
    for rule in rules:
        opens = rule.allow and rule.kind in ("a", "c") and set(rule.access) & set("rw")
        asked_for = (rule.major, rule.minor) in given or (rule.major and str(rule) in own)
        if opens and rule.major in (None, *majors) and not asked_for:
            what = f"the cgroup allows {rule}, which was not given"
            reason = "a wide rule in config.json (privileged), or added since the start"
            advice = "leave it out, where this container should see the given GPUs alone"
            found.append(Difference(what, reason, advice))
    return found


def missing_rules(now: ObservedGpus) -> list[DeviceRule]:
    """Return the rules that would make the given nodes usable again."""
    return [
        DeviceRule(True, node.kind, node.major, node.minor, node.given)
        for node in now.nodes
        if node.access is not None and not set(node.given) <= set(node.access)
    ]
