#!/bin/sh
# First program of the machine. pivot_root(2) refuses the initial rootfs, so move everything to a mount of its own.
export PATH=/usr/bin:/usr/sbin
mount -t tmpfs -o mode=755,size=80% tmpfs /new
mkdir /new/dev /new/proc /new/sys
for top in /*; do
    case $top in /dev | /proc | /sys | /new | /init) ;; *) cp -a "$top" /new/ ;; esac
done
exec switch_root /new /vm/main.sh
