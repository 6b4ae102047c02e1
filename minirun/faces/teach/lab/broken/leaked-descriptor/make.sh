. ./lab.env
mkdir -p bundle/rootfs
minirun run --rm --quiet busybox tar c bin | tar x -C bundle/rootfs
minirun spec busybox sleep 1000 >bundle/config.json
echo 'valid' >licence
