# a bundle with three hooks; each leaves a file when it is done
. ./lab.env
rm -f bundle/rootfs/network bundle/rootfs/licence bundle/rootfs/log
minirun run --detach --bundle bundle lab
