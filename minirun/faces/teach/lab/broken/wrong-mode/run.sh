# what an engine calls: NVIDIA's runtime edits config.json, then it becomes minirun
. ./lab.env
export XDG_CONFIG_HOME="$PWD/etc" MINIRUN_SIM=count=2
cp config.json bundle/config.json
minirun nvidia-container-runtime create --bundle bundle lab
minirun start lab
