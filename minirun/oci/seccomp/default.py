"""Which system calls a container of `minirun run IMAGE` may make: config.json's linux.seccomp.

A kernel has some 370 calls, and a fault in any of them is a way out of every container, since all
share the kernel. So a container gets the calls that programs use. Four answers:

    ALLOWED      go through to the kernel, which has its own checks (capabilities, permissions)
    CAPABLE      go through if the container has the capability; else EPERM
    REFUSED      EPERM, "you may not": no program of today needs them
    everything else: ENOSYS, "there is no such call": programs then fall back to an older way.
                 UNKNOWN says why of the calls that a reader may miss; calls that are newer than
                 this table are treated so too, until one has looked at them

In effect this is podman's default profile as Debian 12 has it; tests/oci/seccomp/test_default.py
compares call by call, and capability by capability. docker's differs:

- docker lets mount, unshare, setns, clone with new namespaces and their relatives through with
  CAP_SYS_ADMIN only. Here, as with podman, the kernel's own check decides: without the capability
  the calls fail, except in a user namespace that the container makes itself, where a sandbox (a
  browser's, bubblewrap, a build tool) is at work. With docker's file it is as with docker:
  --security-opt seccomp=FILE. The same holds of NUMA policies (CAP_SYS_NICE there), which GPU
  programs use, of keyctl, syslog, reboot and pidfd_getfd: the kernel checks.
- docker's answer to all that is not allowed is EPERM. ENOSYS is kinder to programs.
- CAP_BPF and CAP_PERFMON open bpf and perf_event_open, as with docker. Podman's file of that time
  did not know the capabilities, which are parts of CAP_SYS_ADMIN.
- The socket families in HOST_FAMILIES are refused, as with docker: podman allows them.

The kernel looks at the lower half of a register for a family, and so does the filter. docker's
compares all of it: family 2^32 + 40 passes there, and is 40 to the kernel.
"""

import os

from minirun.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

