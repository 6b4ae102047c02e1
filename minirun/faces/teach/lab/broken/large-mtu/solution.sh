# what lab sends must fit through the narrowest link, since no ICMP tells lab how wide it is
echo 'sh on.sh lab ip link set eth0 mtu 1400' >>run.sh
