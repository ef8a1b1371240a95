//! Simulates kube-scheduler and kube-controller-manager as far as machine controllers depend on them.
//!
//! A realistic drain needs the handling of evicted pods. With the in-memory API server no component would bind, replace or
//! collect them. This crate runs these controllers against any API server. A real control plane has the real programs;
//! there this crate is not run, and if the two differ, this crate is wrong.
//!
//! | module | simulates |
//! | --- | --- |
//! | `scheduler` | binding of pods to nodes, and reporting why a pod is unschedulable |
//! | `workload` | ReplicaSets, StatefulSets, Deployments, DaemonSets |
//! | `disruption` | the status of PodDisruptionBudgets |
//! | `node_lifecycle` | silent nodes, taints, taint-based evictions, collection of orphaned pods |
//! | `volume` | claims and their volumes, VolumeAttachments and `volumesAttached` |
//!
//! The virtual cloud simulates kubelets and CSI drivers. The API server implements garbage collection and the deletion of
//! namespaces. Every part can be omitted ([`Part`]). Each is a pure decision in a thin shell, woken by changes and never by
//! polling. [`Policy`] contains every period.

mod context;
mod disruption;
mod node;
mod node_lifecycle;
mod part;
mod pod;
mod policy;
mod scheduler;
mod selection;
mod share;
mod supply;
mod time;
mod volume;
mod wiring;
mod workload;
mod write;

pub use part::Part;
pub use policy::Policy;
pub use wiring::KubeControllers;
