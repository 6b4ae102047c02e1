"""Scenarios of podman and docker alike: what the flags of `run` do. Flags are --flag=value."""

import json
import os

from engines.clients import limits
from engines.clients.engine import Dockerlike


def prints_what_the_command_prints(engine: Dockerlike) -> None:
    assert engine.run("echo", "hello") == "hello"


def exit_status_is_the_commands(engine: Dockerlike) -> None:
    engine.run("sh", "-c", "exit 7", code=7)


def exit_status_of_a_signal(engine: Dockerlike) -> None:
    engine.run("sh", "-c", "sh -c 'kill -KILL $$'; exit $?", code=137)


def command_not_found(engine: Dockerlike) -> None:
    done = engine.error("nosuch")
    assert done.returncode == 127
    assert 'exec: "nosuch": executable file not found in $PATH' in done.stderr


def absolute_command_not_found(engine: Dockerlike) -> None:
    done = engine.error("/nosuch")
    assert done.returncode == 127 and "no such file or directory" in done.stderr.lower()


def command_not_executable(engine: Dockerlike) -> None:
    done = engine.error("/bin/noexec")
    assert done.returncode == 126 and "permission denied" in done.stderr.lower()


def command_is_a_directory(engine: Dockerlike) -> None:
    assert engine.error("/etc").returncode == 126


def standard_input(engine: Dockerlike) -> None:
    assert engine.run("-i", "cat", input="from outside\n") == "from outside"


