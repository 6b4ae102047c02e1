"""What people see of GPUs that do not work in containers: the usual texts, and what is behind them.

Chosen from the threads in NVIDIA's repositories with most readers. A text is known by its marks:
words of it, so that a whole line can be given to `minirun explain` as a program printed it.
"""

from dataclasses import dataclass

from minirun.view.knowledge.topic import TROUBLE, Topic


@dataclass(frozen=True)
class Trouble:
    """A topic, and the words that a text about it holds, in lower case."""

    marks: tuple[str, ...]
    topic: Topic


def _trouble(
    name: str, title: str, here: str, marks: tuple[str, ...], *, cause: str, advice: str, real: str
) -> Trouble:
    topic = Topic(name, title, here, cause, advice, real=real, kind=TROUBLE)
    return Trouble((name.lower(), *marks), topic)


TROUBLES = (
    _trouble(
        "state.json is damaged",
        "a container's record cannot be believed",
        "By its record processes are killed and cgroups removed. So every field is checked, and "
        "one that is wrong makes it damaged: lists show the container, other commands refuse it.",
        ("removed without its record",),
        cause="a full disk, a hand, or another program; a record is written whole, and renamed",
        advice="minirun delete --force ID: ends what is the container's by name (its cgroup, the "
        "mounts and files below its directory), and says what it leaves; no hooks run.",
        real="runc says that the JSON is wrong; its delete --force ends nothing then.",
    ),
    _trouble(
        "is not minirun's",
        "what lies below a state root, and no container of minirun's",
        "gc, delete and images rm remove what certainly is minirun's: a directory of the caller's "
        "own, no link, with a record of minirun's. Anything else is named, and left.",
        ("is left: it has no state.json", "is left: it is a link", "is left: it belongs to"),
        cause="a state root shared with runc or crun, or --root named some other directory",
        advice="look at it, and remove it by hand if it is to go; or name the --root you mean.",
        real="runc delete --force removes whatever directory has the container's name.",
    ),
    _trouble(
        "ignored annotations",
        "config.json has no say in what minirun was asked for there",
        "podman and CRI-O copy an image's annotations into config.json, every engine its "
        "environment: what picks a driver, or where its files lie, is the caller's word alone.",
        ("ignored variable", "obeys none of its own"),
        cause="an annotation io.minirun.* other than io.minirun.log; or AMD_VISIBLE_DEVICES, "
        "HABANA_VISIBLE_DEVICES, if the caller did not choose that vendor",
        advice="flags before the command, in the engine's configuration: minirun "
        "--gpu-driver=amd, podman --runtime-flag gpu-driver=amd, docker's runtimeArgs.",
        real="crun obeys run.oci.* of any config.json; CRI-O has a list of annotations that are "
        "allowed for each runtime.",
    ),
    _trouble(
        "driver root refused",
        "files that root trusts would come from a folder that others can change",
        "Libraries, nodes and sockets of the GPU driver are taken from it with root's rights.",
        ("holds containers or images", "may be changed by others"),
        cause="the folder, or one above it, belongs to another user or can be written to by "
        "others; or it lies among the images or containers of an engine",
        advice="a folder of root's, such as /run/nvidia/driver: --driver-root DIR, or "
        "nvidia-container-cli.root in config.toml",
        real="libnvidia-container takes any --root.",
    ),
    _trouble(
        "NVML: Unknown Error",
        "the cgroup denies the GPU's node",
        "Worked at first: the nodes are in the container, but open() gives EPERM.",
        ("no cuda-capable device is detected", "failed to initialize nvml"),
        cause="Somebody rewrote the cgroup's device rules after the start: systemctl daemon-reload "
        "with the systemd driver, docker update, the kubelet's CPU manager. Rules that a hook "
        "added behind the runtime's back are not known to them.",
        advice="minirun gpu why ID shows the rules in force and what is missing; with --repair it "
        "puts them back. For good: --gpu-mode cdi or --device, whose rules are in config.json.",
        real="nvidia-container-toolkit #48, #251, #1227.",
    ),
    _trouble(
        "NVML: version mismatch",
        "kernel module and libraries are of different versions",
        "minirun run --gpus ends with an error where no library of the module's version is found.",
        ("driver/library version mismatch", "nvml library version"),
        cause="The driver was updated while its old kernel module stayed loaded; or the container "
        "was started before the update and has the old files.",
        advice="reboot, or rmmod nvidia_uvm nvidia && modprobe nvidia; then start the containers "
        "anew. minirun gpu why ID tells the two versions of a running one.",
        real="nvidia-container-cli mounts no library and ends with status 0 "
        "(nvidia-container-toolkit #394).",
    ),
    _trouble(
        "libnvidia-ml.so.1: file exists",
        "the image has a driver's files of its own",
        "minirun mounts over such a file, in the container's own layer; the image stays as it is.",
        ("file creation failed", "file exists: unknown"),
        cause="The image was committed from a container with GPUs, or somebody installed a driver "
        "in it.",
        advice="remove libnvidia-* and libcuda.so.* from the image, and build it without a driver",
        real="nvidia-container-cli fails with mount error: file creation failed "
        "(nvidia-container-toolkit #289, #371).",
    ),
    _trouble(
        "ldconfig failed",
        "the loader's cache of the container could not be made",
        "The host's ldconfig runs in the container's files, alone and without rights.",
        ("ldcache error",),
        cause="The image's /etc/ld.so.conf, or a library of it, is damaged; the root file system "
        "is read-only; or a security module refuses.",
        advice="minirun timeline ID shows what ldconfig said, in the event ldconfig ended",
        real="libnvidia-container #177; one line says no more than the number.",
    ),
    _trouble(
        "initialization error",
        "the driver does not answer",
        "minirun says which part is missing: module, library, or node.",
        ("driver not loaded", "load library failed"),
        cause="No kernel module is loaded, it does not fit the card, or libnvidia-ml.so.1 is not "
        "installed on the host.",
        advice="nvidia-smi on the host; dmesg | grep NVRM; modprobe nvidia",
        real="nvidia-container-toolkit #260, #183, #1269.",
    ),
    _trouble(
        "CUDA_ERROR_UNKNOWN",
        "nvidia-smi works and CUDA does not: /dev/nvidia-uvm is missing",
        "minirun run --gpus makes the node where its module can be loaded, and warns otherwise.",
        (
            "cudaerrorunknown",
            "nvidia-uvm",
            "cuda unknown error",
            "cuda initialization: unexpected error",
        ),
        cause="After boot nobody has loaded the module nvidia-uvm: udev makes no nodes for it.",
        advice="nvidia-modprobe -u -c 0 on the host, at each boot, or nvidia-persistenced",
        real="nvidia-container-cli passes over it in silence (k8s-device-plugin #222).",
    ),
    _trouble(
        "unresolvable CDI devices",
        "no CDI spec describes such a device",
        "Specs are looked for in /etc/cdi and /var/run/cdi.",
        ("failed to inject cdi devices", "failed to stat cdi host device"),
        cause="There is no spec yet, or it is older than the driver or a change of MIG.",
        advice="minirun nvidia-ctk cdi list; make it anew: nvidia-ctk cdi generate",
        real="nvidia-container-toolkit #1828, moby #51942.",
    ),
    _trouble(
        "GPUs without root",
        "without root there are no device rules to add",
        "minirun, as root, adds the rules itself, for a container in a user namespace as well.",
        ("bpf_prog_query", "failed to get device cgroup mount path", "permission denied: unknown"),
        cause="nvidia-container-cli changes the cgroup's device rules, which takes CAP_SYS_ADMIN "
        "of the host.",
        advice="no-cgroups = true in config.toml, or --gpu-mode cdi",
        real="libnvidia-container #154.",
    ),
    _trouble(
        "could not select device driver",
        "docker knows no runtime for --gpus",
        "minirun run needs no entry of that kind.",
        ("capabilities: [[gpu]]",),
        cause="NVIDIA's container toolkit is not installed, or docker was not restarted since.",
        advice="minirun nvidia-ctk runtime configure --runtime=docker, then restart docker",
        real="docker looks for nvidia-container-runtime-hook in PATH when it starts.",
    ),
    _trouble(
        "GPUs that nobody asked for",
        "the image's environment asked",
        "minirun run gives GPUs on the user's word alone: --gpus, or -e NVIDIA_VISIBLE_DEVICES.",
        ("nvidia_visible_devices",),
        cause="Images made from nvidia/cuda hold NVIDIA_VISIBLE_DEVICES=all, and NVIDIA's runtime "
        "takes it for a request.",
        advice="minirun gpu why ID tells who asked; elsewhere: NVIDIA_VISIBLE_DEVICES=void",
        real="k8s-device-plugin #87.",
    ),
    _trouble(
        "legacy and cdi differ",
        "nvidia-container-runtime changed its default in 1.18",
        "Legacy is minirun's default; --gpu-mode cdi is the other.",
        ("jit-cdi", "nvidia_visible_devices=void"),
        cause="In cdi mode every library comes along whatever NVIDIA_DRIVER_CAPABILITIES says, "
        "NVIDIA_REQUIRE_* is not checked, and /proc shows all GPUs.",
        advice="minirun gpu diff IMAGE --gpus 0,1 shows both, side by side",
        real="nvidia-container-toolkit #1456, #1470, #1555.",
    ),
    _trouble(
        "MPS_CONNECTION_FAILED",
        "the container cannot reach the MPS daemon",
        "--gpu-mps gives a container the pipe directory, its environment and IPC.",
        ("mps server", "mps connection"),
        cause="The pipe directory is not in the container, belongs to another user, or the "
        "container has IPC and /dev/shm of its own.",
        advice="minirun gpu mps status; nvidia-cuda-mps-control runs as the same user",
        real="k8s-device-plugin #467, #762.",
    ),
)


def matching(text: str) -> list[Topic]:
    """Return the troubles that a text speaks of; the one whose mark says most comes first."""
    low = text.lower()
    found = []
    for trouble in TROUBLES:
        fitting = [len(mark) for mark in trouble.marks if mark in low]
        if fitting:
            found.append((-max(fitting), trouble.topic))
    return [topic for _, topic in sorted(found, key=lambda row: row[0])]
