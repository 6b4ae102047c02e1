"""GPUs of other vendors than NVIDIA: AMD, Intel, Intel Gaudi; by CDI, in config.json.

NVIDIA's driver is thirty files that must match the kernel module; of these three all user space is
in the image, and what a container needs of the host are device nodes. So discovery is sysfs alone
(minirun.toolkit.vendors), and one planner serves all three:

    --gpus 0,1 --gpu-driver=amd      the CDI devices amd.com/gpu=0 and =1
    --device amd.com/gpu=0           the same; where no spec names it, one is made in memory
    AMD_VISIBLE_DEVICES=0-3          in the environment of a bundle; HABANA_VISIBLE_DEVICES. Only
                                     where minirun was started with --gpu-driver=amd, or gaudi:
                                     an image may have set it, and that is no consent

What the real ones do: amd-container-runtime and habana-container-runtime write nodes and cgroup
rules (rwm) into config.json and hand over to runc; Intel has CDI specs alone. Here too it is in
config.json before stage 1 (minirun.gpu.asked.ways.vendor), so stages 3 to 5 have no part in it.

Nodes belong to the groups video and render, so a command that is not root gets those groups too
(podman's --group-add keep-groups). Not in a user namespace: there they have no number.

    signs               which vendors there are, and what a container asks for their GPUs by
    discovery           what the host has of one vendor, and the planner. What a vendor's driver
                        shows in /sys: minirun.toolkit.vendors
"""
