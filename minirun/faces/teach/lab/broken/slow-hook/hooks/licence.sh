#!/bin/sh
# asks the licence server, until it answers
until [ -e /run/licence-server.of-the-lab ]; do sleep 1; done
: >rootfs/licence
