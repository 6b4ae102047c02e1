# a program that uses CUDA
. ./lab.env
minirun run --detach --quiet --name lab --gpu-driver simulated --gpus 0 \
  --env NVIDIA_DRIVER_CAPABILITIES=utility busybox sleep 1000
