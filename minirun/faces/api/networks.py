"""Networks as objects that show themselves: what `minirun network inspect` draws, at one moment.

The kernel is asked by minirun in a process of its own, which enters the containers' namespaces.
"""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

from minirun.common import docker_record
from minirun.core.errors import MinirunError, StateError
from minirun.core.lazy import lazy
from minirun.faces.api.child import Location
from minirun.faces.api.table import Shown
from minirun.faces.show.log.event_row import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.api.container import ContainerHandle

with lazy:
    from minirun.common import naming
    from minirun.core.keeping import state
    from minirun.net import network as networks  # which needs Unix

_SVG = "http://www.w3.org/2000/svg"


class NetworkView(Shown):
    """Networks as the kernel had them: as a picture in a notebook, as text at a prompt."""

    def __init__(self, text: str, svg: str) -> None:
        self.text = text
        """The picture as text, as `network inspect --picture` prints it."""
        self.svg = svg
        """The same as an SVG file, light and dark."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Return the picture in the colours of the notebook around it, and the same as text."""
        lines = "\n".join(escape(clean(line)) for line in self.text.splitlines())
        return (
            '<figure style="margin: 0.5em 0; color: inherit"><div style="overflow-x: auto">'
            f'{_inline(self.svg)}</div><details><summary style="cursor: pointer">The same as text'
            f'</summary><pre style="font-size: 90%; overflow-x: auto">{lines}</pre></details>'
            "</figure>"
        )


def _inline(svg: str) -> str:
    """Return an SVG file as a part of a page: without colours, or an id of its own."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    for name in ("title", "style"):
        for child in root.findall(f"{{{_SVG}}}{name}"):
            root.remove(child)
            if name == "title":
                root.set("aria-label", child.text or "")
    root.attrib.pop("aria-labelledby", None)
    return ElementTree.tostring(root, encoding="unicode")


def network(of: str | ContainerHandle | None = None) -> NetworkView:
    """Return a network as the kernel has it now, those of a container, or all. It needs root.

    `of`: a network's name, a container or its id. Raises MinirunError if there is no such network,
    StateError if there is no such container, or if it has no network of minirun's.
    """
    place = Location.usual() if of is None or isinstance(of, str) else of.place
    names: list[str] = []
    if isinstance(of, str) and of in networks.names(place.store):
        names = [of]
    elif of is not None:
        names = _of_container(place, of if isinstance(of, str) else of.id)
    return NetworkView(_drawn(place, "--picture", names), _drawn(place, "--svg", names))


def _of_container(place: Location, container_id: str) -> list[str]:
    """Return the names of a container's networks. Raises StateError."""
    record = naming.record_of(place.root, container_id)
    names = [each.network for each in docker_record.of(record).attachments]
    if not names:
        name = state.name_of(record.directory)
        raise StateError(f"container {name} has no network of minirun's")
    return names


def _drawn(place: Location, how: str, names: list[str]) -> str:
    done = place.call("network", "inspect", how, *names)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2].removeprefix("minirun: ")
        raise MinirunError(said, status=done.returncode)
    return done.stdout.rstrip("\n")
