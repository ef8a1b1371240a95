//! End-to-end suites: the programs of this project run as processes on a Kubernetes control plane. `cargo xtask` calls
//! them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `suites` | the suites by name, alone or side by side, and what they found |
//! | `rbac`, `counts`, `crash_table` | suites that are chores of their own |
//! | `size` | how large the shipped program is, and what it keeps resident |
//! | `moto` | installs moto, the EC2 that AWS is tested on |
//! | `openstack` | installs and starts the OpenStack that its driver is tested on |
//! | `control_plane` | starts and keeps a control plane for a person |
//! | `helm` | compiles helm |
//! | `held` | what a person leaves running: who holds it, under which name |
//! | `test_bed`, `web`, `workspace` | processes, HTTP and cargo, as the suites need them |

pub mod control_plane;
pub mod counts;
pub mod crash_table;
mod held;
pub mod helm;
pub mod moto;
pub mod openstack;
pub mod rbac;
pub mod shipped;
pub mod size;
pub mod suites;
mod test_bed;
mod web;
pub mod workspace;
