#!/bin/sh
# packages.sh <folder>: unpacks Debian's packages of OpenStack in <folder>/root. This is what takes minutes, so it depends on nothing but packages.txt.
# Needs root, apt-get with Debian 12 among its sources, wget and unshare; says on standard output what it is doing. The caller sees to it that a folder
# that was left half made is not taken for a result.
set -eu
here=$(cd "$(dirname "$0")" && pwd) into=$1
root=$into/root
mkdir -p "$into/apt/lists/partial" "$into/apt/archives/partial" "$into/tools"

# Runs in namespaces with nothing of the host but its devices, which go with the command.
inside() {
  unshare --mount --uts --ipc --pid --fork --kill-child --propagation private "$@"
}
# The host's sources with lists of our own: a host that has not asked its mirror for weeks would name packages that are gone.
apt() {
  apt-get -o Dir::State::lists="$into/apt/lists" -o Dir::Cache="$into/apt" "$@"
}
echo "asking for Debian's packages"
apt --quiet=2 update >&2 || true # a source that we do not need may be away
sources() {
  apt indextargets --format "\$(ORIGIN) \$(CODENAME) \$(COMPONENT) \$(REPO_URI)" 'Created-By: Packages' | sort -u
}
mirror=$(sources | sed -n 's/^Debian bookworm main //p' | head -n 1)
if [ -z "$mirror" ]; then
  echo "apt-get has no source of Debian 12 (bookworm)" >&2
  exit 1
fi
(cd "$into/tools" && apt --quiet=2 download debootstrap >&2 && dpkg-deb --extract debootstrap_*.deb .)

echo "unpacking Debian"
export DEBOOTSTRAP_DIR="$into/tools/usr/share/debootstrap"
inside sh "$into/tools/usr/sbin/debootstrap" --variant=minbase bookworm "$root" "$mirror" >&2
rm -rf "$root/etc/apt/sources.list" "$into/tools"
sources | sed -n 's/^Debian \(bookworm[a-z-]*\) main \(.*\)/deb \2 \1 main/p' >"$root/etc/apt/sources.list.d/host.list"
apt-config dump | grep '^Acquire::https\?::Proxy' >"$root/etc/apt/apt.conf.d/proxy" || true
rm -rf "$into/apt"
# No service is started by its package: there is no init, and the ports may be somebody else's.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"
printf 'force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\n' >"$root/etc/dpkg/dpkg.cfg.d/small"

enter='hostname stack; mount -t proc proc "$0/proc"; mount -t sysfs -o ro sysfs "$0/sys"; mount --rbind /dev "$0/dev"; exec chroot "$0" "$@"'

echo "installing OpenStack's packages"
packages=$(sed 's/#.*//' "$here/packages.txt")
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive inside sh -c "$enter" "$root" sh -c 'apt-get -qq update && apt-get -qq install --yes --no-install-recommends "$@" && apt-get clean && rm -rf /var/lib/apt/lists' apt $packages >&2
rm -rf "$root/var/lib/mysql" # the package makes a database that nobody uses
chroot "$root" dpkg-query --show >"$into/installed"
