"""Scenarios of ctr, containerd's own client: the flags of `ctr run`, written --flag=value."""

import json

from conftest import wait_until
from engines.clients import images, limits
from engines.clients.containerd_engine import Ctr

TASKS = "/run/containerd/io.containerd.runtime.v2.task"
"""Where containerd keeps bundles."""
HOG = "x=a; while :; do x=$x$x; done"
"""A shell script that asks for ever more memory."""


def prints_what_the_command_prints(ctr: Ctr) -> None:
    assert ctr.run("echo", "hello") == "hello"


def exit_status_is_the_commands(ctr: Ctr) -> None:
    ctr.run("sh", "-c", "exit 7", code=7)


def exit_status_of_a_signal(ctr: Ctr) -> None:
    name = ctr.detached()
    ctr("tasks", "kill", "--signal=KILL", name)
    assert ctr.ended(name) == "137"


def command_not_found(ctr: Ctr) -> None:
    done = ctr.all("nosuch")
    assert done.returncode == 1
    assert 'exec: "nosuch": executable file not found in $PATH' in done.stderr


def absolute_command_not_found(ctr: Ctr) -> None:
    done = ctr.all("/nosuch")
    assert done.returncode == 1 and "no such file or directory" in done.stderr


def command_not_executable(ctr: Ctr) -> None:
    done = ctr.all("/bin/noexec")
    assert done.returncode == 1 and 'exec: "/bin/noexec": permission denied' in done.stderr


def a_failed_start_leaves_nothing(ctr: Ctr) -> None:
    done = ctr.all("nosuch")
    assert done.returncode == 1 and ctr("tasks", "ls", "--quiet") == ""
    assert ctr.cell.run("sh", "-c", f"ls /run/containerd/runc/{ctr.space}").stdout == ""
    assert ctr.cell.run("ls", f"{TASKS}/{ctr.space}").stdout == ""


def standard_input(ctr: Ctr) -> None:
    """One line: `ctr run` 1.6 never closes it."""
    assert ctr.run("head", "-n1", input="from outside\n") == "from outside"


