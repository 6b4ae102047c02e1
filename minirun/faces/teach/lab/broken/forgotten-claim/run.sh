# the pod, as a kubelet starts it
. ./lab.env
python3 kubelet.py