NAME = "default"
"""What `inspect`, the log and --security-opt seccomp=… call it."""
EPERM, EINVAL, ENOSYS = 1, 22, 38
AF_NETLINK, NETLINK_AUDIT = 16, 9
HOST_FAMILIES = {
    38: "AF_ALG, the kernel's cryptography: a fault in it changed files that containers share",
    40: "AF_VSOCK, from a virtual machine to its host: a network that no namespace divides",
}
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, PER_LINUX32, each with UNAME26; and the question. Others switch off address space
randomization, or run programs as other systems did."""
_HALF = 0xFFFFFFFF


class Group(Record):
    """Some system calls, and why they get the answer that they get."""

    name: str
    why: str
    calls: str
    """Names, with spaces in between."""


class Capable(Record):
    """System calls that a capability opens."""

    capability: str
    why: str
    calls: str


ALLOWED = (
    Group(
        "files",
        "reading and writing of what is open, and opening it: permissions are checked there",
        "open openat openat2 creat close close_range read write readv writev pread64 pwrite64"
        " preadv pwritev preadv2 pwritev2 lseek _llseek truncate truncate64 ftruncate ftruncate64"
        " fallocate fsync fdatasync sync syncfs sync_file_range readahead fadvise64 fadvise64_64"
        " dup dup2 dup3 fcntl fcntl64 flock ioctl pipe pipe2 splice tee sendfile sendfile64"
        " copy_file_range name_to_handle_at",
    ),
    Group(
        "names",
        "directories, links and what is in them",
        "access faccessat faccessat2 chdir fchdir getcwd getdents getdents64 readdir link linkat"
        " symlink symlinkat readlink readlinkat unlink unlinkat rename renameat renameat2 mkdir"
        " mkdirat rmdir mknod mknodat umask",
    ),
    Group(
        "attributes",
        "what a file is, whose it is, and when it was used",
        "stat stat64 fstat fstat64 lstat lstat64 newfstatat fstatat64 statx statfs statfs64 fstatfs"
        " fstatfs64 chmod fchmod fchmodat chown chown32 fchown fchown32 fchownat lchown lchown32"
        " utime utimes futimesat utimensat utimensat_time64 getxattr lgetxattr fgetxattr setxattr"
        " lsetxattr fsetxattr listxattr llistxattr flistxattr removexattr lremovexattr"
        " fremovexattr",
    ),
    Group(
        "events",
        "waiting until something happens",
        "poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 epoll_create"
        " epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2"
        " eventfd eventfd2 signalfd signalfd4 inotify_init inotify_init1 inotify_add_watch"
        " inotify_rm_watch fanotify_mark",
    ),
    Group(
        "memory",
        "a process's own memory, and where in the machine it lies",
        "brk mmap mmap2 munmap mremap mprotect msync madvise mincore mlock mlock2 mlockall munlock"
        " munlockall remap_file_pages memfd_create memfd_secret membarrier pkey_alloc pkey_free"
        " pkey_mprotect mbind get_mempolicy set_mempolicy",
    ),
    Group(
        "processes",
        "making processes and threads, and seeing them end",
        "fork vfork clone clone3 execve execveat exit exit_group wait4 waitid waitpid getpid"
        " getppid gettid getpgid getpgrp setpgid getsid setsid set_tid_address set_robust_list"
        " get_robust_list futex futex_time64 rseq restart_syscall getrusage times",
    ),
    Group(
        "signals",
        "to processes that the pid namespace shows, of the same user",
        "kill tkill tgkill pause alarm signal sigaction sigaltstack sigpending sigprocmask"
        " sigreturn sigsuspend rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo"
        " rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo"
        " pidfd_open pidfd_send_signal",
    ),
    Group(
        "identity",
        "users, groups and capabilities: the kernel lets a process change to what it may be",
        "getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getresuid getresuid32"
        " getresgid getresgid32 getgroups getgroups32 setuid setuid32 setgid setgid32 setreuid"
        " setreuid32 setregid setregid32 setresuid setresuid32 setresgid setresgid32 setfsuid"
        " setfsuid32 setfsgid setfsgid32 setgroups setgroups32 capget capset prctl",
    ),
    Group(
        "limits",
        "priorities, processors and resource limits: raising them needs CAP_SYS_NICE or more",
        "getpriority setpriority ioprio_get ioprio_set getrlimit ugetrlimit setrlimit prlimit64"
        " getcpu sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr"
        " sched_getparam sched_setparam sched_getscheduler sched_setscheduler"
        " sched_get_priority_max sched_get_priority_min sched_rr_get_interval"
        " sched_rr_get_interval_time64",
    ),
    Group(
        "time",
        "clocks and timers; setting the clock needs CAP_SYS_TIME (adjtimex also only reads)",
        "time gettimeofday clock_gettime clock_gettime64 clock_getres clock_getres_time64 nanosleep"
        " clock_nanosleep clock_nanosleep_time64 adjtimex clock_adjtime clock_adjtime64 getitimer"
        " setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64"
        " timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64"
        " timerfd_settime timerfd_settime64",
    ),
    Group(
        "sockets",
        "the network namespace bounds them; socket itself is judged by its family",
        "socketpair bind connect listen accept accept4 getsockname getpeername getsockopt"
        " setsockopt shutdown send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg"
        " recvmmsg_time64 socketcall",
    ),
    Group(
        "queues",
        "System V's and POSIX's shared memory, semaphores and messages, of the IPC namespace",
        "shmget shmat shmdt shmctl semget semop semctl semtimedop semtimedop_time64 msgget msgsnd"
        " msgrcv msgctl ipc mq_open mq_unlink mq_notify mq_getsetattr mq_timedsend"
        " mq_timedsend_time64 mq_timedreceive mq_timedreceive_time64",
    ),
    Group(
        "asynchronous",
        "reading and writing without waiting, the old way (the new one is io_uring)",
        "io_setup io_destroy io_submit io_cancel io_getevents",
    ),
    Group(
        "self-restraint",
        "a process gives up rights",
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    Group(
        "debugging",
        "looking into processes of the same user, which may hold no more rights than oneself",
        "ptrace process_vm_readv process_vm_writev process_mrelease pidfd_getfd",
    ),
    Group(
        "namespaces",
        "mounts and new namespaces: the kernel wants CAP_SYS_ADMIN, there or in a user namespace"
        " of one's own",
        "mount umount umount2 pivot_root unshare setns open_tree move_mount mount_setattr fsopen"
        " fsconfig fsmount fspick",
    ),
    Group(
        "machine",
        "what machine this is; syslog and reboot are the kernel's to refuse, keyctl finds one's"
        " own keyrings",
        "uname sysinfo getrandom syslog reboot keyctl",
    ),
)  # fmt: skip

ON_X86 = Group(
    "x86",
    "what threads and old 16-bit programs need of this processor",
    "arch_prctl modify_ldt get_thread_area set_thread_area",
)
ON_ARM = Group(
    "arm",
    "what 32-bit programs need of this processor",
    "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls"
    " get_thread_area set_thread_area",
)

CAPABLE = (
    Capable(
        "CAP_DAC_READ_SEARCH",
        "opens a file by its number instead of its name: past every directory's permissions, and"
        " out of the container's tree (the hole was called Shocker)",
        "open_by_handle_at",
    ),
    Capable(
        "CAP_SYS_ADMIN",
        "programs in the kernel, its counters, all events of a file system, quotas, host names",
        "bpf perf_event_open fanotify_init lookup_dcookie quotactl sethostname setdomainname",
    ),
    Capable("CAP_BPF", "programs in the kernel: one fault in its verifier is the kernel", "bpf"),
    Capable("CAP_PERFMON", "the processor's counters tell of other containers", "perf_event_open"),
    Capable("CAP_SYS_CHROOT", "another root directory for a process", "chroot"),
    Capable(
        "CAP_SYS_MODULE",
        "a kernel module is the kernel",
        "init_module finit_module delete_module query_module",
    ),
    Capable("CAP_SYS_PACCT", "a file in which the kernel notes every process", "acct"),
    Capable(
        "CAP_SYS_PTRACE",
        "compares the insides of two processes; advice on another's memory",
        "kcmp process_madvise",
    ),
    Capable("CAP_SYS_RAWIO", "the machine's input and output ports", "ioperm iopl"),
    Capable(
        "CAP_SYS_TIME",
        "the clock is the host's: no namespace has its own",
        "settimeofday stime clock_settime clock_settime64",
    ),
    Capable("CAP_SYS_TTY_CONFIG", "hangs up a terminal", "vhangup"),
)

REFUSED = (
    Group("kexec", "starts another kernel on the machine", "kexec_load kexec_file_load"),
    Group("swap", "the machine's swap space is everybody's", "swapon swapoff"),
    Group(
        "page faults",
        "lets a program stop the kernel in the middle of a copy: what many exploits are built on",
        "userfaultfd",
    ),
    Group(
        "page moving",
        "moves memory, other processes' too, between the nodes of the machine",
        "migrate_pages move_pages",
    ),
    Group(
        "pages in pipes",
        "puts a process's pages into a pipe; a family of faults, and few programs",
        "vmsplice",
    ),
    Group(
        "io_pgetevents",
        "io_getevents with a signal mask, which hardly a program uses; docker allows it",
        "io_pgetevents",
    ),
    Group(
        "outdated",
        "newer calls have taken their place; the kernel keeps them for programs of the 1990s",
        "bdflush nfsservctl nice oldfstat oldlstat oldolduname oldstat olduname sgetmask ssetmask"
        " sysfs uselib ustat",
    ),
    Group(
        "other machines",
        "8086 programs, and PowerPC's own",
        "vm86 vm86old pciconfig_iobase pciconfig_read pciconfig_write swapcontext",
    ),
)

UNKNOWN = (
    Group(
        "io_uring",
        "does other calls' work in the kernel, past every filter; most of the kernel exploits that"
        " Google's bounty was paid for in 2022 used it",
        "io_uring_setup io_uring_enter io_uring_register",
    ),
    Group("keys", "no namespace divides the kernel's keyrings", "add_key request_key"),
    Group("quotas by descriptor", "quotactl's newer form, without need here", "quotactl_fd"),
    Group(
        "newer",
        "came after the profile; programs fall back to futex and set_mempolicy",
        "futex_waitv set_mempolicy_home_node",
    ),
    Group(
        "never made",
        "numbers without a call, and calls that are gone",
        "_sysctl afs_syscall create_module get_kernel_syms getpmsg putpmsg security tuxcall"
        " vserver",
    ),
)
"""For a reader: nothing in config.json names them."""

_ARCHITECTURES = {
    "x86_64": (("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"), ON_X86),
    "aarch64": (("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"), ON_ARM),
}
"""By machine: its architectures. One that a profile leaves out is a way around it if the kernel
runs its programs, so libseccomp makes the kernel end a process that tries another one."""


def profile(capabilities: "Collection[str]", machine: str = "") -> "dict[str, Any]":
    """Return linux.seccomp for a container with these capabilities.

    `machine` is as uname -m says it; by default this one.
    """
    architectures, own = _ARCHITECTURES.get(machine or os.uname().machine, ((), None))
    groups = (*ALLOWED, own) if own else ALLOWED
    allowed = [call for group in groups for call in group.calls.split()]
    opened = {call for row in CAPABLE if row.capability in capabilities for call in _calls(row)}
    closed = {call for row in CAPABLE for call in _calls(row)} - opened
    refused = [call for group in REFUSED for call in group.calls.split()]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "architectures": list(architectures),
        "syscalls": [
            {"names": [*allowed, *sorted(opened)], "action": "SCMP_ACT_ALLOW"},
            _refusal([*refused, *sorted(closed)], EPERM),
            *(_personality(value) for value in PERSONALITIES),
            *_socket(audit="CAP_AUDIT_WRITE" in capabilities),
        ],
    }


def _calls(row: Capable) -> "list[str]":
    return row.calls.split()


def _refusal(names: "list[str]", errno: int, *args: "dict[str, Any]") -> "dict[str, Any]":
    row = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno}
    return {**row, "args": list(args)} if args else row


def _personality(value: int) -> "dict[str, Any]":
    equal = {"index": 0, "value": value, "op": "SCMP_CMP_EQ"}
    return {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [equal]}


def _socket(*, audit: bool) -> "list[dict[str, Any]]":
    """All families but those; and without CAP_AUDIT_WRITE no netlink socket to the audit log.

    What is refused comes first, and then what is left; a condition that always holds makes the last
    row one of the same kind (a row without any would win over all others).
    """
    rows = [_refusal(["socket"], EPERM, _lower(0, family)) for family in HOST_FAMILIES]
    if not audit:
        both = _lower(0, AF_NETLINK), _lower(2, NETLINK_AUDIT)
        rows.append(_refusal(["socket"], EINVAL, *both))
    any_ = {"index": 0, "value": 0, "op": "SCMP_CMP_GE"}
    return [*rows, {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [any_]}]


def _lower(index: int, value: int) -> "dict[str, Any]":
    """Return the condition that the lower half of an argument is `value`."""
    return {"index": index, "value": _HALF, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
