//! An OpenStack for tests: Keystone, Nova, Neutron, Glance, Placement and Cinder from Debian's packages, with MariaDB
//! and RabbitMQ.
//!
//! `hack/openstack` contains the scripts that install it into the user's cache, once; `cargo xtask openstack build`
//! runs them. Any number can run in parallel, each on an overlay of the same root, in separate namespaces (mount, PID,
//! UTS), on ports of loopback. There is no hypervisor and no switch: a server is a row in Nova's databases, unless the
//! caller creates [a machine for it](machines). The rest is the production code.
//!
//! The processes never outlive the process that started them, even if it is killed: see [`control_plane::guard`].
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

pub use client::{ADMIN, Client, ClientError, READER, TENANT, User};
pub use installation::{InstallError, Installation, Installer};
pub use lab::{Lab, LabError, for_test};
pub use service::{Endpoint, Service};
