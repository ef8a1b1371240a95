# The first process of the namespaces of a control plane and its machines. It keeps running and reaps orphaned processes.
# Arguments: the first two numbers of the machines' network, those of the pods' network, and the program to run.
set -eu
machines=$1 pods=$2
shift 2
ip link set lo up
ip link add br0 type bridge
ip address add "$machines.0.1/16" dev br0
ip link set br0 up
echo 1 >/proc/sys/net/ipv4/ip_forward
# The machine with the address A.B.1.N has the pods C.D.N.0/24.
n=1
while [ "$n" -le 30 ]; do
  ip route add "$pods.$n.0/24" via "$machines.1.$n"
  n=$((n + 1))
done
"$@"
