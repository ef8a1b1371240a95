//! End-to-end suites: the programs of this project run as processes on a Kubernetes control plane. `cargo xtask` calls
//! them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `suites` | the suites by name, one by one or in parallel, and their results |
//! | `rbac`, `counts`, `crash_table` | suites that are also xtask commands |
//! | `size` | size and resident memory of the shipped program |
//! | `moto` | installs moto, the EC2 for tests of AWS |
//! | `openstack` | installs and starts OpenStack for tests of its driver |
//! | `control_plane` | starts a control plane for manual tests |
//! | `helm` | compiles helm |
//! | `held` | instances that run in the background, by name |
//! | `test_bed`, `web`, `workspace` | processes, HTTP and cargo for the suites |

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
