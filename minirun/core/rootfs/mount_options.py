"""Mount options: the words of fstab, and what they are in the three languages of the kernel.

A word is a flag of mount(2), a kind of propagation, a property that mount_setattr(2) sets on the
whole tree (the words that begin with r), one of the runtime's own (idmap, ridmap, tmpcopyup), or it
belongs to the file system and is passed on as data.
Source: runtime-spec, config.md, "Linux mount options".
"""

from __future__ import annotations

from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts as m

FLAGS: dict[str, tuple[int, int]] = {  # word: (flags to set, flags to clear)
    "defaults": (0, 0), "async": (0, m.MS_SYNCHRONOUS), "atime": (0, m.MS_NOATIME),
    "dev": (0, m.MS_NODEV), "diratime": (0, m.MS_NODIRATIME), "dirsync": (m.MS_DIRSYNC, 0),
    "exec": (0, m.MS_NOEXEC), "iversion": (m.MS_I_VERSION, 0), "lazytime": (m.MS_LAZYTIME, 0),
    "loud": (0, m.MS_SILENT), "mand": (m.MS_MANDLOCK, 0), "noatime": (m.MS_NOATIME, 0),
    "nodev": (m.MS_NODEV, 0), "nodiratime": (m.MS_NODIRATIME, 0), "noexec": (m.MS_NOEXEC, 0),
    "noiversion": (0, m.MS_I_VERSION), "nolazytime": (0, m.MS_LAZYTIME),
    "nomand": (0, m.MS_MANDLOCK), "norelatime": (0, m.MS_RELATIME),
    "nostrictatime": (0, m.MS_STRICTATIME), "nosuid": (m.MS_NOSUID, 0),
    "nosymfollow": (m.MS_NOSYMFOLLOW, 0), "relatime": (m.MS_RELATIME, 0),
    "remount": (m.MS_REMOUNT, 0), "ro": (m.MS_RDONLY, 0), "rw": (0, m.MS_RDONLY),
    "silent": (m.MS_SILENT, 0), "strictatime": (m.MS_STRICTATIME, 0), "suid": (0, m.MS_NOSUID),
    "symfollow": (0, m.MS_NOSYMFOLLOW), "sync": (m.MS_SYNCHRONOUS, 0),
    "bind": (m.MS_BIND, 0), "rbind": (m.MS_BIND | m.MS_REC, 0),
}  # fmt: skip
PROPAGATION = {
    "private": m.MS_PRIVATE, "rprivate": m.MS_PRIVATE | m.MS_REC, "slave": m.MS_SLAVE,
    "rslave": m.MS_SLAVE | m.MS_REC, "shared": m.MS_SHARED, "rshared": m.MS_SHARED | m.MS_REC,
    "unbindable": m.MS_UNBINDABLE, "runbindable": m.MS_UNBINDABLE | m.MS_REC,
}  # fmt: skip
ATTRIBUTES: dict[str, tuple[int, int]] = {  # word without its r: (set, clear)
    "ro": (m.MOUNT_ATTR_RDONLY, 0), "rw": (0, m.MOUNT_ATTR_RDONLY),
    "nosuid": (m.MOUNT_ATTR_NOSUID, 0), "suid": (0, m.MOUNT_ATTR_NOSUID),
    "nodev": (m.MOUNT_ATTR_NODEV, 0), "dev": (0, m.MOUNT_ATTR_NODEV),
    "noexec": (m.MOUNT_ATTR_NOEXEC, 0), "exec": (0, m.MOUNT_ATTR_NOEXEC),
    "noatime": (m.MOUNT_ATTR_NOATIME, m.MOUNT_ATTR__ATIME), "atime": (0, m.MOUNT_ATTR__ATIME),
    "strictatime": (m.MOUNT_ATTR_STRICTATIME, m.MOUNT_ATTR__ATIME),
    "relatime": (m.MOUNT_ATTR_RELATIME, m.MOUNT_ATTR__ATIME),
    "nodiratime": (m.MOUNT_ATTR_NODIRATIME, 0), "diratime": (0, m.MOUNT_ATTR_NODIRATIME),
    "nosymfollow": (m.MOUNT_ATTR_NOSYMFOLLOW, 0), "symfollow": (0, m.MOUNT_ATTR_NOSYMFOLLOW),
    "norelatime": (0, 0), "nostrictatime": (0, m.MOUNT_ATTR__ATIME),
}  # fmt: skip
ID_MAPS = ("idmap", "ridmap")
COPY_UP = "tmpcopyup"
"""minirun.oci.mounts.sources.MountSources does it."""


