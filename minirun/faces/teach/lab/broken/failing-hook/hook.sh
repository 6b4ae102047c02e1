#!/bin/sh
# createRuntime: gives the container a folder for the user SCRATCH_OWNER
set -eu
bundle=$(sed 's/.*"bundle":"\([^"]*\)".*/\1/')
mkdir -p "$bundle/rootfs/scratch"
chown "$SCRATCH_OWNER" "$bundle/rootfs/scratch"
