#!/bin/sh
# User data that makes a node of a machine of provider `host` or `qemu` on what the scripts beside this file make: containerd, a CNI bridge, and a kubelet that joins
# with its bootstrap token. Millwright fills in what stands between << and >>. What stands between @ is the same for all machines of a cluster; whoever
# makes the Secret fills it in: the provider, the API server, its certificate authority, the cluster's name, the first two numbers of the pods' network.
set -eu

address=$(ip -4 -o address show dev eth0 | sed 's/.* inet \([0-9.]*\).*/\1/')
# Each machine has a /24 for its pods, by the last number of its address. Routes to it are the host's affair.
pods=@PODS@.${address##*.}.0/24

mkdir -p /etc/cni/net.d /etc/containerd /etc/kubernetes/manifests /var/lib/kubelet
cat >/etc/containerd/config.toml <<'END'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "millwright.local/pause:1"
  disable_apparmor = true
  # A host may withhold the right to lower it (CAP_SYS_RESOURCE).
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
END
cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >/etc/kubernetes/ca.crt <<'END'
@CA@
END
cat >/etc/kubernetes/bootstrap.kubeconfig <<'END'
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "@SERVER@", certificate-authority: /etc/kubernetes/ca.crt}}]
users: [{name: u, user: {token: "<<BOOTSTRAP_TOKEN>>"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
chmod 0600 /etc/kubernetes/bootstrap.kubeconfig
cat >/etc/kubernetes/kubelet.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
providerID: @PROVIDER@:///@CLUSTER@/<<MACHINE_NAME>>
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
resolvConf: ""
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/ca.crt}}
authorization: {mode: Webhook}
rotateCertificates: true
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
# Both are shorter than usual, so that a node that fell silent is noticed soon.
nodeLeaseDurationSeconds: 8
nodeStatusUpdateFrequency: 4s
END
# A kubelet that is to tell how full its disk is has to find it, and it does not look below overlays.
root=$(sed -n 's/^[^ ]* \/ \([^ ]*\) .*/\1/p' /proc/mounts | tail -n 1)
if [ "$root" = overlay ]; then echo "localStorageCapacityIsolation: false" >>/etc/kubernetes/kubelet.yaml; fi

containerd >/var/log/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for archive in /images/*.tar /more-images/*.tar; do
  if [ -e "$archive" ]; then ctr --namespace k8s.io images import "$archive"; fi
done
kubelet --config=/etc/kubernetes/kubelet.yaml --bootstrap-kubeconfig=/etc/kubernetes/bootstrap.kubeconfig \
  --kubeconfig=/var/lib/kubelet/kubeconfig --cert-dir=/var/lib/kubelet/pki --hostname-override="<<MACHINE_NAME>>" \
  --node-ip="$address" --v=2 >/var/log/kubelet.log 2>&1 &