_OF_ACCESS = (
    m.MOUNT_ATTR_RDONLY | m.MOUNT_ATTR_NOSUID | m.MOUNT_ATTR_NODEV | m.MOUNT_ATTR_NOEXEC
    | m.MOUNT_ATTR_NOSYMFOLLOW
)  # fmt: skip
_NO_PROPERTY = m.MS_BIND | m.MS_REC | m.MS_REMOUNT
_OF_TIMES = m.MS_NOATIME | m.MS_NODIRATIME | m.MS_RELATIME | m.MS_STRICTATIME


class MountOptions(Record):
    """What a list of option words means. `set` and `clear` are MOUNT_ATTR_* for this mount alone;
    `set_all` and `clear_all`, those of the words that begin with r, for the tree below it too.
    """

    flags: int
    propagation: tuple[int, ...]
    """Kinds of propagation, in the order in which they are to be set."""
    set: int
    clear: int
    set_all: int
    clear_all: int
    id_map: str
    """idmap, ridmap, or empty."""
    data: str
    is_named: bool
    """A word says something of a property, if only that a bind mount is not to have it."""

    def of_bind(self, *, locked: bool) -> tuple[int, int]:
        """Return the MOUNT_ATTR_* that a bind mount gets, and those that it loses.

        As with mount(8) and runc a list that has words for properties, and no `ro`, means rw: so
        `bind,nosuid` of a read-only mount can be written to. Access times change by a word that
        sets them alone. Unlike runc's, nosuid, nodev and noexec go by their own words alone.
        `locked`: what no word takes away stays, since in a user namespace it may not be taken
        away: mount_namespaces(7).
        """
        if not self.is_named:
            return 0, 0
        on = self.set & _OF_ACCESS
        implied = m.MOUNT_ATTR_NOSYMFOLLOW | (0 if locked else m.MOUNT_ATTR_RDONLY)
        off = (self.clear & _OF_ACCESS | implied) & ~on
        if self.flags & _OF_TIMES:
            off |= m.MOUNT_ATTR__ATIME | m.MOUNT_ATTR_NODIRATIME
            on |= m.MOUNT_ATTR_NODIRATIME if self.flags & m.MS_NODIRATIME else 0
            if self.flags & m.MS_STRICTATIME:
                on |= m.MOUNT_ATTR_STRICTATIME
            elif self.flags & m.MS_NOATIME:
                on |= m.MOUNT_ATTR_NOATIME
        return on, off


def parse(words: list[str]) -> MountOptions:
    """Return what `words` mean; later words win over earlier ones."""
    flags, is_named = 0, False
    id_map = ""
    top, tree = (0, 0), (0, 0)
    propagation, data = [], []
    for word in words:
        if word in FLAGS:
            on, off = FLAGS[word]
            flags = (flags | on) & ~off
            is_named = is_named or bool((on | off) & ~_NO_PROPERTY)
            top = _change(top, ATTRIBUTES.get(word, (0, 0)))
        elif word in PROPAGATION:
            propagation.append(PROPAGATION[word])
        elif word[:1] == "r" and word[1:] in ATTRIBUTES:
            tree = _change(tree, ATTRIBUTES[word[1:]])
        elif word in ID_MAPS:
            id_map = word
        elif word != COPY_UP:
            data.append(word)
    return MountOptions(flags, tuple(propagation), *top, *tree, id_map, ",".join(data), is_named)


def _change(so_far: tuple[int, int], word: tuple[int, int]) -> tuple[int, int]:
    """Return (bits that are set, bits that are cleared) after one more word."""
    (on, off), (more, less) = so_far, word
    return on & ~less | more, off & ~more | less
