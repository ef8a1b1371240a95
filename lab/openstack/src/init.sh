# The first process of a lab's namespaces: writes down its process id as others see it, puts an overlay on the root that was installed, and becomes the script in it
# that starts all services. Arguments: the layers of the root that was installed, the lab's folder, the ports.
set -eu
root=$2/root
# Of the process that opens it, which is this shell, in the namespace of the /proc that is mounted, which is still our starter's.
read -r pid _ </proc/self/stat
echo "$pid" >"$2/pid"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$2/shared" "$root/stack/shared"
echo "$3" >"$root/stack/ports"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$root" bash /stack/start.sh
