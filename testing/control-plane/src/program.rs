//! The programs, under the names that others know them by.

use std::fmt;

/// One program of the control plane, or the tool that talks to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, node life cycle, volumes, service accounts and the other controllers of Kubernetes.
    ControllerManager,
    /// Binds pods to nodes.
    Scheduler,
    /// The command line; compiled with the others so that its version fits, never started as a server.
    Kubectl,
    /// The agent of a node. It runs in machines, never as a part of the control plane, and has a recipe of its own.
    Kubelet,
    /// What installs charts; ours is held to `deploy/` with it. It has a recipe of its own.
    Helm,
}

impl Program {
    /// Those of the control plane, smallest build first: whoever watches a first build sees an early success.
    pub const ALL: [Self; 5] = [Self::Etcd, Self::Kubectl, Self::Scheduler, Self::ControllerManager, Self::ApiServer];

    /// Its file name, which is also the name of its log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::Helm => "helm",
        }
    }

    /// The Go package that holds its `main`.
    pub fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::Helm => "helm.sh/helm/v3/cmd/helm",
        }
    }

    /// The Go module whose version a recipe is known by. That of etcd follows Kubernetes.
    pub fn module(self) -> &'static str {
        match self {
            Self::Etcd
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubectl
            | Self::Kubelet => "k8s.io/kubernetes",
            Self::Helm => "helm.sh/helm/v3",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
