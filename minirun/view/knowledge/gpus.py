"""What the log says of GPUs besides system calls."""

from minirun.view.knowledge.topic import NOTE, Topic

NOTES = (
    Topic(
        "gpu shared",
        "another container has this GPU too",
        "Their processes take turns on it (time-slicing); `with` names the other containers. "
        "Its memory is there for all of them, and whoever asks first gets it.",
        advice="minirun gpu ps shows who has which; --gpus 0,exclusive refuses to share; minirun "
        "gpu timeslice sets how long a turn is; minirun gpu mps lets them run at the same time.",
        real="NVIDIA's container stack keeps no books: whoever asks gets the GPU, and nothing is "
        "said.",
        kind=NOTE,
    ),
    Topic(
        "gpu exclusive",
        "these GPUs are this container's alone",
        "Nobody else had them, and no other container of the same state root gets them while this "
        "one runs: --gpus 0,exclusive.",
        advice="A container that wants one of them is refused; --gpus count=1 takes another one.",
        real="Kubernetes' device plugin keeps such books; docker and runc do not.",
        kind=NOTE,
    ),
    Topic(
        "compat library refused",
        "a CUDA compatibility library of the image is left where it is",
        "The image brings its own newer libcuda for older drivers. This one is no regular file, or "
        "its name leads out of the image, so it is not used.",
        cause="a link in /usr/local/cuda/compat that points somewhere else",
        advice="look at the link in the image: ls -l /usr/local/cuda/compat",
        real="libnvidia-container mounted by path here, and was led to files of the host "
        "(CVE-2024-0132, CVE-2025-23359).",
        kind=NOTE,
    ),
    Topic(
        "undone",
        "a configure that failed has been taken back",
        "Mounts, nodes and links that were made before the failure are gone again.",
        real="the real nvidia-container-cli leaves what it had made: 26 mounts, when the node of "
        "GPU 0 is missing.",
        kind=NOTE,
    ),
    Topic(
        "not undone",
        "something of a failed configure is left",
        "Taking it back failed as well; the path is in the event.",
        advice="remove it by hand, or start from a fresh root filesystem",
        kind=NOTE,
    ),
    Topic(
        "nvidia-container-cli",
        "the argument list that stage 4 made",
        "What the real hook would execute: --device are the GPUs, --compute and --utility kinds "
        "of driver files, --pid is init, the last word the root filesystem.",
        advice="Without argv: the container asked for no GPU.",
        real="nvidia-container-runtime-hook executes nvidia-container-cli with this list.",
        kind=NOTE,
    ),
    Topic(
        "container library folder",
        "where the container keeps its libraries",
        "/etc/debian_version in the image: /usr/lib/x86_64-linux-gnu (or aarch64-linux-gnu). "
        "Otherwise /usr/lib64.",
        real="nvidia-container-cli decides by the same file.",
        kind=NOTE,
    ),
    Topic(
        "ldconfig absent",
        "no ldconfig to run",
        "The host has none, or the path has no @: then it would be the image's own, and code of "
        "the image is never run. Libraries get no SONAME links.",
        advice='ldconfig = "@/sbin/ldconfig" in the nvidia toolkit\'s config.toml.',
        man="ldconfig(8)",
        real="nvidia-container-cli runs the image's own where the path has no @.",
        kind=NOTE,
    ),
    Topic(
        "ld.so.conf absent",
        "the image has no /etc/ld.so.conf",
        "ldconfig looks only through the driver's folders and the standard ones.",
        man="ldconfig(8)",
        kind=NOTE,
    ),
    Topic(
        "ldconfig limited",
        "what ldconfig may take",
        "It reads files that the image made, so it gets limits: processor time in seconds, memory "
        "(RLIMIT_DATA), mapped files (RLIMIT_AS), the size of what it writes, and how many files "
        "are open. It is in the container's cgroup as well.",
        man="setrlimit(2)",
        real="nvidia-container-cli limits its ldconfig too.",
        kind=NOTE,
    ),
    Topic(
        "cgroup not joined",
        "ldconfig works in the caller's cgroup",
        "Without root a process may not always be moved into the container's cgroup. Its own "
        "limits hold all the same.",
        man="cgroups(7)",
        kind=NOTE,
    ),
    Topic(
        "ldconfig ended",
        "the links and the cache are made",
        "With its exit status (-9: it was killed) and what it said.",
        man="ldconfig(8)",
        real="`ldconfig failed with error code` is among the most frequent errors of "
        "nvidia-container-cli.",
        kind=NOTE,
    ),
    Topic(
        "ld.so.cache kept",
        "ldconfig has nothing to do",
        "An earlier container had the same image, the same libraries of the driver and the same "
        "ldconfig. What that made for it, links and /etc/ld.so.cache, lies in this container's "
        "init layer, on a tmpfs of its own, since stage 1.",
        advice="A run that is watched, on a terminal or with --step, makes everything anew and "
        "shows ldconfig at work. The file in the event can be removed at any time: the next "
        "container writes it again.",
        man="ldconfig(8)",
        real="nvidia-container-cli runs ldconfig for each container.",
        kind=NOTE,
    ),
    Topic(
        "init layer out of date",
        "mount points of files that it does not get were there",
        "Where a container of this image had GPUs before, mount points are made in stage 1, below "
        "upper. They are removed: the driver was changed since, or the container gets no GPU.",
        real="docker has a layer ID-init too, but none for GPUs.",
        kind=NOTE,
    ),
    Topic(
        "driver libraries absent",
        "no library of the driver's version was found",
        "Kernel module and libraries come from different releases, or ld.so.cache is stale.",
        advice="ldconfig -p | grep libcuda; cat /proc/driver/nvidia/version",
        real="The real stack goes on in silence, and programs fail in the container.",
        kind=NOTE,
    ),
    Topic(
        "kernel modules",
        "the driver's modules are loaded, and its nodes made",
        "Only where a node is missing, or --load-kmods asks: after boot nobody loads nvidia-uvm, "
        "and udev makes no nodes for NVIDIA's driver.",
        advice="nvidia-modprobe -u -c 0 does the same at boot.",
        real="nvidia-container-cli --load-kmods does so in each run, silently.",
        kind=NOTE,
    ),
    Topic(
        "driver root",
        "the GPU driver is not installed in the host's own root",
        "Its files, nodes and NVML are taken from there: in Kubernetes the driver often runs in a "
        "container, whose root filesystem is seen at /run/nvidia/driver.",
        advice="--driver-root DIR says it, or root in the toolkit's config.toml.",
        real="nvidia-container-cli --root=DIR; it does not look for one by itself.",
        kind=NOTE,
    ),
    Topic(
        "nvml not used",
        "GPUs were found without NVIDIA's library",
        "/proc/driver/nvidia/gpus tells number, UUID, model and bus; brand and architecture stay "
        "unknown.",
        advice="nvidia-smi -L says whether NVML works on the host.",
        kind=NOTE,
    ),
    Topic(
        "node absent",
        "a device node of the driver is missing on the host",
        "CUDA does not work without /dev/nvidia-uvm, for example.",
        advice="nvidia-modprobe -u -c 0 makes it; so does any CUDA program run as root.",
        real="nvidia-container-cli passes over it in silence, with status 0.",
        kind=NOTE,
    ),
)
