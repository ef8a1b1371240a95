//! Leader election with a Lease.
//!
//! The protocol is that of client-go, so replicas of Millwright and Go programs can use the same Lease. The Lease names its
//! holder, and the holder renews it. A candidate that has observed an unchanged Lease for a whole lease duration acquires it
//! with an update that fails on a conflict. Safety depends on these rules:
//!
//! - **Clocks of different machines are not compared.** The times in the Lease are informational. A candidate measures the
//!   lease duration with its monotonic clock, from the time it *observed* a change.
//! - **The holder measures from the request.** Its leadership ends a renew deadline after it *sent* the last successful
//!   renewal. Candidates observe the renewal later and wait longer (the lease duration). Therefore the holder has always
//!   stopped before the next one starts, independent of latency.
//! - **Leadership is checked by time.** [`Leadership::check`] compares the clock with the deadline. If a process was paused
//!   for a minute, the first check after that fails.
//! - **Lost leadership does not return.** The process must exit and start again.
//!
//! | file | content |
//! | --- | --- |
//! | `timing` | the three durations and their constraints |
//! | `record` | what to do with an observed Lease; no I/O |
//! | `elector` | the loop that reads, writes and waits |
//! | `leadership` | the handle that other tasks use to check leadership |
//! | `notes` | data for the next leader in annotations of the Lease |
//! | `metric` | the metric `millwright_leading` |

mod elector;
mod leadership;
mod metric;
mod notes;
mod record;
mod timing;

pub use elector::{ElectionConfig, Elector, Ended};
pub use leadership::{ElectionState, Leadership, Loss, NotLeading};
pub use notes::{Note, Notes};
pub use record::Identity;
pub use timing::{Timing, TimingError};

#[cfg(test)]
mod tests;
