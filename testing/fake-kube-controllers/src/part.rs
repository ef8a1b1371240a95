//! The parts the simulated kube-controllers plays, each of which may be left out.

/// One controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Binds pods to nodes.
    Scheduler,
    /// Keeps ReplicaSets at their size.
    ReplicaSets,
    /// Keeps StatefulSets at their size, in order.
    StatefulSets,
    /// Makes and scales the ReplicaSets of Deployments.
    Deployments,
    /// Puts one pod of each DaemonSet on each node that suits it.
    DaemonSets,
    /// Keeps the status of PodDisruptionBudgets.
    Disruption,
    /// Says `Unknown` of nodes that have fallen silent. The virtual cloud's `Monitor` can do the same for its own nodes: where
    /// this part is played, set that to `Monitor::Absent`, so that one of them is answerable.
    Silence,
    /// Keeps the taints that follow from a node's conditions, and says of the pods of a lost node that they are not ready.
    Taints,
    /// Evicts pods from nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.
    Evictions,
    /// Collects the pods of nodes that are gone.
    Collection,
    /// Binds claims to volumes, and makes volumes for claims of the virtual storage class.
    Claims,
    /// Attaches and detaches volumes.
    Attachment,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Scheduler,
        Self::ReplicaSets,
        Self::StatefulSets,
        Self::Deployments,
        Self::DaemonSets,
        Self::Disruption,
        Self::Silence,
        Self::Taints,
        Self::Evictions,
        Self::Collection,
        Self::Claims,
        Self::Attachment,
    ];
}
