#!/bin/sh
# Level 3 of the ladder as a shell script: util-linux has a program for each system call.
#
#     level3.sh run [--hostname NAME] LAYERS COMMAND …
#
# The runtime and init are this script, called twice. Init's descriptor 3 leads to the runtime, and
# 4 comes from it. The last part of init runs in the image's own shell: after pivot_root the host's
# programs are gone.

# --- init -----------------------------------------------------------------------------------------

tell() {
    printf '%s\n' "$*" >&3
}

must() {
    said=$("$@" 2>&1) && return
    tell "error 1 $(echo "$said" | tr '\n' ' ')"
    exit 1
}

build() {
    must mount --make-rprivate /
    must mkdir -m 755 "$directory/upper" "$directory/work"
    must mount -t overlay \
        -o "lowerdir=$1,upperdir=$directory/upper,workdir=$directory/work" overlay "$root"
    must mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/.old"
    must mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
    must mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/dev"
    must mkdir "$root/dev/pts" "$root/dev/shm"
    must mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
    must mount -t tmpfs -o nosuid,nodev,noexec,mode=1777 shm "$root/dev/shm"
    must mount -t sysfs -o nosuid,nodev,noexec,ro sysfs "$root/sys"
    for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
        rest=${node#*:}
        must mknod -m 666 "$root/dev/${node%%:*}" c "${rest%:*}" "${rest#*:}"
    done
    must ln -s /proc/self/fd "$root/dev/fd"
    must ln -s /proc/self/fd/0 "$root/dev/stdin"
    must ln -s /proc/self/fd/1 "$root/dev/stdout"
    must ln -s /proc/self/fd/2 "$root/dev/stderr"
    must ln -s pts/ptmx "$root/dev/ptmx"
}

# What the image's shell does: 127 if there is no such program, 126 if it cannot be executed.
LAST='
umount -l /.old && rmdir /.old || { echo "error 1 umount of the old root" >&3; exit 1; }
umask 022
path=$1
case $1 in */*) ;; *)
    for folder in $(echo "$PATH" | tr : " "); do
        [ -e "$folder/$1" ] && path=$folder/$1 && break
    done
esac
[ -e "$path" ] || { echo "error 127 $1: not found" >&3; exit 127; }
[ -f "$path" ] && [ -x "$path" ] || { echo "error 126 $1: permission denied" >&3; exit 126; }
exec "$@" 3>&- 4<&-
'

init() {
    directory=$1 root=$1/rootfs hostname=$2 layers=$3
    shift 3
    umask 0
    build "$layers"
    must hostname "$hostname"
    tell RUN_HOOKS
    read -r word <&4 || exit 1
    [ "$word" = HOOKS_DONE ] || exit 1
    must cd "$root"
    cd "$root" || exit 1
    must pivot_root . .old
    exec chroot . /bin/sh -c "$LAST" sh "$@"
}

# --- the runtime ----------------------------------------------------------------------------------

clean() {
    rm -rf --one-file-system "$directory"
}

fail() {
    exec 8>&-
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    clean
    echo "level 3: $2" >&2
    exit "$1"
}

hear() {
    heard=
    read -r heard <&7
    case $heard in "error "*)
        heard=${heard#error }
        fail "${heard%% *}" "${heard#* }" ;;
    esac
}

# A job in the background would read /dev/null, and ignore SIGINT and SIGQUIT.
BETWEEN='
env --default-signal setpriv --pdeathsig KILL "$@" <&5 5<&- &
exec 3>&- 4<&- 5<&-
wait $!
'

run() {
    hostname=level3
    if [ "$1" = --hostname ]; then
        hostname=$2
        shift 2
    fi
    [ $# -ge 2 ] || { echo "usage: level3.sh run [--hostname NAME] LAYERS COMMAND …" >&2; exit 2; }
    directory=$(mktemp -d /run/ladder-XXXXXX) || exit 1
    mkdir -m 755 "$directory/rootfs"
    mkfifo -m 600 "$directory/from-init" "$directory/to-init"
    # A shell in between forks init, and returns its status: `unshare --fork` loses that of one which
    # SIGKILL ends. It keeps no end of the FIFOs, or the runtime would hear of no exec.
    exec 5<&0
    setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc sh -c "$BETWEEN" sh \
        "$0" init "$directory" "$hostname" "$@" \
        3>"$directory/from-init" 4<"$directory/to-init" &
    pid=$!
    exec 5<&- 7<"$directory/from-init" 8>"$directory/to-init"
    trap '' PIPE
    hear
    [ "$heard" = RUN_HOOKS ] || fail 1 "init has died"
    # From now on init dies with the shell in between; that may have been killed before.
    state=
    read -r _ _ state _ 2>/dev/null <"/proc/$pid/stat"
    case $state in "" | Z | X) fail 1 "init's parent has died" ;; esac
    echo HOOKS_DONE >&8 2>/dev/null || fail 1 "init has died"
    hear
    wait "$pid"
    status=$?
    clean
    exit "$status"
}

case $1 in
    run | init) "$@" ;;
    *) echo "usage: level3.sh run [--hostname NAME] LAYERS COMMAND …" >&2; exit 2 ;;
esac
