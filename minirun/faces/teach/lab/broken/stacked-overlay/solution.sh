# a volume: a file system of another kind, mounted in the disk (docker in docker has one at /var/lib/docker)
sed -i 's|^place=.*|place=disk/volume\nmkdir disk/volume\nmount -t tmpfs tmpfs disk/volume|' run.sh
