. ./lab.env
mkdir -p bundle/rootfs
minirun run --rm --quiet busybox tar c bin | tar x -C bundle/rootfs
mkdir nodes
mknod nodes/nvidia0 c 195 0
minirun spec --device "$PWD/nodes/nvidia0:/dev/nvidia0" busybox sleep 1000 >bundle/config.json
python3 -c '
import json
config = json.load(open("bundle/config.json"))
rules = config["linux"]["resources"]["devices"]
config["linux"]["resources"]["devices"] = [rule for rule in rules if rule.get("major") != 195]
json.dump(config, open("bundle/config.json", "w"), indent=2)'
