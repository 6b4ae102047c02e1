"""From the words after `minirun run` to what they ask for."""

import os

from minirun.cli import words
from minirun.cli.flags import Flags, flag
from minirun.core.choices import GPU_DRIVERS, Choices
from minirun.core.config import ANNOTATION, LOG
from minirun.core.errors import UsageError
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import Settings
from minirun.core.visible import say
from minirun.gpu.request import GpuOptions, RunGpus
from minirun.image import ensure
from minirun.oci.generate import RunOptions
from minirun.oci.seccomp import default as seccomp_default

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.image.store import Image

_GPU_MODES = ("legacy", "hook", "cdi")
_UNCONFINED = "unconfined"
_SECURITY = (
    "seccomp=FILE|unconfined, no-new-privileges[=true|false], apparmor=PROFILE, label=disable,"
    " systempaths=unconfined"
)


class RunFlags(Flags):
    """The flags of `run`, `run --bundle` and `spec`."""

    interactive: bool = flag("-i")
    tty: bool = flag("-t")
    detach: bool = flag("-d")
    rm: bool
    name: str
    env: list[str] = flag("-e")
    volume: list[str] = flag("-v")
    workdir: str = flag("-w")
    user: str = flag("-u")
    hostname: str
    memory: str = flag("-m")
    cpus: str
    pids_limit: str
    read_only: bool
    cap_add: list[str]
    cap_drop: list[str]
    security_opt: list[str]
    device: list[str]
    cdi_spec_dir: list[str]
    network: str = flag("--net", default="none")
    uidmap: list[str]
    gidmap: list[str]
    gpus: str = flag("--gpu")
    gpu_driver: str
    driver_root: str
    load_kmods: bool
    gpu_mode: str = flag(default="legacy")
    gpu_mps: str = flag(optional="on")
    entrypoint: str
    annotation: list[str]
    quiet: bool = flag("-q")
    progress: str = flag(default="auto")
    plain: bool
    dry_run: bool
    step: str = flag(optional="stage")
    script: str
    snapshots: bool
    log_opt: list[str]
    log: str
    log_format: str
    bundle: str = flag("-b")
    pid_file: str
    console_socket: str
    pidfd_socket: str
    preserve_fds: str
    keep: bool
    no_pivot: bool
    no_new_keyring: bool
    no_subreaper: bool

    def or_before(self, before: Choices) -> "RunFlags":
        """Take the flags before the command for those of the same names that are not given."""
        for key in ("gpu_driver", "gpus", "driver_root", "load_kmods"):
            value = getattr(before, key)
            if value and key not in self.given:
                setattr(self, key, value)
                self.given.add(key)
        return self


def from_flags(
    flags: RunFlags, settings: Settings, container_id: str = ""
) -> "tuple[RunOptions, str]":
    """Return what the flags ask for, and the image's name.

    For `container_id`, which is about to be made, GPUs that are chosen here (count=N) are reserved.
    Raises MinirunError.
    """
    flags.or_before(settings.choices)
    image = ensure.find_or_build(settings.store, flags.args[0], say)
    own_env = words.variables(flags.env)
    annotations = tuple(words.pair(text, "--annotation") for text in flags.annotation)
    _check_gpu_words(flags)
    nodes = [text for text in flags.device if _is_node(text)]
    options = _gpu_options(flags, image, tuple(own_env), annotations, settings)
    gpus = RunGpus()
    if not options.is_empty:
        from minirun.gpu import run_request  # 5 ms, for GPUs

        gpus = run_request.resolve(options, settings, container_id)
    _check_annotations(annotations)
    uid, gid, groups = _user(flags.user or image.user, image)
    run = RunOptions(
        args=_command(flags, image),
        env=(*image.env, *own_env),
        cwd=_directory(flags.workdir or image.workdir or "/"),
        user=(uid, gid, tuple(dict.fromkeys((*groups, *gpus.groups)))),
        terminal=flags.tty,
        hostname=flags.hostname,
        memory=words.size(flags.memory) if flags.memory else 0,
        cpus=words.cpus(flags.cpus) if flags.cpus else 0.0,
        pids_limit=words.pids_limit(flags.pids_limit),
        readonly=flags.read_only,
        cap_add=tuple(flags.cap_add),
        cap_drop=tuple(flags.cap_drop),
        mounts=tuple(words.volume(text) for text in flags.volume),
        devices=tuple(words.device(text) for text in nodes),
        host_network=words.host_network(flags.network),
        uid_maps=tuple(words.id_map(text, "--uidmap") for text in flags.uidmap),
        gid_maps=tuple(words.id_map(text, "--gidmap") for text in flags.gidmap),
        gpu_env=gpus.env,
        gpu_hook=gpus.hook,
        cdi=gpus.cdi,
        warnings=gpus.warnings,
        choices=gpus.choices._replace(layers=image.layers, volatile=flags.rm),
        annotations=annotations,
    )
    run = _confined(run, flags.security_opt)
    if "gpu_mps" in flags.given:
        from minirun.gpu.share import mps  # 8 ms, for MPS

        run = mps.join(run, flags.gpu_mps, settings)
    return run, image.name


def _is_node(text: str) -> bool:
    """Return True if a value of --device is a path, and not CDI's name of a device."""
    return text.startswith("/") or "=" not in text


