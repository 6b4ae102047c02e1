# a program that uses CUDA
. ./lab.env
minirun run --detach --quiet --name lab --gpu-driver simulated --gpus 0 \
  --volume "$PWD/old:/usr/local/cuda/compat" --env LD_LIBRARY_PATH=/usr/local/cuda/compat \
  busybox sleep 1000
