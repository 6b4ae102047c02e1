"""A package is really installed, in an overlay over this machine's root: what else has changed?

The package brings a service, and its scripts do what debhelper's do: enable it, for systemd and for
SysV's init, and start it.
"""

import hashlib
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "packages"
NAME = "minirun-probe"
UNIT = f"/etc/systemd/system/{NAME}.service"
POLICY = "/usr/sbin/policy-rc.d"
SERVICE = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
INIT = f"""#!/bin/sh
### BEGIN INIT INFO
# Provides:          {NAME}
# Required-Start:    $local_fs
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:
### END INIT INFO
[ "$1" != start ] || touch /started
"""
POSTINST = f"""#!/bin/sh
set -e
touch /configured
deb-systemd-helper enable {NAME}.service >/dev/null || true
deb-systemd-invoke start {NAME}.service >/dev/null || true
update-rc.d {NAME} defaults >/dev/null
invoke-rc.d --skip-systemd-native {NAME} start || exit 1
[ ! -e /wait ] || sleep 30
"""
IN_OVERLAY = """
mount -t tmpfs tmpfs "$1"; mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
for each in dev proc sys; do mount --rbind /$each "$1/root/$each"; done
mount -t tmpfs tmpfs "$1/root/run"
mount --bind "$2" "$1/root/mnt"
exec chroot "$1/root" bash -euc "$3"
"""
SHOW = f"""
for path in /started /configured {UNIT} /etc/rc2.d/S*{NAME}; do
    [ ! -e $path ] && [ ! -L $path ] || echo $path $(readlink $path)
done
find /etc/systemd -name '{NAME}*' -path '*.wants*'
ls -A /var/cache/apt | grep minirun || true
"""
STATE = f"if [ -e {POLICY} ]; then stat -c %a {POLICY}; cat {POLICY}; else echo none; fi"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that apt reads packages from, and apt's settings for it."""
    place = tmp_path_factory.mktemp("source")
    tree = place / "tree"
    files = {
        f"lib/systemd/system/{NAME}.service": SERVICE,
        f"etc/init.d/{NAME}": INIT,
        "DEBIAN/postinst": POSTINST,
        "DEBIAN/control": f"Package: {NAME}\nVersion: 1\nArchitecture: all\nMaintainer: x\n"
        "Description: x\n",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
        (tree / name).chmod(0o755 if text.startswith("#!") else 0o644)
    deb = place / "probe.deb"
    subprocess.run(["dpkg-deb", "--build", tree, deb], check=True, capture_output=True)
    size, digest = deb.stat().st_size, hashlib.sha256(deb.read_bytes()).hexdigest()
    row = f"Filename: ./probe.deb\nSize: {size}\nSHA256: {digest}\n"
    (place / "Packages").write_text(files["DEBIAN/control"] + row)
    (place / "sources.list").write_text("deb [trusted=yes] file:/mnt ./\n")
    (place / "apt.conf").write_text(
        'Dir::Etc::SourceList "/mnt/sources.list";\nDir::Etc::SourceParts "-";\n'
        'Dir::State::Lists "/var/tmp";\nAPT::Sandbox::User "root";\n'
    )
    return place


def inside(source: Path, tmp_path: Path, script: str) -> str:
    """What a script prints in the overlay, where `packages` is the one below test."""
    begin = f"export APT_CONFIG=/mnt/apt.conf; packages='{SCRIPT} {NAME}'\n"
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", IN_OVERLAY, "sh"]
    argv += [str(tmp_path), str(source), begin + script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("before", ["true", f"rm -f {POLICY}", f"echo '# mine' >{POLICY}"])
def test_nothing_is_enabled_and_nothing_started(source: Path, tmp_path: Path, before: str) -> None:
    show = f"{before}; ({STATE}) >/a; $packages; ({STATE}) >/b; cmp /a /b; {SHOW}"
    assert inside(source, tmp_path, show).split() == ["/configured", UNIT, "/dev/null"]


def test_a_unit_that_was_there_is_left_as_it_was(source: Path, tmp_path: Path) -> None:
    show = f"echo '# mine' >{UNIT}; $packages; cat {UNIT}; {SHOW}"
    words = inside(source, tmp_path, show).split()
    assert words[:2] == ["#", "mine"]
    assert "/started" not in words


@pytest.mark.parametrize("signal", ["INT", "TERM", "KILL"])
def test_ended_in_the_middle(source: Path, tmp_path: Path, signal: str) -> None:
    """policy-rc.d is the machine's own at once; the next call ends what was begun."""
    script = f"""
touch /wait; ({STATE}) >/a
env --default-signal=INT setsid $packages >/dev/null 2>&1 & pid=$!
for i in $(seq 500); do [ -e /configured ] || sleep 0.1; done
kill -{signal} -- -$pid; wait $pid || true
if [ {signal} != KILL ]; then ({STATE}) >/b; cmp /a /b; fi
[ ! -x {POLICY} ] || {{ ({STATE}) >/b; cmp /a /b; }}
rm /wait; $packages; {SHOW}
"""
    words = inside(source, tmp_path, script).split()
    assert "/started" not in words
    assert UNIT in words
