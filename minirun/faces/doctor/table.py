"""All that `minirun doctor` tries, in the order of its report, with what to do if it fails."""

from minirun.faces.doctor import kernel as k
from minirun.faces.doctor import machine as m
from minirun.faces.doctor import networks as n
from minirun.faces.doctor import rootless
from minirun.faces.doctor.attempts import Ability

_KINDS = ("mount", "pid", "uts", "ipc", "network", "cgroup")
_AS_ROOT = "run as root, in a container only with --privileged"
_NEWER = "needs Linux 5.12 or newer"
_OTHER_VERSION = "no harm if the other version works"
_IN_LINE = "not needed: minirun does their work in-line"
_WAY = "/etc/nvidia-container-runtime/config.toml, and tutorials/16-cdi.en.md"
_LOADED = "the driver must be loaded already, or SIMULATED"
_ENGINES = "what each engine needs: tutorials/reference/engines/README.md"
_LACKING = "containers get all but these, with a warning"
_LIMITS = "needs CAP_SYS_RESOURCE; ask for lower ones"
_GPUS = "no harm with --gpu-driver=simulated; for a real GPU install NVIDIA's driver"
_CDI = "nvidia-ctk cdi generate --output=FILE makes a file anew; --device and engines need it"

ABILITIES = (
    Ability("root", 0, True, m.root, "sudo minirun …"),
    Ability("kernel", 0, True, m.kernel, _NEWER),
    Ability("interpreter", 0, True, m.interpreter, "make setup"),
    Ability("python-prctl", 0, False, m.python_prctl, "no harm: prctl(2) is called without it"),
    Ability("settings", 0, False, m.settings, "minirun settings lists them"),
    Ability("disk", 0, True, m.disk, "minirun gc, or another --root and --store"),
    Ability("images", 0, False, m.images, "minirun images build ubuntu"),
    Ability("image builders", 0, False, m.builders, "apt-get install mmdebstrap busybox-static"),
    Ability("engines", 0, False, m.engines, f"no harm without one; {_ENGINES}"),
    Ability("root mount", 1, True, k.root_mount, "mount --bind DIR DIR before chroot DIR"),
    *(Ability(f"namespace {kind}", 1, True, k.namespace(kind), _AS_ROOT) for kind in _KINDS),
    Ability("namespace user", 1, False, k.namespace("user"), "sysctl user.max_user_namespaces"),
    Ability("namespace time", 1, False, k.namespace("time"), "needs CONFIG_TIME_NS"),
    Ability("clone3", 1, True, k.clone3, "a seccomp filter around minirun may refuse it"),
    Ability("overlay", 1, True, k.overlay, "--root on ext4, xfs, btrfs or tmpfs; modprobe overlay"),
    Ability("mount api", 1, True, k.mount_api, _NEWER),
    Ability("openat2", 1, True, k.openat2, _NEWER),
    Ability("cgroup v1", 1, False, k.cgroup("v1"), _OTHER_VERSION),
    Ability("cgroup v2", 1, False, k.cgroup("v2"), _OTHER_VERSION),
    Ability("systemd", 1, False, m.systemd, _ENGINES),
    *(Ability(name, 1, False, attempt, advice) for name, attempt, advice in n.ABILITIES),
    Ability("fifo", 2, True, k.fifo, "--root on a file system that holds FIFOs"),
    Ability("hooks", 3, True, k.hooks, "hooks are programs of this machine: see the reason"),
    Ability("nvidia tools", 4, False, m.nvidia_tools, _IN_LINE),
    Ability("gpu way", 4, False, m.gpu_way, _WAY),
    Ability("mknod", 5, True, k.mknod, "run it with CAP_MKNOD, and not in a user namespace"),
    Ability("device rules v1", 5, False, k.device_rules("v1"), _OTHER_VERSION),
    Ability("device rules v2", 5, False, k.device_rules("v2"), _OTHER_VERSION),
    Ability("gpu", 5, False, m.gpu, _GPUS),
    Ability("cdi files", 5, False, m.cdi_files, _CDI),
    Ability("kernel modules", 5, False, m.modules, _LOADED),
    Ability("ldconfig", 5, False, m.ldconfig, "apt-get install libc-bin"),
    Ability("pidfd", 6, True, k.pidfd, _NEWER),
    Ability("pivot_root", 7, True, k.pivot_root, _AS_ROOT),
    Ability("capabilities", 7, False, k.capabilities, _LACKING),
    Ability("raised limits", 7, False, k.raised_limits, _LIMITS),
    Ability("no_new_privs", 7, True, k.no_new_privileges, _NEWER),
    Ability("seccomp", 7, False, k.seccomp, "apt-get install libseccomp2"),
    Ability("terminal", 7, False, k.terminal, "run without -t"),
    Ability("memfd exec", 7, True, k.memfd, "sysctl vm.memfd_noexec=0"),
    *rootless.ABILITIES,
)
"""What `minirun doctor` tries, in the order of its report."""

EITHER = (("cgroup v1", "cgroup v2"), ("device rules v1", "device rules v2"))
"""Abilities of which one of each pair is needed."""
