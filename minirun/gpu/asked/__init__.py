"""Which GPUs a container asks for, who asks, and which of the host they are.

select          --gpus → GPUs of the inventory
request         NvidiaRequest, which stage 4 makes and stage 5 reads
run_request     what `run IMAGE` asks for; vendor_request: the same if the GPUs are not NVIDIA's
drivers         which driver the host has, or whether it is simulated; its inventory
variables       the environment variables that ask for another vendor's GPUs
consent         whether the user asked, or only the image
"""
