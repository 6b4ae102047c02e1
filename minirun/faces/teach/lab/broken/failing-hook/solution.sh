# a hook has the environment that config.json gives it, and no other
python3 -c '
import json
config = json.load(open("bundle/config.json"))
config["hooks"]["createRuntime"][0]["env"] = ["SCRATCH_OWNER=1000"]
json.dump(config, open("bundle/config.json", "w"), indent=2)'
