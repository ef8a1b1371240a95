# The first process of the namespaces that the suite is played in. It stays, and reaps what machines leave.
set -eu
ip link set lo up
ip link add br0 type bridge
ip address add 10.77.0.1/16 dev br0
ip link set br0 up
echo 1 >/proc/sys/net/ipv4/ip_forward
# A machine with the address 10.77.1.N has the pods 10.88.N.0/24.
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do ip route add "10.88.$n.0/24" via "10.77.1.$n"; done
"$@"
