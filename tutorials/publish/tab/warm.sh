# Lines that are typed before the state is saved: what they read stays in memory, and in the state.
# The last ones remove their traces, also from what draws, which init starts anew: it may be late with
# a run. They fill with zeros what is free: pages of zeros are not saved.
minirun run --rm --network none busybox true
minirun run --rm --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'
minirun run --rm busybox true
minirun ps; tmux -V; nft --version; ip -V; nano --version | head -1; strace -V | head -1
sleep 10
rm -rf /var/lib/minirun/containers/.history
echo 3 >/proc/sys/vm/drop_caches
minirun run --rm --network none busybox true
minirun run --rm --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'
sleep 10
rm -rf /var/lib/minirun/containers/.history
pkill -f /opt/picture.py; sleep 20
free=$(awk '/^MemFree/ {print $2 - 6000}' /proc/meminfo); head -c ${free}K /dev/zero >/run/zeros; rm /run/zeros
history -c; clear
