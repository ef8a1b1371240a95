//! Leader election: of several candidates at most one acts.
//!
//! The protocol is client-go's, so that ours and Go replicas exclude each other. One Lease object names its holder. The holder
//! renews it; a candidate that has watched it stay unchanged for a whole lease duration takes it over, by a write that fails
//! if anyone else wrote first. What keeps this safe:
//!
//! - **No clock is compared with another machine's.** The times in the record are for people. A candidate counts the lease
//!   duration on its own monotonic clock, from the moment it *saw* the record change.
//! - **The holder counts from before.** Its right to act ends a renew deadline after it *sent* its last successful renewal.
//!   Nobody can have seen that renewal before it was sent, and everybody waits longer (the lease duration) after seeing it;
//!   so the holder has always stopped before the next one starts, however slow the answers are.
//! - **The right is checked by time, not by message.** [`Leadership::check`] compares the clock with the deadline. A process
//!   that was paused for a minute finds its right expired the moment it wakes, before any task of ours has run.
//! - **Once over, it is over.** A [`Leadership`] that was lost never comes back; the process ends and starts anew.
//!
//! | file | idea |
//! | --- | --- |
//! | `timing` | the three durations and what must hold between them |
//! | `record` | what to do about a record, given what was seen of it: pure |
//! | `elector` | the loop that reads, writes and waits |
//! | `leadership` | the handle everyone else holds |
//! | `notes` | what a leader leaves for the next one |
//! | `shown` | the same, as a number for whoever watches |

mod elector;
mod leadership;
mod notes;
mod record;
mod shown;
mod timing;

pub use elector::{Candidacy, Elector, Ended};
pub use leadership::{Leadership, Loss, NotLeading, Standing};
pub use notes::{Note, Notes};
pub use record::Identity;
pub use timing::{Timing, TimingError};

#[cfg(test)]
mod tests;
