"""From the words after `minirun run` to what they ask for."""

import os

from minirun.cli import chosen
from minirun.cli.flags import Parsed
from minirun.core.choices import GPU_DRIVERS, NOTHING
from minirun.core.config import GPU_HOOK
from minirun.core.errors import UsageError
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import Settings
from minirun.core.visible import say
from minirun.image import ensure
from minirun.oci.generate import RunOptions
from minirun.running import logfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cli.vendor_gpus import VendorRequest
    from minirun.gpu.cdi.request import CdiEdits
    from minirun.gpu.consent import EnvironmentRequest
    from minirun.image.store import Image

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_ID_MAX = 1 << 32
PIDS_LIMIT = 2048
"""podman's default, against fork bombs; docker has none."""
_GPU_MODES = ("legacy", "hook", "cdi")
_ASKING = ("NVIDIA_VISIBLE_DEVICES=", "CUDA_VERSION=")
_SIMULATED = "NO NVIDIA DRIVER ON THIS MACHINE: THE GPUS ARE SIMULATED (--gpu-driver=simulated)"


def from_flags(
    flags: Parsed, settings: Settings, container_id: str = ""
) -> "tuple[RunOptions, str]":
    """Return what the flags ask for, and the image's name.

    For `container_id`, which is about to be made, GPUs that are chosen here (count=N) are reserved.
    Raises MinirunError.
    """
    chosen.take_global(flags, settings.choices)
    image = ensure.find_or_build(settings.store, flags.args[0], say)
    env = _environment(flags, image)
    own, refused = _consent(flags, image)
    vendor = _vendor(flags, settings, container_id)
    cdi, nodes = _cdi(flags, settings, own, container_id, vendor.names if vendor else ())
    gpu_env: tuple[str, ...] = ()
    driver = ""
    if flags.gpu_mode != "cdi" and not (vendor and vendor.name):
        gpu_env, driver = _gpus(flags, settings, own, container_id)
    options = RunOptions(
        args=_command(flags, image),
        env=env,
        cwd=_directory(flags.workdir or image.workdir or "/"),
        user=_in_groups(_user(flags.user or image.user, image), vendor),
        terminal=flags.tty,
        hostname=flags.hostname,
        memory=size(flags.memory) if flags.memory else 0,
        cpus=_cpus(flags.cpus) if flags.cpus else 0.0,
        pids_limit=_pids_limit(flags.pids_limit),
        readonly=flags.read_only,
        cap_add=tuple(flags.cap_add),
        cap_drop=tuple(flags.cap_drop),
        mounts=tuple(_volume(text) for text in flags.volume),
        devices=tuple(_device(text) for text in nodes),
        host_network=_host_network(flags.network),
        uid_maps=tuple(_id_map(text, "--uidmap") for text in flags.uidmap),
        gid_maps=tuple(_id_map(text, "--gidmap") for text in flags.gidmap),
        gpu_env=gpu_env,
        gpu_hook=_gpu_hook(driver, settings) if flags.gpu_mode == "hook" and driver else None,
        cdi=cdi,
        warnings=(*([refused] if refused else []), *(cdi.warnings if cdi else ())),
        choices=chosen.of_run(
            flags, settings.choices, image.layers, vendor.choices if vendor else NOTHING, driver
        ),
        **_security(flags.security_opt),
        annotations=tuple(_pair(text, "--annotation") for text in flags.annotation),
    )
    if "gpu_mps" in flags.given:
        from minirun.gpu.share import mps

        options = mps.join(options, flags.gpu_mps, settings)
    return options, image.name


def random_id() -> str:
    """Return twelve hexadecimal digits, as docker's short ids are."""
    return os.urandom(6).hex()


def _command(flags: Parsed, image: "Image") -> "tuple[str, ...]":
    """The image's entrypoint and command, changed as docker has it."""
    given = tuple(flags.args[1:])
    if flags.entrypoint:
        return (flags.entrypoint, *given)
    args = tuple(image.entrypoint) + (given or tuple(image.cmd))
    if not args:
        raise UsageError("no command specified", "the image has none: minirun run IMAGE COMMAND")
    return args


def _environment(flags: Parsed, image: "Image") -> "tuple[str, ...]":
    return (*image.env, *variables(flags.env))


