# a private namespace neither sends nor receives mounts; slave would do too: it only receives
sed -i 's/--propagation unchanged/--propagation private/' run.sh
