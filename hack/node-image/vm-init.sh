#!/bin/sh
# What init and cloud-init do on other machines: file systems, the network that qemu has in user mode, name and user data from the seed.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
# Volumes that a kubelet mounts have to show in containers.
mount --make-rshared /
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control; done
for module in virtio_rng virtio_net vfat nls_cp437 nls_ascii overlay veth bridge br_netfilter button evdev; do modprobe "$module"; done
echo 1 >/proc/sys/net/ipv4/ip_forward
acpid -d >/dev/null 2>&1 &

ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2

mount -t vfat -o ro /dev/vdb /seed
hostname "$(sed -n 's/^local-hostname: //p' /seed/meta-data)"
hostname >/etc/hostname
echo "127.0.0.1 localhost" >/etc/hosts
: >/etc/resolv.conf
cp /seed/user-data /run/user-data
umount /seed
chmod 0700 /run/user-data
/run/user-data </dev/null >/var/log/user-data.log 2>&1 &
echo "user data runs since $(cut -d ' ' -f 1 /proc/uptime) s" >/dev/console
while :; do
  sleep 2147483647 &
  wait
done
