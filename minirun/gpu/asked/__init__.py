"""Which GPUs a container asks for, who asks, and which of the host they are.

select          --gpus → GPUs of the inventory
request         NvidiaRequest, which stage 4 makes and stage 5 reads
of_bundle       NVIDIA's variables, and a bundle whose GPUs the caller names
ways            the four ways in which `run IMAGE` may ask, and what config.json gets for each
"""
