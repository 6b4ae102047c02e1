# with CDI the GPU stands in config.json, for systemd too, before the cgroup is made
sed -i 's/--gpus 0/--gpus 0 --gpu-mode cdi/' run.sh
