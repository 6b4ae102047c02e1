#!/bin/sh
# nvidia-smi of minirun's SIMULATED driver. It lists the GPUs that are really visible where it runs:
# those with an entry in /proc/driver/nvidia/gpus and a node in /dev that the device cgroup lets it
# open. There is no driver, so it measures nothing. Only builtins of sh are used: it runs in any
# image that has a /bin/sh.
LC_ALL=C
export LC_ALL
proc=/proc/driver/nvidia

# open(2) of a node without a driver fails with ENXIO where the device cgroup allows it and with
# EPERM where it does not; the shell's own message is the only place where sh shows which.
may_open() {
    said=$( ( : <"$1" ) 2>&1 )
    case $said in
    *"not permitted"* | *"ermission denied"*) return 1 ;;
    esac
    return 0
}

read_gpu() {
    name= uuid= bus= minor= migs=
    while IFS= read -r line; do
        value=${line#*:}
        value=${value#"${value%%[! 	]*}"}
        case $line in
        Model:*) name=$value ;;
        "GPU UUID:"*) uuid=$value ;;
        "Bus Location:"*) bus=$value ;;
        "Device Minor:"*) minor=$value ;;
        "MIG Device:"*) migs="$migs ${value% *}=${value#* }" ;;
        esac
    done <"$1"
}

each_gpu() {
    index=0
    for information in "$proc"/gpus/*/information; do
        [ -r "$information" ] || continue
        read_gpu "$information"
        [ -c "/dev/nvidia$minor" ] && may_open "/dev/nvidia$minor" || continue
        "$1"
        index=$((index + 1))
    done
    if [ "$index" -eq 0 ]; then
        echo "No devices were found (SIMULATED driver)"
        exit 6
    fi
}

list_gpu() {
    echo "GPU $index: $name (UUID: $uuid)"
    device=0
    for mig in $migs; do
        [ -e "$proc/capabilities/gpu$minor/mig/${mig%%=*}/access" ] || continue
        echo "  MIG ${mig%%=*} Device $device: (UUID: ${mig#*=})"
        device=$((device + 1))
    done
}

row='| %3s  %-43s %-14s  %4s  %6s |\n'
rule='+-------------------------------------------------------------------------------+'

table_gpu() {
    # shellcheck disable=SC2059
    printf "$row" "$index" "$name" "$bus" "N/A" "N/A"
}

table() {
    version=N/A
    if [ -r "$proc/version" ]; then
        IFS= read -r version <"$proc/version"
        version=${version##*Module  }
        version=${version%% *}
    fi
    echo "$rule"
    printf '| %-77s |\n' "NVIDIA-SMI (SIMULATED)    Driver Version: $version    nothing is measured"
    echo "$rule"
    # shellcheck disable=SC2059
    printf "$row" GPU Name Bus-Id Util Memory
    echo "$rule"
    each_gpu table_gpu
    echo "$rule"
}

case $#:$1 in
0:) table ;;
1:-L | 1:--list-gpus) each_gpu list_gpu ;;
1:-h | 1:--help) echo "usage: nvidia-smi [-L|--list-gpus]    (SIMULATED driver of minirun)" ;;
*)
    echo "nvidia-smi: SIMULATED: there is no option $1, only -L and --help" >&2
    exit 2
    ;;
esac
