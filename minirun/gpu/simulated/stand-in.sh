#!/bin/sh
echo "${0##*/}: SIMULATED by minirun: no driver is behind this program" >&2
exit 1
