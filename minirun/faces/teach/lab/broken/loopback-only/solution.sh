# without an address it listens on all of them, also on those that come later
sed -i 's/-p 127.0.0.1:80/-p 80/' run.sh