def standard_error_is_apart(engine: Dockerlike) -> None:
    done = engine.error("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def user_opens_its_streams(engine: Dockerlike) -> None:
    script = "echo hi >/dev/stdout; echo err >/dev/stderr"
    done = engine.error("--user=1000", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "err\n")
    done = engine.full("exec", "--user=1000", engine.detached(), "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "err\n")


def user_opens_its_terminal(engine: Dockerlike) -> None:
    name = engine.detached("-t", "--user=1000", "sh", "-c", "echo hi >/dev/stdout; sleep 100")
    engine.cell.wait_for(lambda: "hi" in engine("logs", name), "log")


def much_output(engine: Dockerlike) -> None:
    text = engine.run("sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    assert len(text.splitlines()) == 20000 and text.endswith("line 19999")


def environment(engine: Dockerlike) -> None:
    assert engine.run("--env=COLOUR=green", "sh", "-c", "echo $COLOUR") == "green"


def environment_of_the_image(engine: Dockerlike) -> None:
    assert "/usr/local/sbin" in engine.run("sh", "-c", "echo $PATH")


def working_directory(engine: Dockerlike) -> None:
    assert engine.run("--workdir=/tmp", "pwd") == "/tmp"


def working_directory_is_made(engine: Dockerlike) -> None:
    assert engine.run("--volume=/new/dir", "--workdir=/new/dir", "pwd") == "/new/dir"


def user_by_name(engine: Dockerlike) -> None:
    assert engine.run("--user=maria", "sh", "-c", "id -u; id -G") == "1000\n1000 29"


def user_by_numbers(engine: Dockerlike) -> None:
    assert engine.run("--user=12:34", "sh", "-c", "id -u; id -g") == "12\n34"


def additional_group(engine: Dockerlike) -> None:
    assert "555" in engine.run("--group-add=555", "id", "-G").split()


def unknown_user(engine: Dockerlike) -> None:
    done = engine.error("--user=nosuch", "true")
    assert done.returncode in (125, 126) and "nosuch" in done.stderr


def host_name(engine: Dockerlike) -> None:
    assert engine.run("--hostname=deep", "hostname") == "deep"


def entrypoint(engine: Dockerlike) -> None:
    assert engine.run("--entrypoint=/bin/echo", "instead") == "instead"


def init_is_process_one(engine: Dockerlike) -> None:
    assert engine.run("sh", "-c", "echo $$") == "1"


def processes_are_apart(engine: Dockerlike) -> None:
    assert len(engine.run("ps").splitlines()) == 2


def processes_of_the_host(engine: Dockerlike) -> None:
    assert int(engine.run("--pid=host", "sh", "-c", "echo $$")) > 1


def ipc_of_the_host(engine: Dockerlike) -> None:
    theirs = engine.cell.run("readlink", "/proc/self/ns/ipc").stdout.strip()
    assert engine.run("--ipc=host", "readlink", "/proc/self/ns/ipc") == theirs
    assert engine.run("readlink", "/proc/self/ns/ipc") != theirs


def names_of_the_host(engine: Dockerlike) -> None:
    theirs = engine.cell.run("readlink", "/proc/self/ns/uts").stdout.strip()
    assert engine.run("--uts=host", "readlink", "/proc/self/ns/uts") == theirs


def cgroup_namespace(engine: Dockerlike) -> None:
    own = engine.run("--cgroupns=private", "cat", "/proc/self/cgroup")
    host = engine.run("--cgroupns=host", "cat", "/proc/self/cgroup")
    assert limits.is_in(own, "pids", lambda path: path == "/") and engine.cell.parent in host


def volume(engine: Dockerlike) -> None:
    (engine.home / "shared").mkdir(exist_ok=True)
    (engine.home / "shared" / "in").write_text("given\n")
    flag = f"--volume={engine.home}/shared:/data"
    assert engine.run(flag, "sh", "-c", "cat /data/in; echo back > /data/out") == "given"
    assert (engine.home / "shared" / "out").read_text() == "back\n"


def volume_read_only(engine: Dockerlike) -> None:
    flag = f"--volume={engine.home}:/data:ro"
    done = engine.error(flag, "touch", "/data/x")
    assert done.returncode == 1 and "Read-only file system" in done.stderr


def volume_of_one_file(engine: Dockerlike) -> None:
    (engine.home / "one").write_text("one file\n")
    assert engine.run(f"--volume={engine.home}/one:/etc/one:ro", "cat", "/etc/one") == "one file"


def volume_of_one_file_on_a_folder(engine: Dockerlike) -> None:
    """docker knows the mistake by the runtime's words, and gives the user a hint."""
    (engine.home / "one").write_text("")
    done = engine.error(f"--volume={engine.home}/one:/etc", "true")
    assert done.returncode in (125, 126) and "not a directory" in done.stderr.lower(), done
    if engine.client[0].endswith("docker"):
        assert "Are you trying to mount a directory onto a file" in done.stderr, done


def named_volume_lives_on(engine: Dockerlike) -> None:
    engine.run("--volume=kept:/data", "sh", "-c", "echo here > /data/x")
    assert engine.run("--volume=kept:/data", "cat", "/data/x") == "here"
    engine("volume", "rm", "kept")


def volume_gets_the_images_files(engine: Dockerlike) -> None:
    assert "motd" in engine.run("--volume=copied:/etc", "ls", "/etc").split()
    engine("volume", "rm", "copied")


def bind_mount(engine: Dockerlike) -> None:
    flag = f"--mount=type=bind,src={engine.home},dst=/data,readonly"
    assert engine.error(flag, "touch", "/data/x").returncode == 1


def tmpfs(engine: Dockerlike) -> None:
    line = engine.run("--tmpfs=/work:rw,size=1m,mode=700", "grep", " /work ", "/proc/mounts")
    assert line.startswith("tmpfs /work tmpfs rw,") and "size=1024k" in line and "mode=700" in line


def tmpfs_takes_the_mode_of_the_folder_below(engine: Dockerlike) -> None:
    assert engine.run("--tmpfs=/run", "--tmpfs=/tmp", "stat", "-c", "%a", "/run") == "755"


def tmpfs_on_a_new_folder_is_every_users(engine: Dockerlike) -> None:
    assert engine.run("--tmpfs=/new", "--user=5:6", "sh", "-c", "cd /new; echo x > x; ls") == "x"


def cgroups_of_the_host(engine: Dockerlike) -> None:
    """On cgroup2 the path in /proc/self/cgroup exists below /sys/fs/cgroup."""
    place = "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)"
    script = (
        f"readlink /proc/self/ns/cgroup; ! test -e /sys/fs/cgroup/cgroup.procs || ls -d {place}"
    )
    text = engine.run("--cgroupns=host", "sh", "-c", script).splitlines()[0]
    assert text == engine.cell.run("readlink", "/proc/self/ns/cgroup").stdout.strip()


def volume_of_the_cgroups(engine: Dockerlike) -> None:
    flag = "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro"
    theirs = set(os.listdir("/sys/fs/cgroup"))
    assert theirs <= set(engine.run(flag, "ls", "/sys/fs/cgroup").split())


def volume_below_the_cgroups(engine: Dockerlike) -> None:
    sub = "/pids" if os.path.isdir("/sys/fs/cgroup/pids") else ""
    flag = f"--volume=/sys/fs/cgroup{sub}:/sys/fs/cgroup{sub}"
    text = engine.run(flag, "ls", f"/sys/fs/cgroup{sub}")
    assert "cgroup.procs" in text and engine.cell.parent.strip("/") in text


def read_only_root(engine: Dockerlike) -> None:
    done = engine.error("--read-only", "touch", "/x")
    assert done.returncode == 1 and "Read-only file system" in done.stderr


def read_only_root_with_tmpfs(engine: Dockerlike) -> None:
    engine.run("--read-only", "--tmpfs=/scratch", "touch", "/scratch/x")


def size_of_shared_memory(engine: Dockerlike) -> None:
    line = engine.run("--shm-size=8m", "grep", " /dev/shm ", "/proc/mounts")
    assert "size=8192k" in line


def limit_of_memory(engine: Dockerlike) -> None:
    assert engine.run("--memory=64m", "cat", *limits.inside("memory")) == str(64 << 20)


def out_of_memory(engine: Dockerlike) -> None:
    hog = "x=a; while :; do x=$x$x; done"
    engine.run("--memory=16m", "--memory-swap=16m", "sh", "-c", hog, code=137)


def limit_of_processors(engine: Dockerlike) -> None:
    text = engine.run("--cpus=0.5", "cat", *limits.inside("cpu"))
    assert text.split() == ["50000", "100000"]


def shares_of_processors(engine: Dockerlike) -> None:
    text = engine.run("--cpu-shares=512", "cat", *limits.inside("shares"))
    assert limits.has_weight([text], 512)


def choice_of_processors(engine: Dockerlike) -> None:
    assert engine.run("--cpuset-cpus=1", "cat", *limits.inside("cpuset")) == "1"


def limit_of_processes(engine: Dockerlike) -> None:
    assert engine.run("--pids-limit=20", "cat", *limits.inside("pids")) == "20"


def limit_of_open_files(engine: Dockerlike) -> None:
    flags = ("--ulimit=nofile=100:200", "--ulimit=nproc=500:500")
    assert engine.run(*flags, "sh", "-c", "ulimit -n; ulimit -Hn") == "100\n200"


def no_capability(engine: Dockerlike) -> None:
    text = engine.run("--cap-drop=all", "grep", "Cap", "/proc/self/status")
    assert all(int(line.split()[1], 16) == 0 for line in text.splitlines())


def one_capability_more(engine: Dockerlike) -> None:
    text = engine.run(
        "--cap-drop=all", "--cap-add=net_admin", "grep", "CapEff", "/proc/self/status"
    )
    assert int(text.split()[1], 16) == 1 << 12


def no_new_privileges(engine: Dockerlike) -> None:
    flag = "--security-opt=no-new-privileges"
    assert engine.run(flag, "grep", "NoNewPrivs", "/proc/self/status").endswith("1")


def seccomp_is_on(engine: Dockerlike) -> None:
    assert engine.run("grep", "Seccomp:", "/proc/self/status").endswith("2")


def seccomp_is_off(engine: Dockerlike) -> None:
    flag = "--security-opt=seccomp=unconfined"
    assert engine.run(flag, "grep", "Seccomp:", "/proc/self/status").endswith("0")


def seccomp_profile_of_the_user(engine: Dockerlike) -> None:
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "args": []}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    (engine.home / "profile.json").write_text(json.dumps(profile))
    flag = f"--security-opt=seccomp={engine.home}/profile.json"
    done = engine.error(flag, "mkdir", "/x")
    assert done.returncode == 1 and "Operation not permitted" in done.stderr


def privileged(engine: Dockerlike) -> None:
    assert "/dev/kmsg" in engine.run("--privileged", "sh", "-c", "ls -d /dev/*").split()


def device(engine: Dockerlike) -> None:
    engine.run("--device=/dev/fuse", "sh", "-c", "test -c /dev/fuse && : < /dev/fuse")


def device_that_nobody_gave(engine: Dockerlike) -> None:
    done = engine.error("--cap-add=mknod", "sh", "-c", "mknod /fuse c 10 229 && : < /fuse")
    assert done.returncode != 0 and "Operation not permitted" in done.stderr


def device_rule(engine: Dockerlike) -> None:
    flags = ("--cap-add=mknod", "--device-cgroup-rule=c 10:229 rw")
    engine.run(*flags, "sh", "-c", "mknod /fuse c 10 229 && : < /fuse")


def kernel_parameter(engine: Dockerlike) -> None:
    name = "net.ipv4.ip_unprivileged_port_start"
    assert engine.run(f"--sysctl={name}=77", "cat", f"/proc/sys/{name.replace('.', '/')}") == "77"


def kernel_files_are_hidden(engine: Dockerlike) -> None:
    assert engine.run("sh", "-c", "cat /proc/keys /proc/timer_list; ls /sys/firmware") == ""
    assert engine.error("sh", "-c", "echo x > /proc/sysrq-trigger").returncode != 0


def out_of_memory_score(engine: Dockerlike) -> None:
    assert engine.run("--oom-score-adj=500", "cat", "/proc/self/oom_score_adj") == "500"


def background_process_keeps_no_pipe(engine: Dockerlike) -> None:
    assert engine.run("sh", "-c", "sleep 300 & echo left") == "left"


def tunnel_of_the_host(engine: Dockerlike) -> None:
    """How containers of VPNs are started: no --device, and so no rule of the engine's for it."""
    flags = ("--cap-add=net_admin", "--volume=/dev/net/tun:/dev/net/tun")
    engine.run(*flags, "sh", "-c", ": < /dev/net/tun")
