#!/bin/busybox sh
# The first process of a virtual machine: it finds the disk and goes on there.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do $busybox insmod "/modules/$module.ko"; done </modules/order
until [ -e /dev/vda ]; do $busybox sleep 0.1; done
$busybox mount -t ext4 /dev/vda /root
$busybox mount --move /dev /root/dev
$busybox umount /proc /sys
exec $busybox switch_root /root /sbin/millwright-init
