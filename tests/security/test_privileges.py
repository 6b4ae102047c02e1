"""Part B of the list: what the container's processes may do, and what of the host shows inside."""

import json
import os
import pty
import subprocess
import termios
import threading
from pathlib import Path

import pytest

from conftest import STORE, Program, skip, wait_until
from security.conftest import NAME, Evil


def status_of(text: str) -> dict[str, str]:
    """Return the lines of /proc/PID/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


DOCKERS = 0xA80425FB
"""docker's fourteen capabilities."""


def test_cve_2022_29162_inheritable_capabilities_are_empty(minirun: Program) -> None:
    """Also CVE-2022-27649 to 27652 and CVE-2022-24769; for exec and for another user too."""
    command = ("cat", "/proc/self/status")
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    for argv in (
        ("run", "--rm", "busybox", *command),
        ("run", "--rm", "-u", "1000", "busybox", *command),
        ("run", "--rm", "--cap-add", "ALL", "busybox", *command),
        ("exec", NAME, *command),
        ("exec", "-u", "1000", NAME, *command),
    ):
        found = status_of(minirun(*argv).stdout)
        assert int(found["CapInh"], 16) == int(found["CapAmb"], 16) == 0
        if "ALL" not in argv:
            assert int(found["CapBnd"], 16) == DOCKERS
        if "1000" in argv:
            assert int(found["CapPrm"], 16) == int(found["CapEff"], 16) == 0


def _many_groups() -> None:
    os.setgroups([4, 10, 27, 998])


def test_cve_2022_36109_groups_of_the_caller(minirun: Program) -> None:
    """Also CVE-2023-25173 and CVE-2022-2995."""
    minirun("run", "-d", "--name", NAME, "busybox", "sleep", "100", preexec_fn=_many_groups)
    for argv in (
        ("run", "--rm", "busybox"),
        ("run", "--rm", "-u", "33:33", "busybox"),
        ("exec", NAME),
        ("exec", "-u", "33:33", NAME),
    ):
        done = minirun(*argv, "grep", "Groups", "/proc/self/status", preexec_fn=_many_groups)
        own = "33" if "-u" in argv else "0"
        assert done.stdout.split() == ["Groups:", own], (argv, done)


@pytest.mark.parametrize(
    "user",
    ["1_0", " 1", "+1", "-1", "0x0", "\u0661", "4294967295", "4294967296", "18446744073709551616",
     "1.0", "1e3", "1:", "1:4294967296", ":", "0\n0", "root ", "9" * 5000],
)  # fmt: skip
def test_cve_2026_30892_users_that_are_no_users(minirun: Program, user: str) -> None:
    """Also CVE-2024-40635, CVE-2026-46680, CVE-2016-3697: none of them becomes root."""
    done = minirun("run", "--rm", "-u", user, "busybox", "id", "-u")
    if done.returncode == 0:
        assert (user, done.stdout) in (("1:", "1\n"), (":", "0\n")), done
    else:
        assert done.returncode == 125
        assert done.stderr.count("\n") == 1


def test_cve_2017_5226_keys_for_the_callers_terminal(minirun: Program) -> None:
    """TIOCSTI: also CVE-2016-2568. The container's session has no terminal of the caller's."""
    if not list(Path(STORE, "images").glob("debian*")):
        skip("no debian image: busybox cannot call ioctl")
    perl = "ioctl(STDIN, 0x5412, $_) or print qq(refused: $!\\n) for split(//, qq(id\\n))"
    argv = minirun.argv("run", "-i", "--rm", "debian", "perl", "-e", perl)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    said = b""
    reader = threading.Timer(20, os.kill, (pid, 9))
    reader.start()
    try:
        while chunk := os.read(terminal, 1000):
            said += chunk
    except OSError:  # EIO: nobody has the terminal open any more
        pass
    reader.cancel()
    os.waitpid(pid, 0)
    assert said.count(b"refused: ") == 3, said
    assert b"id\r\n" not in said


def test_cve_2017_5226_the_session_is_new(minirun: Program) -> None:
    master, slave = pty.openpty()
    command = ("busybox", "awk", "{print $6, $7}", "/proc/self/stat")
    for flags in (("-i",), ()):
        done = subprocess.run(
            minirun.argv("run", "--rm", *flags, *command),
            stdin=slave, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "1 0\n"  # session 1, no terminal
    assert termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)


