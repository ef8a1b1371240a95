//! Simulates what happens if a change is applied.
//!
//! The duration of a rollout depends on controllers, boot times, drains, PodDisruptionBudgets, volumes and quotas. The
//! simulation reads the objects of a cluster once and copies them into an API server in memory. It applies the change
//! to the copy and runs the real controllers against the virtual cloud in virtual time, so hours take seconds. The
//! result contains what happened in the copy: the peak number of Machines, the duration and the delays.
//!
//! The real cluster is only listed ([`read`]). Boot times are measured from the objects ([`Times`]) or set by the
//! caller. Every assumption is part of the result.
//!
//! | file | content |
//! | --- | --- |
//! | `snapshot` | the objects that are read from a cluster |
//! | `times` | durations measured from these objects |
//! | `copy` | objects adapted for the copy: virtual cloud, Nodes named like their Machines |
//! | `cluster` | the copy with API server, cloud, kubelets and controllers |
//! | `change` | the change to apply |
//! | `record` | timestamps of each Machine |
//! | `delays` | what drains waited for |
//! | `forecast` | the simulation, from the copy to the result |
//! | `text`, `chart` | the result as text and as SVG |

mod change;
mod chart;
mod cluster;
mod copy;
mod delays;
mod forecast;
mod record;
mod snapshot;
mod text;
mod times;

#[cfg(test)]
mod tests;

pub use chart::svg;
pub use forecast::{Bar, Delay, Forecast, Options, forecast};
pub use snapshot::{ReadError, Snapshot, read};
pub use text::text;
pub use times::{Time, Times};
