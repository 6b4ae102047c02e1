"""What config.json asks for, and the differences between that and what the kernel says.

A difference is no fault by itself: a command may change its user, and `--cap-add` may name what
minirun does not hold.
"""

from minirun.cgroups.reading import effective
from minirun.cgroups.rules import DeviceRule, container_rules
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.keeping import state
from minirun.faces.inspect.document import (
    Anatomy,
    ConfigFacts,
    ConfigSeccomp,
    LimitFacts,
    NamespaceFacts,
)
from minirun.faces.inspect.given import edits_of
from minirun.oci.seccomp import profile as seccomp


def wanted(container: Container) -> ConfigFacts:
    """Return what config.json asks for, under the same keys as what the kernel says."""
    config = container.config
    process = config.process
    resources = config.resources
    quota = (resources.get("cpu") or {}).get("quota")
    pids = (resources.get("pids") or {}).get("limit")
    period = (resources.get("cpu") or {}).get("period") or 100_000
    user = process.get("user") or {}
    return {
        "namespaces": {kind: path or "new" for kind, path in config.namespaces.items()},
        "user": {
            "uid": user.get("uid", 0),
            "gid": user.get("gid", 0),
            "groups": user.get("additionalGids") or [],
        },
        "capabilities": process.get("capabilities") or {},
        "noNewPrivileges": bool(process.get("noNewPrivileges")),
        "seccomp": _profile(container),
        "readonly": bool(config.raw["root"].get("readonly")),
        "layers": config.layers,
        "mounts": config.raw.get("mounts") or [],
        "deviceRules": [_as_text(rule) for rule in _rules(container)],
        "limits": {
            "memory": _limit((resources.get("memory") or {}).get("limit")),
            "pids": None if docker_record.of(container.record).pids_unlimited else _limit(pids),
            "cpus": quota / period if quota and quota > 0 else None,
            "cpuset": (resources.get("cpu") or {}).get("cpus"),
        },
    }


def _profile(container: Container) -> ConfigSeccomp | None:
    """Return what the profile of system calls is; None without one. Raises MinirunError."""
    profile = container.config.linux.get("seccomp")
    if not profile:
        return None
    name = docker_record.of(container.record).seccomp or seccomp.OF_BUNDLE
    filter = seccomp.load(profile, name)
    instructions = len(filter.bpf) // 8
    return {"profile": name, "allowed": filter.allowed, "instructions": instructions}


def _limit(value: int | None) -> int | None:
    return value if value and value > 0 else None


def _rules(container: Container) -> list[DeviceRule]:
    """config.json's rules, and those that stage 5 added."""
    rows = container.config.resources.get("devices") or []
    return effective([*container_rules(rows), *edits_of(container.record).device_rules()])


def _as_text(rule: DeviceRule) -> str:
    return str(rule) if rule.allow else f"deny {rule}"


def differences(found: Anatomy, rules: list[DeviceRule] | None) -> list[str]:
    """Return a sentence for each difference between config.json and the kernel."""
    asked = found["wanted"]
    sentences = _namespaces(asked["namespaces"], found["namespaces"])
    sentences += _rights(asked, found) + _limits(asked["limits"], found["limits"])
    if rules is not None:
        in_force = [_as_text(rule) for rule in effective(rules)]
        sentences += _device_rules(asked["deviceRules"], in_force)
    sentences += _cgroups(found)
    root = next((row for row in found["mounts"] if row["path"] == "/"), None)
    if root and asked["readonly"] != ("ro" in root["options"]):
        sentences.append(f"root.readonly: {asked['readonly']}; the kernel: {root['options'][0]}")
    return sentences


def _cgroups(found: Anatomy) -> list[str]:
    """Return a sentence for each hierarchy in which init is not in the cgroup made for it."""
    record, joined = found["cgroup"], found["memberOf"]
    if not record:
        return []
    by_name = {name: path for names, path in joined.items() for name in names.split(",")}
    return [
        f"cgroup {name}: {record['path']} was made for it; it is in {by_name.get(name)}"
        for name in record["dirs"]
        if by_name.get(name) != record["path"]
    ]


def _namespaces(asked: dict[str, str], found: dict[str, NamespaceFacts]) -> list[str]:
    sentences = []
    for kind, row in found.items():
        if asked.get(kind) == "new" and row["host"]:
            sentences.append(f"{kind} namespace: config.json asks for a new one; it is the host's")
        elif kind not in asked and not row["host"]:
            sentences.append(f"{kind} namespace: config.json asks for none; it has one of its own")
    return sentences


def _rights(asked: ConfigFacts, found: Anatomy) -> list[str]:
    sentences = []
    if user := found["user"]:
        # the kernel tells ids as this process's user namespace has them
        uid = _inside(user["uidMap"], user["uid"]["effective"])
        gid = _inside(user["gidMap"], user["gid"]["effective"])
        ids = asked["user"]
        for name, old, new in (("uid", ids["uid"], uid), ("gid", ids["gid"], gid)):
            if old != new:
                sentences.append(f"{name}: config.json says {old}, the kernel {new}")
    for name, held in found["capabilities"].items():
        sentences += _capabilities(name, set(held), set(asked["capabilities"].get(name) or []))
    if asked["noNewPrivileges"] != found["noNewPrivileges"]:
        is_set = "set" if found["noNewPrivileges"] else "not set"
        sentences.append(f"no_new_privs: is {is_set}, unlike in config.json")
    if asked["seccomp"] and found["seccomp"] and found["seccomp"]["mode"] != "filter":
        late = found["status"] == state.CREATED and asked["noNewPrivileges"]
        when = "it comes right before execve" if late else "there is none"
        sentences.append(f"seccomp: config.json asks for a filter; {when}")
    return sentences


def _capabilities(name: str, held: set[str], asked: set[str]) -> list[str]:
    """One set of capabilities; execve by a user that is not root empties it: capabilities(7)."""
    if asked and not held:
        return [f"{name} capabilities: none is left of config.json's {len(asked)}"]
    less, more = " ".join(sorted(asked - held)), " ".join(sorted(held - asked))
    parts = [f"without {less}"] * bool(less) + [f"with {more}"] * bool(more)
    return [f"{name} capabilities: config.json's, {' and '.join(parts)}"] if parts else []


def _inside(id_map: list[dict[str, int]], number: int) -> int:
    """Return the container's own id for an id out here."""
    for row in id_map:
        if row["hostID"] <= number < row["hostID"] + row["size"]:
            return number - row["hostID"] + row["containerID"]
    return number


def _limits(asked: LimitFacts, found: LimitFacts) -> list[str]:
    return [
        f"limit of {name}: config.json says {limit}, the kernel {found.get(name)}"
        for name, limit in asked.items()
        if found and limit is not None and limit != found.get(name)
    ]


def _device_rules(asked: list[str], found: list[str]) -> list[str]:
    more = [f"{rule}: in the kernel, not in config.json" for rule in found if rule not in asked]
    less = [f"{rule}: in config.json, not in the kernel" for rule in asked if rule not in found]
    return [f"device rule {text}" for text in (*more, *less)]