ESCAPES = """
mkdir /sys/fs/cgroup/evil && echo MADE
for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
  mkdir $d/evil && echo MADE $d
  for f in release_agent notify_on_release devices.allow cgroup.procs tasks cgroup.subtree_control
  do [ -e $d/$f ] && echo 1 >$d/$f && echo WROTE $d/$f; done
done
mount -o remount,rw /sys/fs/cgroup && echo MOUNTED
mkdir /tmp/x; mount -t cgroup -o devices x /tmp/x && echo MOUNTED
mount -t cgroup2 x /tmp/x && echo MOUNTED
cat /proc/self/cgroup
exit 0
"""


def test_cve_2022_0492_the_cgroups_are_read_only(minirun_both: Program) -> None:
    """Also CVE-2023-25809."""
    done = minirun_both("run", "--rm", "--name", NAME, "busybox", "sh", "-c", ESCAPES)
    for word in ("MADE", "WROTE", "MOUNTED"):
        assert word not in done.stdout, done.stdout
    lines = done.stdout.splitlines()
    assert lines
    version = "0::/" if "v2" in minirun_both.flags else ":devices:/"
    assert any(line.endswith(version) for line in lines), lines


CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@pytest.mark.parametrize(
    "key",
    ["kernel.core_pattern", "kernel/core_pattern", "kernel.shm_rmid_forced=1+kernel.core_pattern",
     "net/../kernel/core_pattern", "net.ipv4/../../kernel/core_pattern", "net..kernel.core_pattern",
     "net/ipv4//../../kernel/core_pattern", "../core_pattern", "net.", "", "vm.overcommit_memory",
     "kernel.msg/../core_pattern", "kernel.sem/../core_pattern", "kernel.hostname/../core_pattern"],
)  # fmt: skip
def test_cve_2022_0811_sysctls_of_the_host(evil: Evil, key: str) -> None:
    """Also CVE-2024-3154."""
    before = CORE_PATTERN.read_text()
    evil.config["linux"]["sysctl"] = {key: "|/evil"}
    assert "linux.sysctl" in evil.refused()
    assert CORE_PATTERN.read_text() == before


BAD_IDS = ("/", "..", ".", "a b", "@", "../x", "x/../../y", "", "/etc", "a\nb", "ä", ".hidden")


@pytest.mark.parametrize(
    "words",
    [("create", "{}"), ("start", "{}"), ("state", "{}"), ("kill", "{}", "KILL"), ("delete", "{}"),
     ("delete", "--force", "{}"), ("exec", "{}", "true"), ("ps", "{}"), ("logs", "{}"),
     ("inspect", "{}"), ("inspect", "--text", "{}"), ("run", "--name", "{}", "busybox", "true"),
     ("run", "-d", "--name", "{}", "busybox", "true"), ("run", "--bundle", "BUNDLE", "{}")],
    ids=lambda words: " ".join(words[:-1]),
)  # fmt: skip
def test_ids_that_are_paths(evil: Evil, words: tuple[str, ...]) -> None:
    """crun before 1.20, CVE-2025-24965: an id that is a path leads out of the state root."""
    victim = evil.minirun.root.parent / "victim"
    victim.mkdir()
    (victim / "state.json").write_text("{}")
    evil.minirun.root.mkdir(exist_ok=True)
    bundle = str(evil.save())
    places = {victim.parent, evil.layer.parent}
    before = {path for place in places for path in place.iterdir()}
    for bad in (*BAD_IDS, "../victim", str(victim)):
        argv = [bad if word == "{}" else bundle if word == "BUNDLE" else word for word in words]
        done = evil.minirun(*argv, cwd=bundle)
        if bad == "" and words[:2] in (("run", "--name"), ("run", "-d")):
            continue  # docker's: no name is a made-up one
        assert done.returncode != 0, argv
        assert done.stderr.count("\n") == 1, (argv, done.stderr)
        assert "Traceback" not in done.stderr
    assert [path.name for path in victim.iterdir()] == ["state.json"]
    assert {path for place in places for path in place.iterdir()} == before


NODES = """
mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem && echo READ mem
mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk && echo READ disk
mknod /tmp/console c 5 1 && (: >/tmp/console) && echo OPENED console
mknod /tmp/loop c 10 237 && (: <>/tmp/loop) && echo OPENED loop
mknod /tmp/gpu c 195 2 && (: <>/tmp/gpu) && echo OPENED gpu
mknod /tmp/zero c 1 5 && head -c 1 /tmp/zero | wc -c
exit 0
"""


