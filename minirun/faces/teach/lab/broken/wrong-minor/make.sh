# a node that a script made, for GPU 0
mkdir nodes
mknod nodes/nvidia0 c 195 1
