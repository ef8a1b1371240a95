#!/bin/sh
# build.sh <folder> <packages>: makes an OpenStack of the packages that packages.sh unpacked in <packages>/root: our scripts, databases, users, a catalogue, and
# what a tenant needs to make servers. What is made is <folder>/layer, to be mounted on that root. Needs root, unshare and an overlay file system; says on
# standard output what it is doing. The caller sees to it that a folder that was left half made is not taken for a result.
set -eu
here=$(cd "$(dirname "$0")" && pwd) into=$1 packages=$2
mkdir -p "$into/layer/stack" "$into/work" "$into/root"
cp "$here/stack/"* "$into/layer/stack/"
python=$into/layer/usr/lib/python3/dist-packages
mkdir -p "$python/nova/virt" "$python/cinder/volume/drivers"
mv "$into/layer/stack/millwright_lab.py" "$python/nova/virt/"
mv "$into/layer/stack/millwright_volumes.py" "$python/cinder/volume/drivers/"
# Namespaces with nothing of the host but its devices, which go with the command. A network of its own: the ports are the same for every build.
# shellcheck disable=SC2016
unshare --mount --uts --ipc --pid --net --fork --kill-child --propagation private sh -eu -c '
  mount -t overlay overlay -o "lowerdir=$2/root,upperdir=$1/layer,workdir=$1/work" "$1/root"
  hostname stack
  mount -t proc proc "$1/root/proc"
  mount -t sysfs -o ro sysfs "$1/root/sys"
  mount --rbind /dev "$1/root/dev"
  exec chroot "$1/root" bash /stack/make.sh' build "$into" "$packages"
rm -rf "$into/work" "$into/root"