def variables(texts: "list[str]") -> "list[str]":
    """Return what -e asks for: NAME=VALUE as it is, NAME with the caller's value.

    Raises UsageError.
    """
    env = []
    for text in texts:
        name, equals, _ = text.partition("=")
        if not name:
            raise UsageError(f"invalid environment variable: {text!r}", "-e NAME=VALUE")
        if equals:
            env.append(text)
        elif name in os.environ:
            env.append(f"{name}={os.environ[name]}")
    return env


def _directory(path: str) -> str:
    if not path.startswith("/"):
        text = f"the working directory {path!r} is invalid, it needs to be an absolute path"
        raise UsageError(text)
    return path


def _user(spec: str, image: "Image") -> "tuple[int, int, tuple[int, ...]]":
    """uid, gid and further groups, from the passwd and group files of the image's topmost layer."""
    if not spec or spec in ("0", "0:0", "root"):
        return (0, 0, ())
    from minirun.oci import user

    with_passwd = [p for p in reversed(image.layers) if os.path.lexists(f"{p}/etc/passwd")]
    root = Root.at((with_passwd or list(image.layers))[0])
    try:
        found = user.resolve_user(root, spec)
    finally:
        root.close()
    return (found.uid, found.gid, tuple(found.groups))


def _consent(flags: Parsed, image: "Image") -> "tuple[EnvironmentRequest | None, str]":
    """What the user asks for by -e, where --gpus does not decide; and what the image is refused.

    Says so where it is. Raises GPUError.
    """
    given = tuple(variables(flags.env))
    asking = [text for text in (*image.env, *given) if text.startswith(_ASKING)]
    if "gpus" in flags.given or not asking:
        return None, ""
    from minirun.gpu import consent

    own, refused = consent.requested_by_user(image.name, tuple(image.env), given)
    if refused:
        say(refused)
    return own, refused


def _vendor(flags: Parsed, settings: Settings, container_id: str) -> "VendorRequest | None":
    """What is asked of a GPU driver, where it may be another vendor's. Raises MinirunError."""
    by_environment = any(text.startswith(("AMD_", "HABANA_")) for text in flags.env)
    plain = flags.gpu_driver in ("nvidia", "simulated") or "gpus" not in flags.given
    if plain and not (flags.driver_root or flags.load_kmods or by_environment):
        return None
    from minirun.cli import vendor_gpus

    return vendor_gpus.vendor_request(flags, settings, container_id)


def _in_groups(
    user: "tuple[int, int, tuple[int, ...]]", vendor: "VendorRequest | None"
) -> "tuple[int, int, tuple[int, ...]]":
    """Let the command be in the groups of its GPUs' nodes, too."""
    uid, gid, groups = user
    return uid, gid, tuple(dict.fromkeys((*groups, *(vendor.groups if vendor else ()))))


def _gpus(
    flags: Parsed, settings: Settings, own: "EnvironmentRequest | None", container_id: str
) -> "tuple[tuple[str, ...], str]":
    """The variables that NVIDIA's hook reads (Figure 2), and the driver; empty without GPUs.

    Whether such GPUs exist is found out in stage 5, as in the real stack; only a count needs to
    look now. Raises UsageError, GPUError.
    """
    if "gpus" not in flags.given and own is None:
        return (), ""
    from minirun.gpu import drivers
    from minirun.gpu.selector import GpuSelector, parse_gpus

    selector = GpuSelector() if own else parse_gpus(flags.gpus)
    driver = drivers.which_driver(
        flags.gpu_driver or "auto", flags.driver_root, load_kmods=flags.load_kmods
    )
    if driver == "simulated" and not flags.gpu_driver:
        say(_SIMULATED)
    if own:
        return (f"NVIDIA_VISIBLE_DEVICES={own.value}",), driver
    devices = ",".join(selector.devices)
    if selector.amount:
        from minirun.gpu import drivers
        from minirun.gpu.share import sharing

        there = selector.candidates(drivers.inventory(driver, settings.store, flags.driver_root))
        count = sharing.GpuCount(there, selector.amount, selector.exclusive, driver)
        devices = ",".join(sharing.pick(settings.root, count, container_id))
    env = [f"NVIDIA_VISIBLE_DEVICES={devices}"]
    asked = any(text.startswith("NVIDIA_DRIVER_CAPABILITIES=") for text in flags.env)
    if selector.capabilities or not asked:
        capabilities = ",".join(selector.capabilities) or "compute,utility"
        env.append(f"NVIDIA_DRIVER_CAPABILITIES={capabilities}")
    return tuple(env), driver


