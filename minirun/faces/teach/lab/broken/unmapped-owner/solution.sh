# the map ends at 65535: it has to be longer, in ids that no other user of this host has
sed -i 's/100000 65536/100000 131072/' run.sh
