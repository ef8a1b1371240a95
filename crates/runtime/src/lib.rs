//! A controller runtime on top of the client of kube. It does not depend on the Machine API.
//!
//! There is no global state: clock, randomness, metrics and tasks are parameters. Therefore a test can run many clusters in
//! parallel, and a simulation can restart a process.

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