def _gpu_hook(driver: str, settings: Settings) -> "dict[str, Any]":
    """NVIDIA's hook as config.json names it: the installed program. Raises UsageError.

    Hooks get no environment but this. Where the driver is simulated, it says so to minirun's own
    hook; the real one fails then.
    """
    from minirun.gpu.nvidia.runtime import lookup

    path = lookup.program(GPU_HOOK)
    if not path:
        hint = "install NVIDIA's container toolkit, or leave --gpu-mode out"
        raise UsageError(f"--gpu-mode hook: no {GPU_HOOK} in PATH or /usr/bin", hint)
    env = [f"PATH={lookup.DEFAULT_PATH}"]
    if driver == "simulated":
        from minirun.gpu.simulated import spec

        env += [f"MINIRUN_SIM={spec.load(settings.store)}", f"MINIRUN_STORE={settings.store}"]
    return {"path": path, "args": [GPU_HOOK, "prestart"], "env": env}


def _cdi(
    flags: Parsed,
    settings: Settings,
    own: "EnvironmentRequest | None",
    container_id: str,
    named: "tuple[str, ...]" = (),
) -> "tuple[CdiEdits | None, list[str]]":
    """What is asked for in CDI's names, and the values of --device that are none of those.

    `named` are the names that --gpus means where the GPUs are another vendor's than NVIDIA.

    Raises UsageError, GPUError.
    """
    if flags.gpu_mode not in _GPU_MODES:
        raise UsageError(f"invalid --gpu-mode {flags.gpu_mode!r}", " or ".join(_GPU_MODES))
    if flags.gpu_driver not in ("", *GPU_DRIVERS):
        raise UsageError(f"invalid --gpu-driver {flags.gpu_driver!r}", ", ".join(GPU_DRIVERS))
    nodes = [text for text in flags.device if text.startswith("/") or "=" not in text]
    gpus = flags.gpu_mode == "cdi" and (own is not None or "gpus" in flags.given) and not named
    annotated = any(text.startswith("cdi.k8s.io/") for text in flags.annotation)
    if not gpus and not annotated and not named and len(nodes) == len(flags.device):
        return None, nodes
    from minirun.gpu.cdi import names, registry, request
    from minirun.gpu.selector import GpuSelector, parse_gpus

    devices = [text for text in flags.device if text not in nodes]
    for text in devices:
        if not names.is_qualified(text):
            hint = "as in --device nvidia.com/gpu=0"
            raise UsageError(f"--device {text}: invalid CDI device name", hint)
    devices += named
    devices += names.from_annotations(_pair(text, "--annotation") for text in flags.annotation)
    selector = parse_gpus(flags.gpus) if gpus and not own else None
    if gpus and own:
        selector = GpuSelector(own.devices or ("none",))
    folders = tuple(flags.cdi_spec_dir) or registry.FOLDERS
    driver, mapped = flags.gpu_driver, bool(flags.uidmap)
    place = (settings.root, container_id)
    root = flags.driver_root
    asked = request.CdiRequest(tuple(devices), selector, driver, folders, mapped, place, root)
    found = request.resolve(asked, settings.store)
    for text in found.warnings:
        say(f"warning: {text}")
    if found.edits.simulated and not driver:
        say(_SIMULATED)
    return found, nodes


def size(text: str) -> int:
    """Return a size in bytes: 512m, 1g, 65536. Raises UsageError."""
    digits = text.rstrip("bBkKmMgGtTiI")
    unit = text[len(digits) :].lower().removesuffix("ib").removesuffix("b")
    if not (digits.isascii() and digits.isdigit()) or unit not in _UNITS:
        raise UsageError(f"invalid size: {text!r}", "bytes, or a number with b, k, m or g")
    return int(digits) * _UNITS[unit]


