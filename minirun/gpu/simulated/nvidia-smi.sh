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

# Of the bus's letters nvidia-smi prints capitals, and a domain of eight digits.
long_bus() {
    rest=0000$bus long=
    while [ -n "$rest" ]; do
        sign=${rest%"${rest#?}"} rest=${rest#?}
        case $sign in
        a) sign=A ;; b) sign=B ;; c) sign=C ;; d) sign=D ;; e) sign=E ;; f) sign=F ;;
        esac
        long=$long$sign
    done
}

# --id: an index, a UUID or a bus id; several with commas.
is_chosen() {
    [ -n "$ids" ] || return 0
    case ,$ids, in
    *,"$index",* | *,"$uuid",* | *,"$bus",* | *,"$long",*) return 0 ;;
    esac
    return 1
}

each_gpu() {
    index=0 found=0
    for information in "$proc"/gpus/*/information; do
        [ -r "$information" ] || continue
        read_gpu "$information"
        [ -c "/dev/nvidia$minor" ] && may_open "/dev/nvidia$minor" || continue
        long_bus
        if is_chosen; then
            "$1"
            found=$((found + 1))
        fi
        index=$((index + 1))
    done
    if [ "$found" -eq 0 ]; then
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

row='| %3s  %-41s %-14s  %4s  %6s |\n'
rule='+-----------------------------------------------------------------------------+'

table_gpu() {
    # shellcheck disable=SC2059
    printf "$row" "$index" "$name" "$bus" "N/A" "N/A"
}

table() {
    echo "$rule"
    printf '| %-75s |\n' \
        "NVIDIA-SMI (SIMULATED)   Driver Version: $version   CUDA Version: $cuda"
    echo "$rule"
    # shellcheck disable=SC2059
    printf "$row" GPU Name Bus-Id Util Memory
    echo "$rule"
    each_gpu table_gpu
    echo "$rule"
}

# --- -q: what is known is said, what would have to be measured is N/A ---------------------------

line() {
    printf '%-42s: %s\n' "$1" "$2"
}

unknown() {
    echo "    $1"
    shift
    for title; do line "        $title" N/A; done
}

mig_mode() {
    mode_of_mig=Disabled
    [ -z "$migs" ] || mode_of_mig=Enabled
}

query_gpu() {
    mig_mode
    echo "GPU $long"
    line "    Product Name" "$name"
    line "    Product Brand" N/A
    echo "    MIG Mode"
    line "        Current" "$mode_of_mig"
    line "        Pending" "$mode_of_mig"
    line "    Serial Number" N/A
    line "    GPU UUID" "$uuid"
    line "    Minor Number" "$minor"
    line "    VBIOS Version" N/A
    echo "    PCI"
    pci_words
    line "        Bus" "$pci_bus"
    line "        Device" "$pci_device"
    line "        Domain" "$pci_domain"
    line "        Bus Id" "$long"
    line "    Fan Speed" N/A
    line "    Performance State" N/A
    unknown "FB Memory Usage" Total Reserved Used Free
    unknown "Utilization" Gpu Memory Encoder Decoder
    unknown "Temperature" "GPU Current Temp"
    unknown "GPU Power Readings" "Power Draw" "Current Power Limit"
    unknown "Clocks" Graphics SM Memory Video
    line "    Processes" N/A
    echo
}

pci_words() {
    pci_domain=0x${long%%:*} pci_bus=${long#*:} pci_device=${long##*:}
    pci_domain=0x${pci_domain#0x0000} pci_bus=0x${pci_bus%%:*} pci_device=0x${pci_device%%.*}
}

nothing() {
    :
}

query() {
    ids_kept=$ids ids=
    each_gpu nothing
    printf '\n==============NVSMI LOG (SIMULATED, nothing is measured)==============\n\n'
    line Timestamp N/A
    line "Driver Version" "$version"
    line "CUDA Version" "$cuda"
    echo
    line "Attached GPUs" "$index"
    ids=$ids_kept
    each_gpu query_gpu
}

# --- --query-gpu=FIELD,… --format=csv[,noheader][,nounits] --------------------------------------

# Set `value` to what is known of a field, and `title` to its name in the first line.
field() {
    title=$1 value="[N/A]"
    case $1 in
    index) value=$index ;;
    count) value=$total ;;
    name | gpu_name) title=name value=$name ;;
    uuid | gpu_uuid) title=uuid value=$uuid ;;
    gpu_bus_id | pci.bus_id) title=pci.bus_id value=$long ;;
    pci.domain) value=$pci_domain ;;
    pci.bus) value=$pci_bus ;;
    pci.device) value=$pci_device ;;
    driver_version) value=$version ;;
    mig.mode.*) value=$mode_of_mig ;;
    memory.* | fb_memory.*) title="$1 [MiB]" ;;
    utilization.* | fan.speed) title="$1 [%]" ;;
    power.* | enforced.power.limit) title="$1 [W]" ;;
    clocks.* | clocks) title="$1 [MHz]" ;;
    temperature.* | pstate | compute_cap | compute_mode | persistence_mode | display_* | serial | \
    timestamp | vbios_version | inforom.* | ecc.* | pcie.* | pci.* | retired_pages.* | accounting.* | \
    driver_model.* | gom.* | encoder.* | gsp.* | fabric.* | addressing_mode | gpu_serial | \
    clocks_*reasons.* | vgpu_* | protected_memory.* | remapped_rows.* | c2c.*) ;;
    *)
        echo "Field \"$1\" is not a valid field to query."
        echo
        exit 2
        ;;
    esac
}

csv_line() {
    IFS=,
    set -f
    text=
    for word in $fields; do
        field "${word# }"
        [ "$1" = value ] || value=$title
        text="${text:+$text, }$value"
    done
    unset IFS
    set +f
    echo "$text"
}

csv_gpu() {
    mig_mode
    pci_words
    csv_line value
}

csv() {
    case $format in
    csv | csv,*) ;;
    *) refuse "--format=$format; csv[,noheader][,nounits] is known" ;;
    esac
    echo "nvidia-smi: SIMULATED: no driver is behind these GPUs" >&2
    ids_kept=$ids ids=
    each_gpu nothing
    total=$index ids=$ids_kept
    heading=$(csv_line title) || {
        echo "$heading"
        exit 2
    }
    case ,$format, in
    *,noheader,*) ;;
    *) echo "$heading" ;;
    esac
    each_gpu csv_gpu
}

# --- the command line ---------------------------------------------------------------------------

refuse() {
    echo "nvidia-smi: SIMULATED: there is no option $1 (see --help)" >&2
    exit 2
}

usage() {
    echo "usage: nvidia-smi [-i ID,…] [-L | -q | --query-gpu=FIELD,… --format=csv[,noheader][,nounits]]"
    echo "SIMULATED driver of minirun: nothing is measured, so much is N/A"
}

cuda=@CUDA@ version=N/A
if [ -r "$proc/version" ]; then
    IFS= read -r version <"$proc/version"
    version=${version##*Module  }
    version=${version%% *}
fi
command=table ids= fields= format=
while [ $# -gt 0 ]; do
    case $1 in
    -L | --list-gpus) command="each_gpu list_gpu" ;;
    -q | --query) command=query ;;
    -h | --help) command=usage ;;
    --query-gpu=?*) command=csv fields=${1#*=} ;;
    --format=?*) format=${1#*=} ;;
    --id=?*) ids=${1#*=} ;;
    -i | --id | -d | --display | --query-gpu | --format)
        [ $# -gt 1 ] || refuse "$1 without a value"
        case $1 in
        -i | --id) ids=$2 ;;
        --query-gpu) command=csv fields=$2 ;;
        --format) format=$2 ;;
        esac
        shift
        ;;
    --display=?*) ;;
    *) refuse "$1" ;;
    esac
    shift
done
$command
