"""GPU injection: inventory → select → edits → apply (design, section 4).

hook        stage 4: config.json and its environment → arguments of nvidia-container-cli
cli_args    stage 5: those arguments → a Request; the command line of nvidia-container-cli
inventory   what the host has: real driver (real, nvml, ldcache) or simulated
select      which of it: --gpus, device selectors; environment, require
nvidia      the planner: Inventory + Request + container → Edits
apply       the applier: Edits → operations → the container; ldconfig last
usage       who uses which GPU
toolkit     the programs of NVIDIA's stack around stage 5: hook, runtime, nvidia-ctk
"""
