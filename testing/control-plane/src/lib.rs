//! A Kubernetes control plane for tests.
//!
//! Tests run against the API server that is used in production, not only against the fake one. So this crate compiles
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl from the Go modules that
//! `hack/control-plane/go.mod` pins, keeps them in the user's cache, and starts them on loopback: with new
//! certificates, with RBAC, and any number in parallel.
//!
//! The programs never outlive their parent process, even if it is killed: see [`guard`].
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
