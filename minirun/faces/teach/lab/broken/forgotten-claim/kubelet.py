"""What a kubelet does with claims: it gives a container the CDI names of those that it names."""

import json
import os

with open("pod.json") as pod, open("allocated.json") as allocated:
    spec, names = json.load(pod)["spec"], json.load(allocated)
claims = {each["name"]: each["resourceClaimName"] for each in spec.get("resourceClaims", [])}
for container in spec["containers"]:
    own = container.get("resources", {}).get("claims", [])
    devices = [name for each in own for name in names[claims[each["name"]]]]
    words = ["run", "--detach", "--quiet", "--name", container["name"]]
    words += ["--cdi-spec-dir", os.path.abspath("cdi")]
    words += [word for name in devices for word in ("--device", name)]
    os.spawnvp(os.P_WAIT, "minirun", ["minirun", *words, container["image"], *container["command"]])