def log_limits(words: "list[str]") -> logfile.Limits:
    """Return what the words of --log-opt say: max-size=10m, max-file=3. Raises UsageError."""
    found = logfile.Limits()
    for word in words:
        key, _, value = word.partition("=")
        if key == "max-size":
            found = found._replace(max_size=-1 if value == "-1" else _log_size(value))
        elif key == "max-file":
            if not (value.isascii() and value.isdigit() and 0 < int(value[:5]) <= 1000):
                raise UsageError(f"--log-opt max-file={value}: is no number from 1 to 1000")
            found = found._replace(max_file=int(value))
        else:
            raise UsageError(f"unknown --log-opt {word!r}", "max-size=SIZE or max-file=N")
    return found


def _log_size(text: str) -> int:
    bytes_ = size(text)
    if not bytes_:
        raise UsageError(f"--log-opt max-size={text}: is no size", "10m, or -1 for no limit")
    return bytes_


def _cpus(text: str) -> float:
    plain = text.replace(".", "", 1)
    if not (plain.isascii() and plain.isdigit()) or not 0.01 <= float(text) <= 4096:
        raise UsageError(f"invalid --cpus {text!r}", "a number of CPUs from 0.01 up, such as 1.5")
    return float(text)


def _whole(text: str, flag: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"invalid {flag} {text!r}", "a whole number")
    return int(text)


def _pids_limit(text: str) -> int:
    """Return the limit of processes, 0 for none. Raises UsageError."""
    if text == "-1":
        return 0
    return _whole(text, "--pids-limit") if text else PIDS_LIMIT


def _security(texts: "list[str]") -> "dict[str, Any]":
    """Return what --security-opt says, as fields of Wishes. Raises UsageError."""
    if not texts:
        return {}
    from minirun.cli import security

    return security.options(texts)


def _volume(text: str) -> "tuple[str, str, tuple[str, ...]]":
    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0] or not parts[1].startswith("/"):
        raise UsageError(f"invalid volume {text!r}", "-v /host/path:/container/path[:ro]")
    if not parts[1].strip("/"):
        raise UsageError(f"invalid volume {text!r}: the destination cannot be /")
    source = os.path.abspath(parts[0])
    if not os.path.exists(source):
        raise UsageError(f"volume {text!r}: {source} does not exist on this host")
    options = tuple(parts[2].split(",")) if len(parts) == 3 else ()
    unknown = set(options) - {"ro", "rw", "noexec", "nosuid", "nodev", "z", "Z"}
    if unknown:
        raise UsageError(f"volume {text!r}: unknown option {min(unknown)!r}", "ro or rw")
    return source, parts[1], tuple(o for o in options if o not in ("z", "Z"))


def _device(text: str) -> "dict[str, Any]":
    """A row of linux.devices, with the access that the cgroup rule gives."""
    import stat

    parts = text.split(":")
    source = parts[0]
    path = parts[1] if len(parts) > 1 and parts[1].startswith("/") else source
    access = parts[-1] if len(parts) > 1 and not parts[-1].startswith("/") else "rwm"
    if len(parts) > 3 or not access or set(access) - set("rwm"):
        raise UsageError(f"invalid device {text!r}", "--device /dev/x[:/dev/y[:rwm]]")
    try:
        info = os.stat(source)
    except OSError as error:
        what = os.strerror(error.errno or 0).lower()
        raise UsageError(f'error gathering device information: "{source}": {what}') from None
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(info.st_mode))
    if kind is None:
        raise UsageError(f"{source} is not a device node")
    return {
        "type": kind, "path": path,
        "major": os.major(info.st_rdev), "minor": os.minor(info.st_rdev),
        "fileMode": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid,
        "access": access,
    }  # fmt: skip


def _host_network(word: str) -> bool:
    if word not in ("none", "host"):
        raise UsageError(f"network {word!r} is not supported", "--network none or host")
    return word == "host"


def _id_map(text: str, flag: str) -> "tuple[int, int, int]":
    parts = text.split(":")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 11 for p in parts):
        raise UsageError(f"invalid {flag} {text!r}", f"{flag} CONTAINER_ID:HOST_ID:SIZE")
    inside, outside, count = (int(part) for part in parts)
    if not count or inside + count > _ID_MAX or outside + count > _ID_MAX:
        raise UsageError(f"invalid {flag} {text!r}", "ids lie below 2^32, and SIZE above 0")
    return inside, outside, count


def _pair(text: str, flag: str) -> "tuple[str, str]":
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"invalid {flag} {text!r}", f"{flag} KEY=VALUE")
    return key, value
