//! Shared code of the cloud drivers.
//!
//! A driver implements the requests and responses of its cloud. The rest is here: [decoding](spec) and
//! [validation](provider_spec) of a `providerSpec`, [faults](fault), [credentials](secret), [HTTP](http),
//! [polling](poll), [error code tables](codes), [retries of reads](reads), [ownership of VMs](owned), [throttling and
//! capacity](pressure), [rate limits](rate_limiter), [cached credentials](credential_cache), [one create at a time](keyed_mutex) per
//! machine, and [redaction](redaction).
//!
//! Requests to a cloud are counted through their call (`driver::Call::asking`), so that `mcm_cloud_api_requests_total`
//! and related metrics are the same for built-in drivers and for drivers behind the protocol.

use std::sync::Arc;

use jiff::Timestamp;

pub mod codes;
pub mod credential_cache;
pub mod fault;
pub mod http;
pub mod keyed_mutex;
pub mod owned;
pub mod poll;
pub mod pressure;
pub mod provider_spec;
pub mod rate_limiter;
pub mod reads;
pub mod redaction;
pub mod secret;
pub mod spec;

/// Returns the current time. Injected, so that tests can control it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns a random number from zero to one. Injected, so that tests are deterministic.
pub type Chance = Arc<dyn Fn() -> f64 + Send + Sync>;
