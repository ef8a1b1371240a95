# The first process of a lab's namespaces: records its process id in the outer namespace, mounts an overlay on the installed root, and executes the script in it
# that starts all services. Arguments: the layers of the installed root, the lab's folder, the ports.
set -eu
root=$2/root
# The id of the process that opens it, which is this shell, in the PID namespace of the mounted /proc, which is still that of the caller.
read -r pid _ </proc/self/stat
echo "$pid" >"$2/pid"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$2/shared" "$root/stack/shared"
echo "$3" >"$root/stack/ports"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$root" bash /stack/start.sh
