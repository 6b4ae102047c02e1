#!/bin/sh
: >rootfs/log
