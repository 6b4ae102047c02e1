. ./lab.env
mkdir -p bundle/rootfs
minirun run --rm --quiet busybox tar c bin | tar x -C bundle/rootfs
minirun spec busybox sleep 1000 >bundle/config.json
python3 -c '
import json
config = json.load(open("bundle/config.json"))
hooks = [{"path": "'"$PWD"'/hooks/" + name + ".sh", "env": ["MINIRUN_LAB='"$PWD"'"]}
         for name in ("network", "licence", "log")]
config["hooks"] = {"createRuntime": hooks}
json.dump(config, open("bundle/config.json", "w"), indent=2)'
chmod +x hooks/*