def _gpu_options(
    flags: RunFlags,
    image: "Image",
    variables: "tuple[str, ...]",
    annotations: "tuple[tuple[str, str], ...]",
    settings: Settings,
) -> GpuOptions:
    """Return what flags, environment and annotations say of GPUs; `variables` are those of -e."""
    return GpuOptions(
        gpus=flags.gpus if "gpus" in flags.given else None, driver=flags.gpu_driver,
        driver_root=flags.driver_root, load_kmods=flags.load_kmods,
        exclusive=settings.choices.exclusive, mode=flags.gpu_mode,
        devices=tuple(text for text in flags.device if not _is_node(text)),
        spec_dirs=tuple(flags.cdi_spec_dir), annotations=annotations, env=tuple(flags.env),
        variables=variables, mapped=bool(flags.uidmap), image=image.name,
        image_env=tuple(image.env),
    )  # fmt: skip


def _check_annotations(annotations: "tuple[tuple[str, str], ...]") -> None:
    """Raise UsageError for an annotation in minirun's own name that it does not obey."""
    for key, _ in annotations:
        if key.startswith(ANNOTATION) and key != LOG:
            hint = "a flag of run says it, such as --gpu-driver"
            raise UsageError(f"--annotation {key}: minirun obeys none of its own but {LOG}", hint)


def _check_gpu_words(flags: RunFlags) -> None:
    if flags.gpu_mode not in _GPU_MODES:
        raise UsageError(f"invalid --gpu-mode {flags.gpu_mode!r}", " or ".join(_GPU_MODES))
    if flags.gpu_driver not in ("", *GPU_DRIVERS):
        raise UsageError(f"invalid --gpu-driver {flags.gpu_driver!r}", ", ".join(GPU_DRIVERS))


def log_settings(flags: RunFlags, settings: Settings) -> Settings:
    """Return the settings with what --log and --log-format of `run` say. Raises UsageError."""
    log_format = flags.log_format or settings.log_format
    if log_format not in ("text", "json"):
        raise UsageError(f"invalid --log-format {log_format!r}", "text or json")
    return settings._replace(log=flags.log or settings.log, log_format=log_format)


def _command(flags: RunFlags, image: "Image") -> "tuple[str, ...]":
    """The image's entrypoint and command, changed as docker has it."""
    given = tuple(flags.args[1:])
    if flags.entrypoint:
        return (flags.entrypoint, *given)
    args = tuple(image.entrypoint) + (given or tuple(image.cmd))
    if not args:
        raise UsageError("no command specified", "the image has none: minirun run IMAGE COMMAND")
    return args


def _directory(path: str) -> str:
    if not path.startswith("/"):
        text = f"the working directory {path!r} is invalid, it needs to be an absolute path"
        raise UsageError(text)
    return path


def _user(spec: str, image: "Image") -> "tuple[int, int, tuple[int, ...]]":
    """uid, gid and further groups, from the passwd and group files of the image's topmost layer."""
    if not spec or spec in ("0", "0:0", "root"):
        return (0, 0, ())
    from minirun.oci import user  # only for a user who is not root

    with_passwd = [p for p in reversed(image.layers) if os.path.lexists(f"{p}/etc/passwd")]
    root = Root.at((with_passwd or list(image.layers))[0])
    try:
        found = user.resolve_user(root, spec)
    finally:
        root.close()
    return (found.uid, found.gid, tuple(found.groups))


def _confined(options: RunOptions, texts: "list[str]") -> RunOptions:
    """Return the options with what --security-opt says; of two with one key the later counts.

    As docker has it: `key=value`, or the older `key:value`. Raises UsageError.
    """
    for text in texts:
        mark = "=" if "=" in text else ":"
        key, given, value = text.partition(mark)
        if key == "no-new-privileges" and (not given or value in ("true", "false")):
            options = options._replace(no_new_privileges=value != "false")
        elif key == "seccomp" and value:
            options = options._replace(seccomp=_seccomp(value))
        elif key == "apparmor" and value:
            options = options._replace(apparmor=_apparmor(value))
        elif key == "label" and value:
            _label(value)
        elif (key, value) == ("systempaths", _UNCONFINED):
            options = options._replace(unmasked=True)
        else:
            raise UsageError(f'invalid --security-opt: "{text}"', _SECURITY)
    return options


def _seccomp(value: str) -> str:
    if value == _UNCONFINED:
        return ""
    if value in (seccomp_default.NAME, "builtin"):  # docker's word for it
        return seccomp_default.NAME
    return os.path.abspath(value)


def _apparmor(profile: str) -> str:
    """Return the profile, "" for none. Raises UsageError where this kernel has no AppArmor."""
    if profile == _UNCONFINED:
        return ""
    from minirun.oci.tuning import labels  # 10 ms, for AppArmor

    if not labels.has_apparmor():
        text = f"--security-opt apparmor={profile}: AppArmor is not enabled in this kernel"
        raise UsageError(text, "leave it out: the container would not be confined by it")
    return profile


def _label(value: str) -> None:
    """Take label=disable, which is how it is. Raises UsageError for any other label."""
    if value != "disable":
        text = f"--security-opt label={value}: minirun gives no SELinux labels"
        raise UsageError(text, "leave it out, or label=disable")
