"""Hostile containers: what runs in them spoils its own root filesystem, and is then looked at."""

from pathlib import Path

from fuzz import containers
from fuzz.cage import Cage, Outcome, remove, small_root
from fuzz.configurations import Case

SCRIPTS = {
    "passwd is a link": "rm /etc/passwd; ln -s DECOY/etc/passwd /etc/passwd",
    "passwd is a FIFO": "rm /etc/passwd; mkfifo /etc/passwd",
    "passwd is endless": "rm /etc/passwd; ln -s /dev/zero /etc/passwd",
    "passwd is a terminal": "rm /etc/passwd; ln -s /dev/tty /etc/passwd",
    "passwd is a huge file": "dd if=/dev/zero of=/etc/passwd bs=1 count=0 seek=10G 2>/dev/null",
    "passwd comes and goes": "(while :; do rm -f /etc/passwd; mkfifo /etc/passwd;"
    " rm -f /etc/passwd; ln -s /dev/zero /etc/passwd; done) &",
    "etc is a link": "mv /etc /e; ln -s /proc/1/root /etc",
    "the shell is the runtime": "rm /bin/true /bin/id; ln -s /proc/self/exe /bin/true;"
    " ln -s /proc/1/exe /bin/id",
    "the shell is a script": "rm /bin/true; echo '#!/proc/self/exe' >/bin/true;"
    " chmod 755 /bin/true",
    "the shell is a FIFO": "rm /bin/true; mkfifo /bin/true",
    "there is no shell": "rm -r /bin",
    "work is a link": "ln -s /proc/self/fd /work; ln -s /proc/self/fd/5 /srv",
    "names with escapes": "cp /bin/busybox \"$(printf '/bin/\\033[2J\\nsleep')\"; cd /bin;"
    " \"$(printf './\\033[2J\\nsleep')\" 30 & :",
    "arguments with escapes": "sleep 30 \"$(printf '\\033]0;x\\007\\n\\r')\" & :",
    "bytes in the log": "printf '\\033[2J\\377\\000\\r\\n'; printf 'x\\n\\n\\n'",
    "much in the log": "dd if=/dev/zero bs=1M count=40 2>/dev/null",
    "many processes": "for n in $(seq 45); do sleep 30 & done",
    "memory": "dd if=/dev/zero of=/tmp/x bs=1M count=40 2>/dev/null",
    "init is deaf": "trap '' TERM INT HUP QUIT USR1 USR2; sleep 30 & wait",
    "init has no streams": "exec </dev/null >/dev/null 2>&1",
    "working directory is gone": "mkdir /gone; cd /gone; rmdir /gone",
    "deep folders": "cd /tmp; n=0; while [ $n -lt 1500 ]; do mkdir d; cd d; n=$((n+1)); done",
    "a folder full of links": "n=0; while [ $n -lt 500 ]; do ln -s DECOY /tmp/$n; n=$((n+1)); done",
    "files without rights": "mkdir /tmp/x; >/tmp/x/y; chmod 0 /tmp/x; chmod 0 /; chown 7:7 /",
    "it has ended": "exit 3",
    "it is killed": "kill -9 $$",
}  # fmt: skip
COMMANDS = (
    ("exec", "c", "true"), ("exec", "-u", "ann", "c", "id"),
    ("exec", "-w", "/work", "c", "/bin/id"),
    ("exec", "-w", "/srv/x", "c", "/bin/id"), ("exec", "-e", "PATH=/srv:/bin", "c", "true"),
    ("ps", "c"), ("ps", "-a"), ("inspect", "c"), ("inspect", "--json", "c"), ("logs", "c"),
    ("state", "c"), ("list",), ("update", "--pids-limit", "60", "c"),
    ("pause", "c"), ("resume", "c"),
    ("events", "--stats", "c"), ("timeline", "c"), ("kill", "c", "TERM"),
)  # fmt: skip


def run(cage: Cage, name: str) -> Case:
    """Start the container of one script, call each command on it, and delete it."""
    folder = cage.folder / "store"
    small_root(containers.store(cage))
    script = SCRIPTS[name].replace("DECOY", str(cage.decoy.path))
    limits = ("--pids-limit", "50", "-m", "64m")
    cage.run("--store", str(folder), "run", "-d", "--name", "c", *limits, "evil", "/bin/sh", "-c",
             f"{script}\n while :; do sleep 1; done")  # fmt: skip
    faults: list[str] = []
    outcome = Outcome(0, "", "", 0.0, 0)
    for words in COMMANDS:
        outcome = cage.run(*words)
        faults += [f"{' '.join(words)}: {fault}" for fault in _of_command(cage, outcome, words[0])]
    outcome = cage.run("delete", "--force", "c", seconds=60)  # a busy disk frees blocks slowly
    faults += [f"delete: {fault}" for fault in cage.faults(outcome)]
    faults += _left(cage.folder / "state")
    remove(folder)
    return Case(name, outcome, faults)


def _of_command(cage: Cage, outcome: Outcome, word: str) -> list[str]:
    """What was wrong with a command on a container that goes on living."""
    if word in ("exec", "logs"):  # then both streams may be the container's own
        outcome = outcome._replace(stderr="") if outcome.status in (0, 1) else outcome
    found = [*cage.manners(outcome), *cage.harm()]
    if word not in ("exec", "logs") and any(
        ord(s) < 32 and s not in "\n\t" for s in outcome.stdout
    ):
        found.append("control characters on stdout")
    return found


def _left(state: Path) -> list[str]:
    return [f"left: {path.name}" for path in state.iterdir() if path.name[0] != "."]
