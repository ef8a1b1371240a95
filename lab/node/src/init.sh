# The first process of the namespaces that a control plane and its machines live in. It stays, and reaps what machines leave.
# Arguments: the first two numbers of the machines' network, those of the pods', and what to run.
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
