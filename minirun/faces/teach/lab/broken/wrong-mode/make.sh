# a bundle as an engine makes it today: GPU 0 by its CDI name, and a config.toml from long ago
. ./lab.env
mkdir -p bundle/rootfs cdi etc/nvidia-container-runtime
minirun run --rm --quiet busybox tar c bin | tar x -C bundle/rootfs
MINIRUN_SIM=count=2 minirun nvidia-ctk cdi generate --output cdi/nvidia.yaml
minirun spec busybox sleep 1000 >config.json
python3 -c '
import json
config = json.load(open("config.json"))
config["annotations"] = {"cdi.k8s.io/nvidia-device-plugin": "nvidia.com/gpu=0"}
json.dump(config, open("config.json", "w"), indent=2)'
cat >etc/nvidia-container-runtime/config.toml <<END
[nvidia-container-runtime]
mode = "legacy"
runtimes = ["minirun"]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
spec-dirs = ["$PWD/cdi"]
END
