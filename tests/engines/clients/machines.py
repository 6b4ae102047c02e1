"""Cells that are machines of one network: each has a name, an address, and knows the others."""

import subprocess

from engines.clients.cell import Cell

BRIDGE = """
ip link add switch type bridge
ip address add 10.98.0.1/24 dev switch
ip link set switch up
"""
END = """
ip address add {address}/24 dev eth0
ip link set eth0 up
"""


def connect(cells: dict[str, Cell]) -> dict[str, str]:
    """Join cells, by their host names, at a bridge in the first one; return their addresses."""
    addresses = {name: f"10.98.0.{number}" for number, name in enumerate(cells, 1)}
    rows = [f"{address} {name}\n" for name, address in addresses.items()]
    (_, bridge), *others = cells.items()
    for name, cell in cells.items():
        (cell.home / "hosts").write_text("127.0.0.1 localhost\n" + "".join(rows))
        script = f"hostname {name}; mount --bind {cell.home}/hosts /etc/hosts"
        cell.run("sh", "-ec", script, check=True)
    bridge.run("sh", "-ec", BRIDGE, check=True)
    for name, cell in others:
        here = ("nsenter", f"--net=/proc/{bridge.pid}/ns/net", "ip", "link")
        peer = ("type", "veth", "peer", "name", "eth0", "netns", str(cell.pid))
        subprocess.run([*here, "add", name, *peer], check=True)
        subprocess.run([*here, "set", name, "master", "switch", "up"], check=True)
        cell.run("sh", "-ec", END.format(address=addresses[name]), check=True)
    return addresses
