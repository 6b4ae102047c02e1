# a container with GPU 0, as its name says
. ./lab.env
minirun run --detach --quiet --name lab --device "$PWD/nodes/nvidia0:/dev/nvidia0" \
  busybox sleep 1000
