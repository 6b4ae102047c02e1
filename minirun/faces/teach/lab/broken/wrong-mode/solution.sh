# in mode legacy a hook is put in, which reads variables and no annotation; auto looks at what is asked
. ./lab.env
minirun nvidia-ctk config --config etc/nvidia-container-runtime/config.toml --in-place \
  --set nvidia-container-runtime.mode=auto