def standard_error_is_apart(ctr: Ctr) -> None:
    done = ctr.all("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def much_output(ctr: Ctr) -> None:
    text = ctr.run("sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    assert len(text.splitlines()) == 20000 and text.endswith("line 19999")


def output_into_a_file(ctr: Ctr) -> None:
    log = ctr.home / "output"
    name = ctr.name()
    flag = f"--log-uri=file://{log}"
    ctr("run", "--detach", *ctr.words(flag, "echo", "written", name=name))
    ctr.wait(name)
    wait_until(lambda: log.read_text() == "written\n")


def environment(ctr: Ctr) -> None:
    assert ctr.run("--env=COLOUR=green", "sh", "-c", "echo $COLOUR") == "green"


def environment_of_a_file(ctr: Ctr) -> None:
    (ctr.home / "variables").write_text("COLOUR=blue\n")
    assert ctr.run(f"--env-file={ctr.home}/variables", "sh", "-c", "echo $COLOUR") == "blue"


def environment_of_the_daemon_stays_out(ctr: Ctr) -> None:
    text = ctr.run("env")
    assert "TTRPC" not in text and "GOMAXPROCS" not in text and "MINIRUN" not in text


def working_directory(ctr: Ctr) -> None:
    assert ctr.run("--cwd=/tmp", "pwd") == "/tmp"


def working_directory_is_made(ctr: Ctr) -> None:
    assert ctr.run("--cwd=/made/here", "pwd") == "/made/here"


def user_of_the_image(ctr: Ctr) -> None:
    name = "test.local/maria:1"
    ctr.load(images.archive(ctr.home / "maria.tar", name, User="maria"))
    assert ctr.run("sh", "-c", "id -u; id -g; pwd", image=name) == "1000\n1000\n/"


def defaults_of_the_image(ctr: Ctr) -> None:
    name = "test.local/defaults:1"
    more = {"Env": [images.PATH, "WORD=given"], "WorkingDir": "/etc"}
    cmd = ("sh", "-c", "echo $WORD; pwd")
    ctr.load(images.archive(ctr.home / "defaults.tar", name, cmd=cmd, **more))
    assert ctr.run(image=name) == "given\n/etc"


def processes_are_apart(ctr: Ctr) -> None:
    assert len(ctr.run("ps").splitlines()) == 2


def mount_of_a_directory(ctr: Ctr) -> None:
    (ctr.home / "shared").mkdir(exist_ok=True)
    flag = f"--mount=type=bind,src={ctr.home}/shared,dst=/data,options=rbind:rw"
    ctr.run(flag, "sh", "-c", "echo back > /data/out")
    assert (ctr.home / "shared/out").read_text() == "back\n"


def mount_read_only(ctr: Ctr) -> None:
    done = ctr.all(
        f"--mount=type=bind,src={ctr.home},dst=/data,options=rbind:ro", "touch", "/data/x"
    )
    assert done.returncode == 1 and "Read-only file system" in done.stderr


def mount_of_memory(ctr: Ctr) -> None:
    flag = "--mount=type=tmpfs,src=tmpfs,dst=/work,options=size=1m:mode=700:nosuid"
    line = ctr.run(flag, "grep", " /work ", "/proc/mounts")
    assert "rw,nosuid" in line and "size=1024k" in line and "mode=700" in line


def mount_that_is_not_there(ctr: Ctr) -> None:
    done = ctr.all("--mount=type=bind,src=/nosuch,dst=/data,options=rbind:ro", "true")
    assert done.returncode == 1 and "no such file or directory" in done.stderr


def read_only_root(ctr: Ctr) -> None:
    done = ctr.all("--read-only", "touch", "/x")
    assert done.returncode == 1 and "Read-only file system" in done.stderr


def root_of_a_directory(ctr: Ctr) -> None:
    """--rootfs: a directory of the host in an image's place."""
    words = ("--rootfs", "--read-only", "/bin/cat", "/etc/motd")
    assert ctr.run(*words, image=_directory(ctr)) == "from the image"


def _directory(ctr: Ctr) -> str:
    """The image's one layer as a directory: the largest of containerd's blobs, unpacked."""
    folder = ctr.home / "plain"
    if not folder.exists():
        folder.mkdir()
        blobs = ctr.home.glob("root/io*content*/blobs/sha256/*")
        layer = max(blobs, key=lambda blob: blob.stat().st_size)
        ctr.cell.run("tar", "-C", str(folder), "-xf", str(layer), check=True)
    return str(folder)


def root_without_pivot(ctr: Ctr) -> None:
    assert ctr.run("--no-pivot", "cat", "/etc/motd") == "from the image"


def propagation_of_the_root(ctr: Ctr) -> None:
    text = ctr.run("--rootfs-propagation=shared", "grep", " / / ", "/proc/self/mountinfo")
    assert "shared:" in text


def limit_of_memory(ctr: Ctr) -> None:
    name = ctr.detached(f"--memory-limit={64 << 20}", "sleep", "300")
    assert ctr.limit(name, "memory") == [str(64 << 20)]


def out_of_memory(ctr: Ctr) -> None:
    ctr.run(f"--memory-limit={16 << 20}", "sh", "-c", HOG, code=137)


def limit_of_processors(ctr: Ctr) -> None:
    name = ctr.detached("--cpus=0.5", "sleep", "300")
    assert ctr.limit(name, "cpu") == ["50000", "100000"]


def quota_and_period(ctr: Ctr) -> None:
    name = ctr.detached("--cpu-quota=20000", "--cpu-period=50000", "sleep", "300")
    assert ctr.limit(name, "cpu") == ["20000", "50000"]


def shares_of_processors(ctr: Ctr) -> None:
    name = ctr.detached("--cpu-shares=512", "sleep", "300")
    assert limits.has_weight(ctr.limit(name, "shares"), 512)


def cgroup_of_the_name(ctr: Ctr) -> None:
    text = ctr.run("cat", "/proc/self/cgroup")
    assert limits.is_in(text, "memory", lambda path: path.startswith(f"{ctr.cell.parent}/c"))


def cgroup_of_the_flag(ctr: Ctr) -> None:
    path = f"{ctr.cell.parent}/deep/er"
    text = ctr.run(f"--cgroup={path}", "cat", "/proc/self/cgroup")
    assert limits.is_in(text, "memory", lambda found: found == path)


def device(ctr: Ctr) -> None:
    ctr.run("--device=/dev/fuse", "sh", "-c", "test -c /dev/fuse && : < /dev/fuse")


def device_that_nobody_gave(ctr: Ctr) -> None:
    done = ctr.all("sh", "-c", "mknod /fuse c 10 229 && : < /fuse")
    assert done.returncode != 0 and "Operation not permitted" in done.stderr


def privileged(ctr: Ctr) -> None:
    text = ctr.run(
        "--privileged", "sh", "-c", "grep CapEff /proc/self/status; mount | grep ' /sys '"
    )
    assert int(text.split()[1], 16) & 1 << 21 and "(rw," in text


def network_is_apart(ctr: Ctr) -> None:
    assert ctr.run("ls", "/sys/class/net") == "lo"


def network_of_the_host(ctr: Ctr) -> None:
    theirs = ctr.cell.run("readlink", "/proc/self/ns/net").stdout.strip()
    assert ctr.run("--net-host", "readlink", "/proc/self/ns/net") == theirs


def namespace_of_a_path(ctr: Ctr) -> None:
    name = ctr.detached()
    pid = ctr("tasks", "ps", name).split()[2]
    path = f"/proc/{pid}/ns/net"
    theirs = ctr.cell.run("readlink", path).stdout.strip()
    assert ctr.run(f"--with-ns=network:{path}", "readlink", "/proc/self/ns/net") == theirs


def namespace_of_a_path_that_is_not_there(ctr: Ctr) -> None:
    done = ctr.all("--with-ns=network:/nosuch", "true")
    assert done.returncode == 1 and "no such file or directory" in done.stderr


def user_namespace(ctr: Ctr) -> None:
    flags = ("--uidmap=0:100000:65536", "--gidmap=0:100000:65536")
    text = ctr.run(*flags, "sh", "-c", "id -u; cat /proc/self/uid_map")
    assert text.split() == ["0", "0", "100000", "65536"]


def seccomp_is_off(ctr: Ctr) -> None:
    assert ctr.run("grep", "Seccomp:", "/proc/self/status").endswith("0")


def seccomp_profile_of_containerd(ctr: Ctr) -> None:
    assert ctr.run("--seccomp", "grep", "Seccomp:", "/proc/self/status").endswith("2")


def seccomp_profile_of_the_user(ctr: Ctr) -> None:
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "args": []}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    (ctr.home / "profile.json").write_text(json.dumps(profile))
    done = ctr.all("--seccomp", f"--seccomp-profile={ctr.home}/profile.json", "mkdir", "/x")
    assert done.returncode == 1 and "Operation not permitted" in done.stderr


def one_capability_more(ctr: Ctr) -> None:
    text = ctr.run("--cap-add=CAP_NET_ADMIN", "grep", "CapEff", "/proc/self/status")
    assert int(text.split()[1], 16) & 1 << 12


def one_capability_less(ctr: Ctr) -> None:
    done = ctr.all("--cap-drop=CAP_CHOWN", "chown", "1", "/etc/motd")
    assert done.returncode == 1 and "Operation not permitted" in done.stderr


def no_new_privileges(ctr: Ctr) -> None:
    assert ctr.run("grep", "NoNewPrivs", "/proc/self/status").endswith("1")


def new_privileges_on_request(ctr: Ctr) -> None:
    assert ctr.run("--allow-new-privs", "grep", "NoNewPrivs", "/proc/self/status").endswith("0")


def limit_of_open_files(ctr: Ctr) -> None:
    assert ctr.run("sh", "-c", "ulimit -n") == "1024"


def kernel_files_are_hidden(ctr: Ctr) -> None:
    assert ctr.run("sh", "-c", "cat /proc/keys /proc/timer_list; ls /sys/firmware") == ""
    assert ctr.all("sh", "-c", "echo x > /proc/sysrq-trigger").returncode != 0


def process_id_in_a_file(ctr: Ctr) -> None:
    name = ctr.detached(f"--pid-file={ctr.home}/pid", "sleep", "300")
    assert (ctr.home / "pid").read_text() == ctr("tasks", "ps", name).split()[2]


def own_root_of_the_runtime(ctr: Ctr) -> None:
    name = ctr.detached("--runc-root=/run/other", "sleep", "300")
    assert name in ctr.cell.run("ls", f"/run/other/{ctr.space}").stdout.split()


def config_of_the_user(ctr: Ctr) -> None:
    name = ctr.detached()
    config = json.loads(ctr.cell.run("cat", f"{TASKS}/{ctr.space}/{name}/config.json").stdout)
    config["process"]["args"] = ["echo", "my own"]
    config["root"]["path"] = _directory(ctr)
    config["linux"]["cgroupsPath"] = f"{ctr.cell.parent}/mine"
    (ctr.home / "mine.json").write_text(json.dumps(config))
    words = ("--runc-binary", ctr.path, f"--config={ctr.home}/mine.json")
    assert ctr("run", "--rm", *words, ctr.name()) == "my own"
