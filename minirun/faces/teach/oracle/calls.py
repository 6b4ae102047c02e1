"""What an event says about a system call, and what strace says: in the same words.

Per system call: a function that reads strace's arguments as the event's. Names of constants are
strace's own, so the log's are checked too.
"""

import stat
from collections.abc import Callable
from functools import partial
from typing import Any

from minirun.core.process.caps import NUMBERS
from minirun.faces.show.log.event import Event
from minirun.faces.teach.oracle import netlink
from minirun.faces.teach.strace import Call, fields, flags, number, split, string, strings

Args = tuple[str, ...]
CallArgs = dict[str, Any]

_FLAGS = {"flags", "nstype", "set", "clear", "propagation", "attributes", "attach_flags"}
"""Arguments that are sets of names: the order says nothing."""

_DUMPABLE = {"SUID_DUMP_DISABLE": 0, "SUID_DUMP_USER": 1}
_AMBIENT = {
    "PR_CAP_AMBIENT_IS_SET": 1, "PR_CAP_AMBIENT_RAISE": 2,
    "PR_CAP_AMBIENT_LOWER": 3, "PR_CAP_AMBIENT_CLEAR_ALL": 4,
}  # fmt: skip
_NUMBERS = {**NUMBERS, **_DUMPABLE, **_AMBIENT, "SIGKILL": 9, "SECCOMP_MODE_FILTER": 2}
_COMMANDS = {"FSCONFIG_SET_FLAG": 0, "FSCONFIG_SET_STRING": 1, "FSCONFIG_CMD_CREATE": 6}


def differences(event: Event, call: Call) -> list[str]:
    """Return how an event and a call differ; nothing if they agree."""
    read = CALLS.get(event.name)
    if read is None or call.name not in _OTHER_NAMES.get(event.name, (event.name,)):
        return [f"that is no {event.name}"]
    try:
        found = read(call.args)
    except (ValueError, LookupError, AttributeError) as error:  # cut, or in words not known here
        return [f"what strace wrote cannot be read: {error}"]
    wrong = [
        f"{key}: the log has {_shown(event.args.get(key))}, strace {_shown(value)}"
        for key, value in found.items()
        if not _same(key, event.args.get(key), value)
    ]
    if event.kind in ("syscall", "netlink"):
        result = (event.ret, event.errno or "")
        if result != (call.ret, call.errno):
            logged, seen = event.errno or event.ret, call.errno or call.ret
            wrong.append(f"result: the log has {logged}, strace {seen}")
    return wrong


def _shown(value: Any) -> str:
    """A value as the log writes it: a set of flags as A|B."""
    return ("|".join(sorted(value)) or "0") if isinstance(value, frozenset) else repr(value)


def _same(key: str, logged: Any, seen: Any) -> bool:
    if key in _FLAGS and isinstance(logged, str):
        return bool(flags(logged) == seen)
    if key == "path" and isinstance(logged, str):  # seen relative to a descriptor
        return logged == seen or (bool(seen) and logged.endswith(f"/{seen}"))
    return bool(logged == seen)


def _value(text: str) -> Any:
    """A constant that the event has as a number."""
    return _NUMBERS[text] if text in _NUMBERS else number(text)


def _clone3(args: Args) -> CallArgs:
    found = fields(args[0].split(" => {")[0])
    return {"flags": flags(found["flags"]), "exit_signal": found["exit_signal"]}


def _clone(args: Args) -> CallArgs:
    """clone(2): a signal stands among the flags, or none does."""
    words = fields("{" + ", ".join(args) + "}")["flags"].split("|")
    signals = [word for word in words if word.startswith("SIG")]
    names = "|".join(word for word in words if word not in signals)
    return {"flags": flags(names), "exit_signal": signals[0] if signals else "0"}


def _move_mount(args: Args) -> CallArgs:
    found: CallArgs = {"from": number(args[0]), "to": number(args[2])}
    return found | {"path": string(args[3])} if args[3] != '""' else found


def _mount_setattr(args: Args) -> CallArgs:
    attr = fields(args[3])
    return {
        "fd": number(args[0]), "recursive": "AT_RECURSIVE" in args[2],
        "set": flags(attr["attr_set"]), "clear": flags(attr["attr_clr"]),
        "propagation": flags(attr["propagation"]),
    }  # fmt: skip


