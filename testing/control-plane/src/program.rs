//! The programs and their names.

use std::fmt;

/// A program of the control plane, or a tool for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The database of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, node life cycle, volumes, service accounts and the other controllers of Kubernetes.
    ControllerManager,
    /// Binds pods to nodes.
    Scheduler,
    /// The command-line client. It is compiled with the others, so that its version matches, and never started as a
    /// server.
    Kubectl,
    /// The node agent. It runs in machines, not in the control plane, and has a separate recipe.
    Kubelet,
    /// Installs charts; used to check the Helm chart. It has a separate recipe.
    Helm,
}

impl Program {
    /// The programs of the control plane. The smallest build is first, so that a first build shows progress early.
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

    /// The Go module whose version is the version of the recipe. The version of etcd depends on Kubernetes.
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
