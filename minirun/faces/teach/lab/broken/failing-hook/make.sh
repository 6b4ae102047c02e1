. ./lab.env
mkdir -p bundle/rootfs
minirun run --rm --quiet busybox tar c bin | tar x -C bundle/rootfs
minirun spec busybox sleep 1000 >bundle/config.json
python3 -c '
import json
config = json.load(open("bundle/config.json"))
config["hooks"] = {"createRuntime": [{"path": "'"$PWD"'/hook.sh"}]}
json.dump(config, open("bundle/config.json", "w"), indent=2)'
chmod +x hook.sh
