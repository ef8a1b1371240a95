//! A small controller runtime on top of kube's client. It knows nothing of machines.
//!
//! Nothing here is global: clock, randomness, metrics and tasks are values that are handed in, so that a test can run twenty
//! clusters side by side and a simulation can restart one.

pub mod bucket;
pub mod cache;
pub mod client;
pub mod clock;
pub mod entropy;
pub mod events;
pub mod expectations;
pub mod key;
pub mod lease;
pub mod logs;
pub mod metrics;
pub mod queue;
pub mod random;
pub mod signals;
pub mod tasks;
pub mod watchdog;

pub use backoff::{Backoff, Exponential};
pub use bucket::TokenBucket;
pub use clock::Clock;
pub use entropy::Entropy;
pub use events::EventSink;
pub use expectations::Expectations;
pub use key::Key;
pub use lease::Leadership;
pub use metrics::Metrics;
pub use queue::{Outcome, Queue};
pub use random::Random;
pub use tasks::Tasks;
pub use watchdog::Watchdog;