def test_device_rules_hold_for_nodes_made_inside(minirun_both: Program) -> None:
    """For the command, with all capabilities, and for what `exec` brings in."""
    minirun_both("run", "-d", "--name", NAME, "busybox", "sleep", "100")
    for argv in (
        ("run", "--rm", "busybox"),
        ("run", "--rm", "--cap-add", "ALL", "busybox"),
        ("exec", NAME),
    ):
        done = minirun_both(*argv, "sh", "-c", NODES)
        assert done.stdout == "1\n", (argv, done)
        assert done.stderr.count("Operation not permitted") == 5, done


def test_exec_is_under_the_same_filter(evil: Evil) -> None:
    """seccomp and no_new_privs hold for exec, which once came without."""
    evil.config["process"] |= {"noNewPrivileges": True, "args": ["sleep", "100"]}
    evil.config["linux"]["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 77}],
    }
    with open(os.devnull, "w") as null:
        argv = evil.minirun.argv("run", "-d", "--bundle", str(evil.save()), NAME)
        subprocess.run(argv, check=True, stdin=null, stdout=null, stderr=null)
    done = evil.minirun("exec", NAME, "sh", "-c", "mkdir /x; cat /proc/self/status")
    found = status_of(done.stdout)
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert "mkdir: can't create directory '/x'" in done.stderr


def test_cve_2025_23266_hooks_get_their_own_environment(evil: Evil, tmp_path: Path) -> None:
    """The container's LD_PRELOAD, found in the image, would run as root on the host."""
    out = tmp_path / "out"
    script = f"(env; pwd; cat /proc/self/environ | tr '\\0' '\\n') >{out}"
    evil.config["process"]["env"] += ["LD_PRELOAD=./evil.so", "BASH_ENV=./evil.sh", "PYTHONPATH=."]
    for kind in ("prestart", "createRuntime", "createContainer", "poststart", "poststop"):
        hook = {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["ONLY=this"]}
        evil.config["hooks"] = {kind: [hook]}
        done = evil.run("true", env={"LD_LIBRARY_PATH": "/nosuch", "CALLERS": "secret"})
        assert done.returncode == 0, done
        lines = out.read_text().splitlines()
        assert "ONLY=this" in lines
        cwd = evil.layer if kind == "createContainer" else evil.layer.parent  # runc's
        assert str(cwd) in lines
        assert {line.partition("=")[0] for line in lines if "=" in line} <= {"ONLY", "PWD"}
        out.unlink()


def test_mounts_do_not_spread_to_the_host(minirun: Program, tmp_path: Path) -> None:
    """Even where everything is shared, as systemd has it."""
    argv = minirun.argv("run", "--name", NAME, "-v", f"{tmp_path}:/data", "busybox", "sleep", "100")
    shared = 'mount --make-rshared / && cat /proc/self/mountinfo >"$0" && exec "$@"'
    outer = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", shared, str(tmp_path / "before"), *argv],
        env=os.environ | {"MINIRUN_GATES": "7:begin"},
    )
    try:
        wait_until(lambda: '"kind":"gate"' in minirun.log(NAME))
        before = (tmp_path / "before").read_text()
        assert Path(f"/proc/{outer.pid}/mountinfo").read_text() == before
        init = json.loads((minirun.directory(NAME) / "state.json").read_text())["init"]["pid"]
        assert str(minirun.root) in Path(f"/proc/{init}/mountinfo").read_text()
    finally:
        outer.kill()
        outer.wait()


def test_the_host_cannot_be_reached_through_a_volume_made_shared(minirun: Program) -> None:
    """A container with CAP_SYS_ADMIN mounts below its volume: the host sees none of it."""
    script = "mkdir -p /data/in && mount -t tmpfs none /data/in && echo yes"
    place = minirun.root.parent / "data"
    place.mkdir()
    flags = ("--rm", "--cap-add", "SYS_ADMIN", "-v", f"{place}:/data")
    assert minirun("run", *flags, "busybox", "sh", "-c", script).stdout == "yes\n"
    assert str(place) not in Path("/proc/self/mountinfo").read_text()


def test_paths_that_are_hidden_or_read_only(minirun: Program) -> None:
    """What docker masks: reading gives nothing, writing is refused, and both for root."""
    script = """
    cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c
    ls -A /proc/acpi /proc/scsi /sys/firmware 2>/dev/null | grep -v : | wc -w
    for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/irq/default_smp_affinity
    do echo x 2>/dev/null >$f && echo WROTE $f; done
    umount /proc/keys && echo UNMOUNTED
    mount -o remount,rw /proc/sys && echo REMOUNTED
    exit 0
    """
    done = minirun("run", "--rm", "busybox", "sh", "-c", script)
    assert done.stdout.split() == ["0", "0"], done
