#!/bin/sh
# vm.sh <folder> <root image> <images for pods> <kubelet>: makes what machines of provider `qemu` boot: <folder>/kernel, <folder>/initrd, and a disk
# with all the rest, <folder>/disk.img. Needs curl, dpkg-deb, mkfs.ext4 (e2fsprogs), sha256sum and root, and says what it is doing. Nothing is mounted.
set -eu
here=$(dirname "$0") into=$1 root_image=$2 images=$3 kubelet=$4
work=$into/work root=$into/work/root initrd=$into/work/initrd
mkdir -p "$work"

echo "fetching the kernel"
while read -r sum url; do
  case $sum in '' | '#'*) continue ;; esac
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --max-time 300 --output "$work/package.deb" "$url"
  echo "$sum  $work/package.deb" | sha256sum --check --quiet
  dpkg-deb --extract "$work/package.deb" "$work/kernel"
done <"$here/vm-packages.txt"
cp "$work"/kernel/boot/vmlinuz-* "$into/kernel"
modules=$(echo "$work"/kernel/lib/modules/*)
version=${modules##*/}

echo "making the first root"
mkdir -p "$initrd/bin" "$initrd/proc" "$initrd/sys" "$initrd/dev" "$initrd/root" "$initrd/modules"
cp "$root_image/bin/busybox" "$initrd/bin/busybox"
cp "$here/vm-initrd.sh" "$initrd/init"
chmod 0755 "$initrd/init"
# In the order in which they need each other.
for module in virtio/virtio virtio/virtio_ring virtio/virtio_pci_legacy_dev virtio/virtio_pci_modern_dev virtio/virtio_pci block/virtio_blk; do
  cp "$modules/kernel/drivers/$module.ko" "$initrd/modules"
  echo "${module##*/}" >>"$initrd/modules/order"
done
(cd "$initrd" && find . | "$root_image/bin/busybox" cpio -o -H newc | gzip -1) >"$into/initrd" 2>"$work/cpio.log"

echo "making the disk"
cp -a "$root_image" "$root"
mkdir -p "$root/lib/modules" "$root/images" "$root/seed" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/etc/acpi/PWRF"
cp -a "$modules" "$root/lib/modules/$version"
"$root_image/bin/busybox" depmod -b "$root" "$version"
cp "$images"/*.tar "$root/images"
install -m 0755 "$kubelet" "$root/usr/local/bin/kubelet"
install -m 0755 "$here/vm-init.sh" "$root/sbin/millwright-init"
# What busybox's acpid runs when the power button is pressed.
printf '#!/bin/sh\nsync\npoweroff -f\n' >"$root/etc/acpi/PWRF/00000080"
chmod 0755 "$root/etc/acpi/PWRF/00000080"
# Sparse: it takes what is in it. The room is for images and logs of pods.
truncate --size=4G "$into/disk.img"
mkfs.ext4 -q -F -d "$root" "$into/disk.img"
rm -rf "$work"
