# the node is one half; the other is the rule that lets the container's cgroup open it
python3 -c '
import json
config = json.load(open("bundle/config.json"))
rule = {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}
config["linux"]["resources"]["devices"].append(rule)
json.dump(config, open("bundle/config.json", "w"), indent=2)'
