# a bundle that has /dev/nvidia0 among its devices
. ./lab.env
minirun run --detach --bundle bundle lab
