"""What a container's network costs, beside docker's and podman's, the commands taking turns.

    run --rm of /bin/true: without a network, on the bridge, with a published port
    run -d -p, until a server in the container answers the host; rm -f of it
    pyroute2's import, and what of the network is there before init is ready
    throughput from a container to the host, through the bridge

All in one network namespace, without a way out: dockerd's bridge, podman's and minirun's are each
there. Times are medians; a ratio below 1 says that minirun is faster.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import run as bench  # this folder's

from engines.clients.engine import IMAGE, Docker, Engine, Podman
from minirun.common import naming
from minirun.faces.show.log import recording
from minirun.fast import launcher

WAYS = {
    "--network none": ("--network=none",),
    "bridge": (),
    "bridge, one port": ("-p", "8080:80"),
}
SEND = """
import socket, sys, time
data, sent, s = bytes(1 << 20), 0, socket.create_connection((sys.argv[1], int(sys.argv[2])))
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end: s.sendall(data); sent += 1
print(sent / float(sys.argv[3]))
"""
TAKE = """
import socket
s = socket.create_server(("0.0.0.0", 9000)); print(1, flush=True)
while True:
    c = s.accept()[0]
    while c.recv(1 << 20): pass
"""
ANSWER = """
import json, socket, subprocess, sys, time
def timed(words):
    begin = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return begin
start, remove = map(json.loads, sys.argv[1:])
begin, answer = timed(start), b""
while not answer:
    try:
        with socket.create_connection(("127.0.0.1", 8090), 1) as s:
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            answer = s.recv(1)
    except OSError:
        time.sleep(0.001)
answered = time.monotonic()
removal = timed(remove)
print(answered - begin, time.monotonic() - removal)
"""


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "minirun"
        launcher.install(str(path))
        engines: list[Engine] = []
        for kind in (Docker, Podman):
            try:
                engines.append(kind("runc", str(path)))
            except pytest.skip.Exception as reason:
                print(f"{kind.__name__.lower()}: not measured: {reason}")
        try:
            for engine in engines:
                _beside(engine, str(path), args.runs, args.seconds)
        finally:
            for engine in engines:
                engine.close()
    return 0


def _beside(engine: Engine, path: str, runs: int, seconds: float) -> None:
    """Compare with one engine, in its cell."""
    peer = type(engine).__name__.lower()
    ours = (path, "--root", f"{engine.home}/m", "--store", bench.STORE)
    ours = ("env", "-u", "MINIRUN_NETWORK", *ours)
    theirs = ("env", *(f"{k}={v}" for k, v in engine.env.items()), *engine.client)
    for what, flags in WAYS.items():
        words = {
            "minirun": (*ours, "run", "--rm", "-q", *flags, "busybox", "true"),
            peer: (*theirs, "run", "--rm", *flags, IMAGE, "true"),
        }
        commands = {name: " ".join(engine.cell.argv(*each)) for name, each in words.items()}
        found = bench.medians(commands, runs, engine.home)
        mine, its = (found[name] * 1000 for name in ("minirun", peer))
        label = f"run --rm, {what}"
        print(f"{label:<26} minirun {mine:7.1f} ms   {peer} {its:7.1f} ms   {mine / its:.2f}")
    _answers(engine, {"minirun": ours, peer: theirs}, runs)
    _imports(engine, ours)
    _throughput(engine, ours, peer, seconds)


def _answers(engine: Engine, programs: dict[str, tuple[str, ...]], runs: int) -> None:
    """Print the time from `run -d -p` to the first answer, and that of `rm -f`, in random turns."""
    server = ("httpd", "-f", "-p", "80")
    found: dict[str, list[list[float]]] = {name: [] for name in programs}
    turns = [*programs] * runs
    random.shuffle(turns)
    for name in turns:
        flags = ("-d", "--name", "answers", "-p", "8090:80")
        image = ("-q", "busybox") if name == "minirun" else (IMAGE,)
        start = json.dumps([*programs[name], "run", *flags, *image, *server])
        at_once = ("--time", "0") if name == "podman" else ()  # it would wait 10 s for a SIGTERM
        remove = json.dumps([*programs[name], "rm", "-f", *at_once, "answers"])
        said = engine.cell.run(sys.executable, "-c", ANSWER, start, remove, check=True).stdout
        found[name].append([float(word) * 1000 for word in said.split()])
    peer = [*programs][1]
    for column, label in enumerate(("run -d -p, first answer", "rm -f of it")):
        mine, its = (statistics.median(row[column] for row in rows) for rows in found.values())
        print(f"{label:<26} minirun {mine:7.1f} ms   {peer} {its:7.1f} ms   {mine / its:.2f}")


def _imports(engine: Engine, ours: tuple[str, ...]) -> None:
    """Print how long pyroute2's import takes, and what of a run's network init has to wait for."""
    code = "import time; t = time.monotonic(); import pyroute2; print(time.monotonic() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(5)
    ]
    engine.cell.run(*ours, "run", "-d", "-q", "--name", "timed", "busybox", "true", check=True)
    events = recording.read(
        engine.home / "m" / naming.id_of(f"{engine.home}/m", "timed") / "events.jsonl"
    )[0].events
    engine.cell.run(*ours, "rm", "-f", "timed", check=True)
    clone = next(each.t for each in events if each.name.startswith("clone"))
    requests = [each.t for each in events if each.kind == "netlink"]
    named = {"first request": requests[0], "last": requests[-1]}
    named["init is ready"] = next(each.t for each in events if each.name == "READY")
    said = ", ".join(f"{what} {(at - clone) / 1e6:.0f} ms" for what, at in named.items())
    print(f"{'pyroute2, imported alone':<26} {statistics.median(times) * 1000:7.1f} ms")
    print(f"{'in a run, after clone':<26} {said}")


def _throughput(engine: Engine, ours: tuple[str, ...], peer: str, seconds: float) -> None:
    """Send from a container of each to a server of the host, in turns; print MB/s."""
    run, cell = ("run", "-d", "--name", "sender"), engine.cell
    cell.run(*ours, *run, "-q", "busybox", "sleep", "300", check=True)
    engine(*run, IMAGE, "sleep", "300")
    pids = {
        "minirun": json.loads(cell.run(*ours, "state", "sender").stdout)["pid"],
        peer: int(engine("inspect", "--format", "{{.State.Pid}}", "sender")),
    }
    taker = cell.start(sys.executable, "-u", "-c", TAKE, log="taker")
    cell.wait_for(lambda: "1" in (engine.home / "taker").read_text(), "taker")
    speeds: dict[str, list[float]] = {name: [] for name in pids}
    for _ in range(5):
        for name, pid in pids.items():
            inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
            route = cell.run(*inside, "ip", "route").stdout
            gateway = route.split("default via ")[1].split()[0]
            words = (sys.executable, "-c", SEND, gateway, "9000", str(seconds))
            speeds[name].append(float(cell.run(*inside, *words, check=True).stdout))
    taker.terminate()
    cell.run(*ours, "rm", "-f", "sender", check=True)
    engine("rm", "-f", "sender")
    mine, its = (statistics.median(speeds[name]) for name in ("minirun", peer))
    label = "container → host, MB/s"
    print(f"{label:<26} minirun {mine:7.0f}      {peer} {its:7.0f}      {its / mine:.2f}")


if __name__ == "__main__":
    sys.exit(main())
