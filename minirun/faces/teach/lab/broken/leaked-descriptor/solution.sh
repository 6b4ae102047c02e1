# one descriptor is the container's; and what the engine does not need it closes
sed -i 's/--preserve-fds 2/--preserve-fds 1/' run.sh
