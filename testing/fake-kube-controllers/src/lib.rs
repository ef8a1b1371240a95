//! What kube-scheduler and kube-controller-manager do to a cluster, as far as machine controllers meet it.
//!
//! A drain is only as real as what happens to the pods it evicts. On an API server in memory nobody would bind, replace or
//! collect them, and every test of a drain would be a test of a world that does not exist. The simulated kube-controllers plays those parts,
//! towards any API server it gets a client for. Against a real control plane the real programs do all this: there it is not
//! run, and where the two differ, the simulated kube-controllers is wrong.
//!
//! | module | plays |
//! | --- | --- |
//! | `scheduler` | binding of pods to nodes, and saying why one fits nowhere |
//! | `workload` | ReplicaSets, StatefulSets, Deployments, DaemonSets |
//! | `disruption` | the status of PodDisruptionBudgets |
//! | `node_lifecycle` | silence, taints, evictions because of them, collection of orphaned pods |
//! | `volume` | claims and their volumes, VolumeAttachments and `volumesAttached` |
//!
//! What kubelets and CSI drivers do is the virtual cloud's part, and garbage collection and the end of namespaces are the API
//! server's. Every part can be left out ([`Part`]); each is a pure decision in a thin shell, woken by what changes and never
//! by a poll. [`Policy`] holds every period.

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
