# Starts a machine, from a shell on the host to its init. Each part executes the next one; the parameters are in the environment (MW_*).
#
# join:  joins the machine's cgroups first, so that all processes started from here are found as the machine's. Standard
#        input is the lock of the state directory: it is released here.
# enter: has a cgroup namespace with the machine's cgroup as its root, and creates the other namespaces.
# init:  is the first process of the machine. Mounts its root, waits for its link and moves into the root, with pivot_root, because a
#        process that only changed its root with chroot can escape from it.
# boot:  is still the first process, without access to another root. Runs the user data, then reaps orphaned processes.
set -eu

case $1 in
join)
  for group in $MW_CGROUPS; do echo $$ >"$group/cgroup.procs"; done
  exec </dev/null
  exec setsid --fork unshare --cgroup sh -c "$MW_SCRIPT" millwright-machine enter
  ;;

enter)
  for leaf in $MW_LEAVES; do
    mkdir -p "$leaf"
    echo $$ >"$leaf/cgroup.procs"
  done
  exec unshare --net --mount --uts --ipc --pid --fork --propagation private sh -c "$MW_SCRIPT" millwright-machine init
  ;;

init)
  root=$MW_HOME/root
  echo "$MW_NAME" >/proc/sys/kernel/hostname
  mount -t overlay overlay -o "lowerdir=$MW_ROOT_IMAGE,upperdir=$MW_HOME/upper,workdir=$MW_HOME/work" "$root"
  cd "$root"
  mkdir -p dev etc proc run sys tmp .host var/lib/containerd var/lib/kubelet var/log
  echo "$MW_NAME" >etc/hostname
  printf '127.0.0.1 localhost\n%s %s\n' "${MW_ADDRESS%/*}" "$MW_NAME" >etc/hosts

  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t tmpfs -o mode=0755 run run
  mount -t tmpfs -o mode=1777 tmp tmp
  # Version 1 has a hierarchy for each controller, each in a separate directory; version 2 has one.
  if [ "${MW_CGROUP_MOUNTS%%|*}" = cgroup ]; then mount -t tmpfs -o mode=0755 cgroup sys/fs/cgroup; fi
  for mount in $MW_CGROUP_MOUNTS; do
    type=${mount%%|*} rest=${mount#*|}
    options=${rest%%|*} place=sys/fs/cgroup/${rest#*|}
    mkdir -p "$place"
    mount -t "$type" ${options:+-o "$options"} cgroup "$place"
  done
  mount -t tmpfs -o mode=0755 dev dev
  for device in null zero full random urandom tty kmsg fuse; do
    if [ -e "/dev/$device" ]; then : >"dev/$device"; mount --bind "/dev/$device" "dev/$device"; fi
  done
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
  mount -t tmpfs -o mode=1777 shm dev/shm
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  # An overlay cannot be the upper layer of containers' overlays.
  mount --bind "$MW_HOME/containerd" var/lib/containerd
  mount --bind "$MW_HOME/kubelet" var/lib/kubelet
  for mount in $MW_MOUNTS; do
    from=${mount%%|*} to=.${mount#*|}
    mkdir -p "${to%/*}"
    if [ -d "$from" ]; then mkdir -p "$to"; else : >>"$to"; fi
    mount --bind "$from" "$to"
    mount -o remount,bind,ro "$to"
  done
  cp "$MW_HOME/user-data" run/user-data
  chmod 0700 run/user-data

  tries=0
  until [ -e sys/class/net/eth0 ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 1500 ]; then echo "no link came within 30 s" >&2; exit 1; fi
    sleep 0.02
  done
  ip link set lo up
  ip address add "$MW_ADDRESS" dev eth0
  ip link set eth0 up
  if [ -n "$MW_GATEWAY" ]; then ip route add default via "$MW_GATEWAY"; fi

  boot=$MW_SCRIPT
  unset MW_SCRIPT MW_CGROUPS MW_LEAVES MW_CGROUP_MOUNTS MW_MOUNTS MW_HOME MW_ROOT_IMAGE MW_ADDRESS MW_GATEWAY MW_NAME
  pivot_root . .host
  exec /bin/sh -c "$boot" millwright-machine boot
  ;;

boot)
  cd /
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
  umount -l /.host
  rmdir /.host
  # Mounts of the kubelet's volumes must propagate to containers.
  mount --make-rshared /
  /run/user-data </dev/null >/var/log/user-data.log 2>&1 &
  # From here on nothing is written to the host.
  exec </dev/null >/dev/null 2>&1
  sleep 2147483647 &
  wait
  ;;
esac
