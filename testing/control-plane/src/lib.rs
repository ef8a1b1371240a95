//! A real Kubernetes control plane, for tests.
//!
//! Every promise of Millwright is shown on the API server that production runs, not only on ours. So this crate compiles
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl from the Go modules that
//! `hack/control-plane/go.mod` pins, keeps them in the user's cache, and starts them on loopback: certificates made on the
//! fly, RBAC on, as many side by side as a test run wants.
//!
//! What it starts never outlives its starter, not even one that is killed without warning: see [`guard`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use control_plane::{Binaries, Cache, ControlPlane, Options, Recipe};
//!
//! let binaries = Binaries::find(&Cache::of_this_user()?, &Recipe::of_this_repository()?)?;
//! let plane = ControlPlane::start(Options::new(binaries)).await?;
//! plane.kubectl().args(["get", "namespaces"]).status()?;
//! plane.stop().await?;
//! # Ok(())
//! # }
//! ```

pub mod arguments;
pub mod authority;
pub mod cache;
pub mod compile;
pub mod guard;
pub mod kubeconfig;
pub mod leftovers;
pub mod options;
pub mod plane;
pub mod ports;
pub mod probe;
pub mod program;
pub mod recipe;
pub mod restore;
pub mod scripted;

pub use authority::User;
pub use cache::{Binaries, Cache};
pub use kubeconfig::Kubeconfig;
pub use options::{Options, Presence};
pub use plane::{ControlPlane, StartError};
pub use program::Program;
pub use recipe::Recipe;
