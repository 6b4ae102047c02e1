# after each update of the driver
. ./lab.env
MINIRUN_SIM=count=2 minirun nvidia-ctk cdi generate --output cdi/nvidia.json
