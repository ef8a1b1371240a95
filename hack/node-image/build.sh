#!/bin/sh
# build.sh <folder>: makes the root image of machines in <folder>/root, and images for their pods, without a registry, in <folder>/images.
# Needs curl, dpkg-deb, tar, sha256sum and root; says on standard output what it is doing. The caller sees to it that a folder that was
# left half made is not taken for a result.
set -eu
here=$(dirname "$0") into=$1
root=$into/root
mkdir -p "$into/packages" "$into/images" "$root"

echo "fetching packages"
while read -r sum url; do
  case $sum in '' | '#'*) continue ;; esac
  file=$into/packages/${url##*/}
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --max-time 300 --output "$file" "$url"
  echo "$sum  $file" | sha256sum --check --quiet
done <"$here/packages.txt"

echo "unpacking packages"
for folder in bin sbin lib lib64; do
  mkdir -p "$root/usr/$folder"
  ln -s "usr/$folder" "$root/$folder"
done
for package in "$into"/packages/*.deb; do
  dpkg-deb --fsys-tarfile "$package" >"$into/packages/files.tar"
  tar --extract --file "$into/packages/files.tar" --directory "$root" --keep-directory-symlink --no-same-owner
done
rm -rf "$into/packages" "$root/usr/share"
mkdir -p "$root/root" "$root/usr/local/bin" "$root/var/lib" "$root/var/log" "$root/etc"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
for applet in $("$root/bin/busybox" --list); do
  [ -e "$root/usr/bin/$applet" ] || [ -e "$root/usr/sbin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
done

# An image is a layer with busybox in it, and two files that say so, in the form that `docker save` writes.
image() {
  name=$1 entry=$2 work=$into/images/$1.work
  mkdir -p "$work/layer/bin" "$work/layer/etc" "$work/layer/tmp" "$work/layer/proc" "$work/layer/sys" "$work/layer/dev" "$work/out"
  cp "$root/bin/busybox" "$work/layer/bin/busybox"
  for applet in cat echo env hostname httpd ip kill ls mkdir nc ps sh sleep sync touch wget; do ln -s busybox "$work/layer/bin/$applet"; done
  tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --file "$work/out/layer.tar" --directory "$work/layer" .
  layer=$(sha256sum "$work/out/layer.tar" | cut -d ' ' -f 1)
  printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":[%s]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{}]}' \
    "$entry" "$layer" >"$work/out/config.json"
  printf '[{"Config":"config.json","RepoTags":["millwright.local/%s:1"],"Layers":["layer.tar"]}]' "$name" >"$work/out/manifest.json"
  tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --file "$into/images/$name.tar" --directory "$work/out" .
  rm -rf "$work"
}
echo "making images"
image busybox '"/bin/sh"'
image pause '"/bin/sleep","2147483647"'
