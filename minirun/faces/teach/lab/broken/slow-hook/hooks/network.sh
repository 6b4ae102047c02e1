#!/bin/sh
: >rootfs/network
