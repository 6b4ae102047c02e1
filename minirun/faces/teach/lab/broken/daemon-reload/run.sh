# GPU 0, put in by stage 5; then the lab does what systemd does at `systemctl daemon-reload`:
# it writes the device rules anew that it knows of, which are those of config.json
. ./lab.env
minirun run --detach --quiet --name lab --gpu-driver simulated --gpus 0 busybox sleep 1000
