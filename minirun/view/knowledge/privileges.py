"""System calls that change what a process is and what it may do."""

from minirun.view.knowledge.topic import Topic

_ORDER = "Groups go first, the user last: after setuid nobody could change the groups any more."

TOPICS = (
    Topic(
        "prctl",
        "change a property of this process",
        "One call for many things; its first argument says which.",
        man="prctl(2)",
    ),
    Topic(
        "prctl PR_SET_PDEATHSIG",
        "die with the parent",
        "9 (SIGKILL): until its command runs, init dies when the runtime does, so that a killed "
        "`minirun create` leaves nothing half-made. 0, right before exec: from then on it lives "
        "without the runtime.",
        man="PR_SET_PDEATHSIG(2const)",
        real="libcontainer sets it only where its caller asks for it, and sets it again after the "
        "change of user, which clears it.",
    ),
    Topic(
        "prctl PR_SET_DUMPABLE",
        "nobody may look into this process",
        "0 makes /proc/PID belong to root and forbids ptrace. While init still has descriptors "
        "and memory of the host, nobody in the container may reach them (CVE-2016-9962).",
        man="PR_SET_DUMPABLE(2const)",
        real="runc does the same in its C code, as one of the first things.",
    ),
    Topic(
        "prctl PR_SET_NAME",
        "give the process a name",
        "minirun:init, minirun:hook: at most 15 bytes, as ps and strace show it.",
        man="PR_SET_NAME(2const)",
        real="runc's processes are called runc:[0:PARENT], runc:[1:CHILD], runc:[2:INIT].",
    ),
    Topic(
        "prctl PR_SET_KEEPCAPS",
        "keep capabilities over setuid",
        "setuid to another user than root would clear the permitted set. It is kept here, and "
        "capset then leaves exactly what config.json grants. execve clears the flag.",
        man="PR_SET_KEEPCAPS(2const), capabilities(7)",
        real="runc sets it before, and clears it after the change of user.",
    ),
    Topic(
        "prctl PR_CAPBSET_DROP",
        "take a capability away for good",
        "One call for each capability that the container does not get. What has left the bounding "
        "set cannot come back, not even by a setuid program.",
        man="PR_CAPBSET_DROP(2const), capabilities(7)",
        spec="config.md, Linux Process (capabilities)",
        real="runc does the same. It needs CAP_SETPCAP, so it comes before capset.",
    ),
    Topic(
        "prctl PR_CAP_AMBIENT",
        "set the ambient capabilities",
        "The ambient set survives execve even for a user that is not root. It is cleared first; "
        "then what config.json names is raised.",
        man="PR_CAP_AMBIENT(2const), capabilities(7)",
        spec="config.md, Linux Process (capabilities)",
    ),
    Topic(
        "prctl PR_SET_NO_NEW_PRIVS",
        "no program may give more rights than there are",
        "setuid bits and file capabilities have no effect from now on, for this process and all "
        "that come from it. Then a seccomp filter can be installed without CAP_SYS_ADMIN.",
        man="PR_SET_NO_NEW_PRIVS(2const)",
        spec="config.md, Linux Process (noNewPrivileges)",
        real="runc sets it where config.json says so, docker's --security-opt no-new-privileges.",
    ),
    Topic(
        "prctl PR_SET_SECUREBITS",
        "root that is not almighty",
        "SECBIT_NOROOT, locked: uid 0 is a user like any other when it executes a program. "
        "ldconfig, which reads an image's files, runs so, with CAP_DAC_OVERRIDE alone.",
        man="PR_SET_SECUREBITS(2const), capabilities(7)",
        real="nvidia-container-cli also leaves its ldconfig CAP_DAC_OVERRIDE alone; it empties "
        "the bounding set and limits system calls and resources besides.",
    ),
    Topic(
        "capset",
        "set the capabilities of this process",
        "Effective: what counts now. Permitted: what may be made effective. Inheritable: what may "
        "pass on through execve; empty unless config.json asks. Each is a bit mask by number.",
        advice="grep Cap /proc/PID/status shows the masks; minirun inspect ID names them.",
        man="capset(2), capabilities(7)",
        spec="config.md, Linux Process (capabilities)",
        real="runc has the same order: bounding set, change of user, then the other sets.",
    ),
    Topic(
        "seccomp",
        "restrict the system calls",
        "A program of classic BPF is asked at every system call from now on, and cannot be taken "
        "away. Without no_new_privs it needs CAP_SYS_ADMIN, so it comes before the capabilities "
        "go; with it, it comes right before execve, so that it meets few of init's own calls.",
        advice="minirun inspect ID shows the profile. minirun explain CALL tells how the default "
        "one of `run IMAGE` answers a call, and why.",
        man="seccomp(2)",
        spec="config-linux.md, Seccomp",
        real="runc has the same two places, for the same reason; libseccomp writes its program, "
        "where minirun writes its own.",
    ),
    Topic(
        "setgroups",
        "replace the supplementary groups",
        "Without it the caller's groups would stay: on the host perhaps docker, disk or video "
        f"(CVE-2022-36109). {_ORDER}",
        man="setgroups(2)",
        spec="config.md, POSIX-platform User",
    ),
    Topic(
        "setgid",
        "become a group",
        f"Real, effective and saved group id. {_ORDER}",
        man="setresgid(2)",
        spec="config.md, POSIX-platform User",
    ),
    Topic(
        "setuid",
        "become a user",
        "Real, effective and saved user id. For another user than root this clears the effective "
        "capabilities, so capset follows.",
        man="setresuid(2), capabilities(7)",
        spec="config.md, POSIX-platform User",
    ),
    Topic(
        "setrlimit",
        "set a resource limit",
        "Of this process and all that come from it. Anybody may lower a hard limit; raising one "
        "needs CAP_SYS_RESOURCE. Not in the log.",
        man="setrlimit(2)",
        spec="config.md, POSIX Process (rlimits)",
    ),
    Topic(
        "sethostname",
        "set the host name",
        "Of the UTS namespace in which the caller is: the host keeps its own. At most 64 bytes.",
        man="sethostname(2), uts_namespaces(7)",
        spec="config.md, Hostname",
    ),
    Topic(
        "setdomainname",
        "set the NIS domain name",
        "Of the UTS namespace; not the DNS domain.",
        man="setdomainname(2), uts_namespaces(7)",
        spec="config.md, Domainname",
    ),
    Topic(
        "ioctl",
        "switch a network interface on",
        "SIOCSIFFLAGS with IFF_UP for lo: a new network namespace has a loopback and nothing "
        "else, and that is down.",
        man="netdevice(7), network_namespaces(7)",
        spec="config-linux.md, Namespaces",
        real="runc sets lo up through netlink.",
    ),
)
