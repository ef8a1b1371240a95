//! A real OpenStack, for tests: Keystone, Nova, Neutron, Glance, Placement and Cinder from Debian's packages, with MariaDB and RabbitMQ.
//!
//! `hack/openstack` has the scripts that install it into the user's cache, once; `cargo xtask openstack build` runs them. From there any number is started side by
//! side, each on an overlay of the same root, in namespaces of its own (mounts, processes, host name), on ports of loopback. No hypervisor and no switch are behind
//! it: a server is a row in Nova's databases, unless somebody outside makes [a machine of it](machines). Everything before that is what production runs.
//!
//! What is started never outlives its starter, not even one that is killed without warning: see [`control_plane::guard`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(lab) = lab_openstack::for_test("a_server_is_made").await? else { return Ok(()) };
//! let servers = lab.client(lab_openstack::TENANT).json(&["server", "list"]).await?;
//! lab.stop().await?;
//! # Ok(())
//! # }
//! ```

mod client;
mod installation;
mod lab;
pub mod machines;
pub mod nova;
mod service;
mod target;

pub use client::{ADMIN, Client, ClientError, LOOKER, TENANT, User};
pub use installation::{InstallError, Installation, Installer};
pub use lab::{Lab, LabError, for_test};
pub use service::{Endpoint, Service};
