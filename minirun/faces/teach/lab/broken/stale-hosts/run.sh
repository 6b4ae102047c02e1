# lab finds its database by the name in its hosts file; then the database gets another address
. ./lab.env
printf '127.0.0.1 localhost\n10.7.0.3 db\n' >hosts
minirun run --detach --quiet --network none --name db busybox httpd -f -p 80
minirun run --detach --quiet --network none --name lab -v "$PWD/hosts:/etc/hosts" \
  busybox sleep 1000
pid=$(minirun state lab | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
sh on.sh db ip link add eth0 type veth peer name eth0 netns "$pid"
sh on.sh lab ip address add 10.7.0.2/24 dev eth0
sh on.sh db ip address add 10.7.0.3/24 dev eth0
sh on.sh lab ip link set eth0 up
sh on.sh db ip link set eth0 up
sh on.sh db ip address del 10.7.0.3/24 dev eth0
sh on.sh db ip address add 10.7.0.4/24 dev eth0
sed -i 's/10.7.0.3/10.7.0.4/' hosts
