# a host between two machines, far (outside) and lan, each on a cable; and a container with a port
. ./lab.env
machine() {
  minirun run --detach --quiet --network none --name "$1" busybox httpd -f -p 80
  pid=$(minirun state "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
  sh on-host.sh ip link add "$2" type veth peer name eth0 netns "$pid"
  sh on-host.sh ip address add "$3.1/24" dev "$2"
  sh on-host.sh ip link set "$2" up
  nsenter --target "$pid" --net ip address add "$3.2/24" dev eth0
  nsenter --target "$pid" --net ip link set eth0 up
  nsenter --target "$pid" --net ip route add default via "$3.1"
}
minirun run --detach --quiet --network none --name host busybox sleep 1000
machine far e0 192.0.2
machine lan e1 198.51.100
sh on-host.sh ip route add default via 192.0.2.2
sh on-host.sh nft -f firewall.nft
sh on-host.sh minirun run --detach --quiet --network bridge -p 8080:80 --name lab \
  busybox httpd -f -p 80
