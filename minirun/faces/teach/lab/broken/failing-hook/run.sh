# a bundle with a hook of yours
. ./lab.env
rm -rf bundle/rootfs/scratch
export SCRATCH_OWNER=1000
minirun run --detach --bundle bundle lab
