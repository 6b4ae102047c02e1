# GPU 0, by its name in the CDI file
. ./lab.env
minirun run --detach --quiet --name lab --cdi-spec-dir "$PWD/cdi" --device nvidia.com/gpu=0 \
  busybox sleep 1000
