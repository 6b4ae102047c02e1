# what a node stands for is its pair of numbers; NVIDIA's GPU 0 is 195:0
rm nodes/nvidia0
mknod nodes/nvidia0 c 195 0
