# a CDI file as the administrator generated it: before the driver was updated
. ./lab.env
mkdir cdi
MINIRUN_SIM=count=2 minirun nvidia-ctk cdi generate --output cdi/nvidia.json
sed -i -E 's/libcuda\.so\.[0-9][0-9.]+/libcuda.so.535.01/g' cdi/nvidia.json
