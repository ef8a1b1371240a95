//! What every driver of a real cloud shares.
//!
//! A cloud's own driver knows its requests and its answers. What surrounds them is the same for all of them and is written
//! once, here: how a `providerSpec` is [decoded](spec), [what is wanted of it](provider_spec) and how its [faults](fault) are told, how [credentials](secret) are read,
//! how a request [travels](http) and what its failure says about the cloud, how something is [waited for](poll), what a
//! cloud's [error codes](codes) mean, how a read is [repeated](reads), which VMs are [ours](owned), how an account that is throttled is [spared](pressure) and
//! [waits](turns), how what expires is [fetched again](renewed), how a machine has [one create](one_at_a_time) at a time, and what must not
//! [be shown](redaction).
//!
//! Requests to a cloud are counted through the call that they belong to (`driver::Call::asking`), so that
//! `mcm_cloud_api_requests_total` and its like are the same for a driver that is built in and for one behind the protocol.

use std::sync::Arc;

use jiff::Timestamp;

pub mod codes;
pub mod fault;
pub mod http;
pub mod one_at_a_time;
pub mod owned;
pub mod poll;
pub mod pressure;
pub mod provider_spec;
pub mod reads;
pub mod redaction;
pub mod renewed;
pub mod secret;
pub mod spec;
pub mod turns;

/// The time of day, from whoever owns the clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A number from zero to one, from whoever owns the randomness.
pub type Chance = Arc<dyn Fn() -> f64 + Send + Sync>;