def _node(args: Args) -> CallArgs:
    """mknodat(dirfd, name, S_IFCHR|0666, makedev(0x1, 0x3))."""
    kind, _, permissions = args[2].partition("|")
    mode = getattr(stat, kind) | int(permissions or "0", 8)
    found: CallArgs = {"path": string(args[1]), "mode": oct(mode)}
    if len(args) > 3:
        major, minor = args[3].removeprefix("makedev(").removesuffix(")").split(", ")
        found |= {"major": int(major, 0), "minor": int(minor, 0)}
    return found


def _bpf(args: Args) -> CallArgs:
    found: CallArgs = {"cmd": args[0]}
    for name, value in fields(args[1]).items():
        if name in ("target_fd", "attach_bpf_fd", "replace_bpf_fd", "insn_cnt", "prog_id"):
            found[name] = number(value)
        elif name in ("attach_type", "prog_type"):
            found[name] = value
        elif name == "prog_name":
            found[name] = string(value)
    if args[0] != "BPF_PROG_ATTACH" or not found.get("replace_bpf_fd"):
        found.pop("replace_bpf_fd", None)
    return found


def _capset(args: Args) -> CallArgs:
    return {key: hex(_mask(value)) for key, value in fields(args[1]).items()}


def _mask(text: str) -> int:
    """1<<CAP_CHOWN|1<<CAP_KILL, or 0."""
    words = [word.removeprefix("1<<") for word in text.split("|") if word != "0"]
    return sum(1 << NUMBERS[word] for word in words)


def _prctl(args: Args) -> CallArgs:
    found: CallArgs = {"option": args[0]}
    if args[0] == "PR_SET_NAME":
        return found | {"name": string(args[1])}
    if args[0] == "PR_SET_SECUREBITS":
        return found
    return found | {
        f"arg{n}": _value(text) for n, text in enumerate(args[1:3], 2) if text[0] != "{"
    }


def _execve(args: Args) -> CallArgs:
    if args[1].startswith("["):
        return {"path": string(args[0]), "argv": strings(args[1])}
    return {"argv": strings(args[2])}  # execveat: the program is a descriptor


def _each(**readers: Callable[[str], Any] | None) -> Callable[[Args], CallArgs]:
    """Return what reads strace's arguments in their order; None passes one over."""

    def read(args: Args) -> CallArgs:
        pairs = zip(readers.items(), args[: len(readers)], strict=True)
        return {key: reader(text) for (key, reader), text in pairs if reader}

    return read


CALLS: dict[str, Callable[[Args], CallArgs]] = {
    "clone": _clone,
    "clone3": _clone3,
    "unshare": _each(flags=flags),
    "setns": _each(fd=number, nstype=flags),
    "mount": _each(source=string, target=string, fstype=string, flags=flags, data=string),
    "umount2": _each(target=string, flags=flags),
    "pivot_root": _each(new_root=string, put_old=string),
    "chroot": _each(path=string),
    "open_tree": _each(dirfd=number, path=string, flags=flags),
    "move_mount": _move_mount,
    "mount_setattr": _mount_setattr,
    "fsopen": _each(fstype=string),
    "fsconfig": _each(fs=number, command=_COMMANDS.__getitem__, key=string, value=string),
    "fsmount": _each(fs=number, _=None, attributes=flags),
    "mknodat": _node,
    "mkfifo": _node,
    "symlinkat": _each(target=string, _=None, path=string),
    "bpf": _bpf,
    "capset": _capset,
    "prctl": _prctl,
    "seccomp": _each(
        operation=str, flags=flags, instructions=lambda text: number(fields(text)["len"])
    ),
    "setgroups": _each(_=None, groups=lambda text: [number(one) for one in split(text[1:-1])]),
    "setgid": _each(gid=number),
    "setuid": _each(uid=number),
    "sethostname": _each(name=string),
    "setdomainname": _each(name=string),
    "execve": _execve,
    "write": _each(_=None, data=string),
    "mkdir": _each(path=string),
    "rmdir": _each(path=string),
    **{name: partial(netlink.words, name) for name in netlink.TYPES.values()},
    "ioctl": _each(fd=number, request=str, name=lambda text: string(fields(text)["ifr_name"])),
}
"""Name of an event → how to read strace's arguments."""
_OTHER_NAMES = {
    "mkfifo": ("mknodat",), "setgid": ("setresgid",), "setuid": ("setresuid",),
    "execve": ("execve", "execveat"),
}  # fmt: skip
"""Name of an event → strace's names of the call, where these are others."""
