"""Where a path of an image leads to, by hand: for what an error says, and for links to nothing.

openat2(RESOLVE_IN_ROOT) keeps every look-up inside: at the root, ".." stays where it is. That is
safe, but quiet. nvidia-container-cli refuses such an image with "resolves outside of"; to say the
same, the links are walked through here by hand.
"""

from minirun.core.rootfs.inroot import Root

_MOST_LINKS = 40  # as the kernel has it: path_resolution(7)


def escapes(root: Root, path: str, targets: "dict[str, str] | None" = None) -> bool:
    """Return True if `path` passes above the root; an absolute link does not, it starts there.

    `targets` keeps what each path on the way points to, "" if it is no link: many files have the
    same folders, and nothing changes between two calls with the same dictionary.
    """
    return _walk(root, path, {} if targets is None else targets)[1]


def resolve(root: Root, path: str) -> str:
    """Return `path` without links, inside the root; what does not exist stays as it is."""
    return _walk(root, path, {})[0]


def _walk(root: Root, path: str, targets: "dict[str, str]") -> "tuple[str, bool]":
    """Return (the path without links, whether it passed above the root)."""
    above = False
    at: "list[str]" = []
    todo = _parts(path)
    links = 0
    while todo and links < _MOST_LINKS:
        part = todo.pop(0)
        if part == "..":
            above = above or not at
            del at[-1:]
            continue
        place = "/".join([*at, part])
        if place not in targets:
            targets[place] = root.link_target(place)
        target = targets[place]
        if not target:
            at.append(part)
            continue
        links += 1
        if target.startswith("/"):
            at = []
        todo = _parts(target) + todo
    return "/" + "/".join(at), above


def _parts(path: str) -> "list[str]":
    return [part for part in path.split("/") if part not in ("", ".")]
