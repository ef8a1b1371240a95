//! What would happen if this were applied?
//!
//! A roll-out is decided by controllers, slowed down by boots, drains, budgets and volumes, and limited by quotas; nobody can compute it in the head. So it
//! is played: the objects of a cluster are read once and copied into an API server in memory, the change is applied to the copy, and the real controllers
//! act on it, in virtual time, against the virtual cloud. Hours pass in seconds. What is told (how many machines at once, how long, what holds it up)
//! is what was seen to happen there.
//!
//! The cluster itself is only listed ([`read`]). What the copy cannot know, how long VMs take to boot and pods to end, is taken from the times in the objects
//! ([`Times`]), else from the caller, and each assumption is told with the answer.
//!
//! | file | idea |
//! | --- | --- |
//! | `seen` | what is read of a cluster |
//! | `times` | how long things have taken so far |
//! | `copied` | objects as the copy needs them: our cloud, nodes named as their machines |
//! | `cluster` | the copy, with everybody who acts on it |
//! | `change` | what is applied |
//! | `record` | what happens then, machine by machine |
//! | `hold_ups` | what drains waited for |
//! | `forecast` | all of it, from the copy to the answer |
//! | `text`, `chart` | the answer for people, and as a drawing |

mod change;
mod chart;
mod cluster;
mod copied;
mod forecast;
mod hold_ups;
mod record;
mod seen;
mod text;
mod times;

#[cfg(test)]
mod tests;

pub use chart::svg;
pub use forecast::{Bar, Forecast, HoldUp, Options, forecast};
pub use seen::{ReadError, Seen, read};
pub use text::text;
pub use times::{Time, Times};
