# a pod with a claim, what the driver has allocated for it, and the driver's CDI file
. ./lab.env
mkdir cdi
MINIRUN_SIM=count=2 minirun nvidia-ctk cdi generate --vendor k8s.gpu.nvidia.com --class claim \
  --device 1 --output cdi/claim.json
sed -i 's/"name": *"1"/"name": "5d3c-gpu-1"/' cdi/claim.json
cat >pod.json <<'END'
{
  "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"},
  "spec": {
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "one-gpu"}],
    "containers": [
      {"name": "lab", "image": "busybox", "command": ["sleep", "1000"]}
    ]
  }
}
END
echo '{"one-gpu": ["k8s.gpu.nvidia.com/claim=5d3c-gpu-1"]}' >allocated.json
