# Checks whether this host supports machines of provider `host`: a bridge, a cgroup, an overlay. It runs in namespaces of all six kinds, and its
# last line says what is missing.
set -e
ip link add mwprobe type bridge
group=$(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2; exit }' /proc/mounts)/millwright-probe.$$.$(date +%N)
mkdir "$group"
rmdir "$group"
folder=$(mktemp -d)
trap 'umount "$folder/merged" 2>/dev/null; rm -rf "$folder"' EXIT
mkdir "$folder/lower" "$folder/upper" "$folder/work" "$folder/merged"
mount -t overlay overlay -o "lowerdir=$folder/lower,upperdir=$folder/upper,workdir=$folder/work" "$folder/merged"
